"""Splitting messages by partition."""

from __future__ import annotations

from confluent_kafka import Message

from pystreams import TopicPartition
from pystreams.runtime.adapters.consuming.partition_splitter import PartitionSplitter

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)


def messages(*of: TopicPartition) -> list[Message]:
    return [
        Message(topic=partition.topic, partition=partition.partition, offset=offset)
        for offset, partition in enumerate(of)
    ]


def split(assigned: list[TopicPartition], found: list[Message]) -> dict[TopicPartition, list[int]]:
    splitter = PartitionSplitter()
    splitter.assign(assigned)
    return {
        partition: [message.offset() or 0 for message in batch]
        for partition, batch in splitter.split(found)
    }


def test_one_partition_takes_everything() -> None:
    assert split([A0], messages(A0, A0)) == {A0: [0, 1]}


def test_runs_of_a_partition_are_joined_in_order() -> None:
    assert split([A0, A1], messages(A0, A1, A1, A0)) == {A0: [0, 3], A1: [1, 2]}
    assert split([A0, A1, B0], messages(B0, A0, B0, A1, A1)) == {
        B0: [0, 2],
        A0: [1],
        A1: [3, 4],
    }


def test_partitions_that_are_not_assigned_are_dropped() -> None:
    assert split([A1, B0], messages(A0, A1, B0)) == {A1: [1], B0: [2]}
    assert split([], messages(A0)) == {}


def test_a_message_finds_its_partition() -> None:
    splitter = PartitionSplitter()
    splitter.assign([A0])
    (known, other) = messages(A0, B0)
    assert splitter.find(known) == A0
    assert splitter.find(other) is None
