"""Which topics a group has read, and how many partitions they had, noted with offsets it commits.

Kafka deletes a group's offsets of a topic together with the topic; one that is created again under
the same name begins anew, while the application's state stays. So each committed offset tells the
ids of all topics the application reads: those of the others outlive the deletion of one.

Format: entries of processor metadata (`offsets`), one a topic, of which Kafka Streams has no use:

    pystreams-topic <name> <id>

    pystreams-topic flights Nr3xBVxuTSO7dmSQ9Vb1zw

What does not fit into `ENTRIES_MAX_BYTES` is left out, the topic's own never: each commit of each
partition carries it, and Kafka refuses more than 4096 bytes (`offset.metadata.max.bytes`).
Beginning with its own, each topic's offsets take the ids in turn, so that what one leaves out
others have.

A topic that tables are restored from has nothing else that tells how many partitions it had when
its rows were read; its own offsets tell it, and outlive partitions that are added:

    pystreams-partitions <name> <number of partitions>

Spec: KIP-516 (a topic that is created again has another id).
"""

from __future__ import annotations

from collections.abc import Mapping

from pystreams.ids import NO_TOPIC_ID
from pystreams.runtime.cluster.committed_offsets import encode_entries, entries_of

ENTRIES_MAX_BYTES = 600
"""Of entries, which base64 makes a third longer."""

_PREFIX = "pystreams-topic "
_PARTITIONS_PREFIX = "pystreams-partitions "


def known_ids(ids: Mapping[str, str]) -> dict[str, str]:
    """Return those ids that tell topics apart."""
    return {topic: topic_id for topic, topic_id in ids.items() if topic_id != NO_TOPIC_ID}


def keys_to_note(ids: Mapping[str, str], topic: str) -> list[str]:
    """Return the keys of the entries that are committed with an offset of a topic.

    Args:
        ids: The id of each source topic the application reads.
        topic: One of them, or a repartition topic.
    """
    topics = sorted(ids)
    number = topics.index(topic) if topic in ids else 0
    keys: list[str] = []
    for name in topics[number:] + topics[:number]:
        more = [*keys, f"{_PREFIX}{name} {ids[name]}"]
        if keys and len(encode_entries(more)) > ENTRIES_MAX_BYTES:
            break
        keys = more
    return keys


def noted_ids(metadata: str) -> dict[str, str]:
    """Return the ids of topics that a committed offset's metadata tells, by their names."""
    found = {}
    for entry in entries_of(metadata, _PREFIX):
        topic, _, topic_id = entry.partition(" ")
        found[topic] = topic_id
    return found


def partitions_to_note(counts: Mapping[str, int], topic: str) -> list[str]:
    """Return the keys that tell, with an offset of a topic, how many partitions it has.

    Args:
        counts: Of each topic of which that is to be noted.
        topic: Any topic that is read.
    """
    return [f"{_PARTITIONS_PREFIX}{topic} {counts[topic]}"] if topic in counts else []


def noted_partitions(metadata: str, topic: str) -> int:
    """Return how many partitions a topic had, as its offset's metadata tells; 0 if it does not."""
    counts = entries_of(metadata, f"{_PARTITIONS_PREFIX}{topic} ")
    return int(counts[0]) if counts and counts[0].isdecimal() else 0
