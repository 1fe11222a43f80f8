"""Names of the things the runtime moves around: partitions and tasks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

NO_TOPIC_ID = "A" * 22
"""What brokers before Kafka 2.8, where topics have no ids, give as the id of each."""


_GLOBAL_STORES = "global stores"


class TopicPartition(NamedTuple):
    """One partition of one topic; prints as Kafka does, `topic-partition`."""

    topic: str
    partition: int

    def __str__(self) -> str:
        """Return `topic-partition`, which is also the key of the `offsets` column family."""
        return f"{self.topic}-{self.partition}"


def all_partitions(topics: Iterable[str], counts: Mapping[str, int]) -> list[TopicPartition]:
    """Return all partitions of topics, of each as many as it has."""
    return [TopicPartition(topic, number) for topic in topics for number in range(counts[topic])]


def firsts_of(topics: Iterable[str]) -> list[TopicPartition]:
    """Return the first partition of each topic: what every topic has."""
    return [TopicPartition(topic, 0) for topic in topics]


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """Return the partition numbers of each topic, sorted: the short form for a log."""
    numbers: dict[str, list[int]] = {}
    for topic, number in sorted(partitions):
        numbers.setdefault(topic, []).append(number)
    return numbers


@dataclass(frozen=True, slots=True, order=True)
class TaskId:
    """A task: one partition of one sub-topology. Prints as `0_3`, its directory's name."""

    subtopology: int
    partition: int

    def __str__(self) -> str:
        """Return `<sub-topology>_<partition>`."""
        return f"{self.subtopology}_{self.partition}"

    @property
    def told(self) -> str:
        """What errors call it: `task 0_3`; that of the global stores, which is no task, so."""
        return f"task {self}" if self.subtopology >= 0 else _GLOBAL_STORES

    @property
    def logged(self) -> str:
        """What the log calls it: `0_3`, or `global stores`."""
        return str(self) if self.subtopology >= 0 else _GLOBAL_STORES

    @classmethod
    def parse(cls, text: str) -> TaskId:
        """Read `<sub-topology>_<partition>`.

        Raises:
            ValueError: The text is not a task id.
        """
        subtopology, _, partition = text.partition("_")
        return cls(int(subtopology), int(partition))
