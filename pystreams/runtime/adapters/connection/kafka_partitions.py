"""Partitions and offsets, ours and the client's."""

from __future__ import annotations

from collections.abc import Mapping

from confluent_kafka import OFFSET_INVALID
from confluent_kafka import TopicPartition as KafkaPartition

from pystreams.ids import TopicPartition
from pystreams.runtime.cluster.committed_offsets import CommittedOffset


def theirs(partition: TopicPartition, offset: int = OFFSET_INVALID) -> KafkaPartition:
    """Return a partition as the client wants it, at an offset if given."""
    return KafkaPartition(partition.topic, partition.partition, offset)


def ours(partition: KafkaPartition) -> TopicPartition:
    """Return a partition of the client's as we name it."""
    return TopicPartition(partition.topic, partition.partition)


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
