"""Which topics a group has read, noted with every offset it commits.

Kafka deletes a group's offsets of a topic together with the topic; one that is created again under
the same name begins anew, while the application's state stays. So each committed offset tells the
ids of all topics the application reads: those of the others outlive the deletion of one.

Format: entries of processor metadata (`offsets`), one a topic, of which Kafka Streams has no use:

    pystreams-topic <name> <id>

    pystreams-topic flights Nr3xBVxuTSO7dmSQ9Vb1zw

What does not fit into `ENTRIES_MAX_BYTES` is left out, the topic's own never: Kafka refuses more
than 4096 bytes in all (`offset.metadata.max.bytes`). Beginning with its own, each topic's offsets
take the ids in turn, so that what one leaves out others have.

Spec: KIP-516 (a topic that is created again has another id).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pystreams.runtime.core.offsets import encode_entries, entries_of

ENTRIES_MAX_BYTES = 1500
"""Of entries, which base64 makes a third longer."""

_PREFIX = "pystreams-topic "
_NO_ID = "A" * 22
"""What brokers before Kafka 2.8 give all topics."""


def known_ids(ids: Mapping[str, str]) -> dict[str, str]:
    """Return those ids that tell topics apart."""
    return {topic: topic_id for topic, topic_id in ids.items() if topic_id != _NO_ID}


def entries_by_topic(ids: Mapping[str, str]) -> dict[str, bytes]:
    """Return for each topic what is committed with its offsets.

    Args:
        ids: The id of each topic the application reads.
    """
    topics = sorted(ids)
    return {
        topic: _entries(topics[number:] + topics[:number], ids)
        for number, topic in enumerate(topics)
    }


def _entries(topics: Iterable[str], ids: Mapping[str, str]) -> bytes:
    entries = b""
    keys: list[str] = []
    for topic in topics:
        keys.append(f"{_PREFIX}{topic} {ids[topic]}")
        more = encode_entries(keys)
        if entries and len(more) > ENTRIES_MAX_BYTES:
            break
        entries = more
    return entries


def noted_ids(metadata: str) -> dict[str, str]:
    """Return the ids of topics that a committed offset's metadata tells, by their names."""
    found = {}
    for key in entries_of(metadata):
        if key.startswith(_PREFIX):
            topic, _, topic_id = key.removeprefix(_PREFIX).partition(" ")
            found[topic] = topic_id
    return found
