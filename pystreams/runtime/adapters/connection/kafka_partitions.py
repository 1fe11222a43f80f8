"""Partitions and offsets, ours and the client's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from confluent_kafka import OFFSET_INVALID
from confluent_kafka import TopicPartition as KafkaPartition

from pystreams.ids import TopicPartition
from pystreams.runtime.adapters.connection.confluent import Consumer
from pystreams.runtime.cluster.committed_offsets import CommittedOffset


def theirs(partition: TopicPartition, offset: int = OFFSET_INVALID) -> KafkaPartition:
    """Return a partition as the client wants it, at an offset if given."""
    return KafkaPartition(partition.topic, partition.partition, offset)


def ours(partition: KafkaPartition) -> TopicPartition:
    """Return a partition of the client's as we name it."""
    return TopicPartition(partition.topic, partition.partition)


def watermarks(
    client: Consumer, partition: TopicPartition, timeout_s: float
) -> tuple[int, int] | None:
    """Return the first offset that is there and the one behind the last, as the broker says now.

    None without an answer: in time, or of a broker that died under the question, for which the
    client has no error either.

    Raises:
        KafkaException: The client has an error.
    """
    found: Any = client.get_watermark_offsets(theirs(partition), timeout=timeout_s)
    if found is None or OFFSET_INVALID in found:
        return None
    first, last = found
    return int(first), int(last)


def offsets_to_commit(offsets: Mapping[TopicPartition, CommittedOffset]) -> list[KafkaPartition]:
    """Return offsets to commit as the client wants them."""
    return [
        KafkaPartition(partition.topic, partition.partition, offset.next_offset, offset.metadata)
        for partition, offset in offsets.items()
    ]


def committed_offset(partition: KafkaPartition) -> CommittedOffset:
    """Return an offset that the client has read for a group.

    The client reads on behind a metadata text that does not end with a zero byte, as those that it
    commits itself do: behind Kafka Streams' text stand bytes of whatever was in memory before.
    """
    try:
        metadata = partition.metadata or ""
    except UnicodeDecodeError as error:
        metadata = error.object.decode(errors="replace")
    return CommittedOffset(partition.offset, metadata)
