"""Splits what one poll returned by partition, in as few steps a message as Python allows.

Messages come in runs of one partition, because librdkafka queues what a fetch brought partition
by partition. So the split groups runs in C (`itertools.groupby` over the client's own methods)
and merges them: 0.03 us a message with one topic, 0.1 us with several, nothing with one partition.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Any, cast

from confluent_kafka import Message

from pystreams.ids import TopicPartition
from pystreams.record import ConsumedMessage, offset_of
from pystreams.runtime.ports import PartitionBatch

_topic_of = Message.topic
_partition_of = Message.partition


class PartitionSplitter:
    """Knows the assigned partitions and splits messages by them; others are dropped."""

    def __init__(self) -> None:
        self._by_topic: dict[str, dict[int, TopicPartition]] = {}
        self._only_partition: TopicPartition | None = None
        self._only_topic: dict[int, TopicPartition] | None = None

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Take the whole assignment, replacing the one before."""
        assigned = list(partitions)
        self._by_topic = {}
        for partition in assigned:
            self._by_topic.setdefault(partition.topic, {})[partition.partition] = partition
        self._only_partition = assigned[0] if len(assigned) == 1 else None
        topics = list(self._by_topic.values())
        self._only_topic = topics[0] if len(topics) == 1 else None

    def find(self, message: Message) -> TopicPartition | None:
        """Return the assigned partition of one message, or None."""
        topic, partition = message.topic(), message.partition()
        if topic is None or partition is None:
            return None
        return self._by_topic.get(topic, {}).get(partition)

    def split(self, messages: list[Message]) -> list[PartitionBatch]:
        """Return the messages by partition, each in their order.

        All must be of partitions that were assigned when they were fetched; if the assignment has
        changed since, filter with `find` first.
        """
        if self._only_partition is not None:
            return [PartitionBatch(self._only_partition, cast("list[ConsumedMessage]", messages))]
        found: dict[TopicPartition, list[ConsumedMessage]] = {}
        if self._only_topic is not None:
            _split_topic(messages, self._only_topic, found)
        else:
            for topic, run in groupby(messages, _topic_of):
                _split_topic(run, self._by_topic.get(topic or "", {}), found)
        return [PartitionBatch(partition, batch) for partition, batch in found.items()]


def next_offset(messages: Sequence[ConsumedMessage]) -> int:
    """Return the offset behind the last of some consumed messages."""
    return offset_of(messages[-1]) + 1


def _split_topic(
    messages: Iterable[Any],
    partitions: dict[int, TopicPartition],
    found: dict[TopicPartition, list[ConsumedMessage]],
) -> None:
    for number, run in groupby(messages, _partition_of):
        partition = partitions.get(-1 if number is None else number)
        if partition is None:
            continue
        batch = found.get(partition)
        if batch is None:
            found[partition] = list(run)
        else:
            batch.extend(run)
