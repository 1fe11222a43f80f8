"""What is published: results of a backfill or rescale, and where the live application goes on.

Offsets of a task's source partitions while it is published, and after:

| partition | while published | handed over |
|---|---|---|
| of the user's topic | where its history begins | behind the last record of its history |
| of a topic the topology itself feeds | its present end | the same; see below |

A repartition topic is not published: what was in it has had its effect downstream, in this same
backfill. So the live application goes on at the end the topic has when the publication begins, 0
for a new one: nobody writes there before the hand-over, and what an earlier life of the application
left there is not part of this one. The partition time of the history is kept, so that stream time
does not fall.

The same holds for a topic of the user's that the topology both writes and reads. With its records
published as well, the application goes on behind them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from pystreams.backfill.plan.rows import Result, ResultKind
from pystreams.ids import TaskId, TopicPartition
from pystreams.runtime.cluster.committed_offsets import UNKNOWN_TIME


class PublishingCommand(StrEnum):
    """What made the results that are published: what messages to the user call it."""

    BACKFILL = "backfill"
    RESCALE = "rescale"


@dataclass(frozen=True, slots=True)
class PartitionHistory:
    """What of a source partition the backfill has covered.

    Attributes:
        start: The first offset of the history.
        next_offset: The offset behind its last record; `start` when it had none. Of a topic the
            topology feeds, behind what it held before.
        partition_time: The highest timestamp (ms), -1 when it had no record.
        numbers: What operators commit with the offset.
    """

    start: int
    next_offset: int
    partition_time: int = UNKNOWN_TIME
    numbers: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TaskResults:
    """The results of one task.

    Attributes:
        num_rows: How many output and state rows it has.
        rows: Returns its output and state rows from the given one on, always in the same order.
        timestamps: Returns the timestamps of the same rows (ms), some at a time, with the kind and
            name of each: the topic, or the store.
    """

    task_id: TaskId
    histories: Mapping[TopicPartition, PartitionHistory]
    num_rows: int
    rows: Callable[[int], Iterator[Result]]
    timestamps: Callable[[], Iterator[tuple[ResultKind, str, Sequence[int]]]]


@dataclass(frozen=True, slots=True)
class Publication:
    """Results, and what they are of.

    Attributes:
        id: Identifies the rows: the same whenever they are read, another when any of them were
            made again. Letters, digits and `-`.
        num_partitions: Partition count of each source and repartition topic, by real name.
        tasks: The tasks, those that feed others before them.
        edge_topics: Topics that the topology both writes and reads, by real name.
        written: The user's topics that output records are for, each with the partition count by
            which these were placed.
    """

    id: str
    num_partitions: Mapping[str, int]
    tasks: Sequence[TaskResults]
    edge_topics: frozenset[str]
    written: frozenset[tuple[str, int]]
    command: PublishingCommand = PublishingCommand.BACKFILL

    @property
    def histories(self) -> dict[TopicPartition, PartitionHistory]:
        """The source partitions of all tasks."""
        return {
            partition: history
            for task in self.tasks
            for partition, history in task.histories.items()
        }


class PublishedRecords(NamedTuple):
    """Records of one task that have been published.

    Attributes:
        by_earlier_run: Whether an earlier, interrupted run has done it; else it was one transaction
            just now.
    """

    task_id: TaskId
    records: int
    by_earlier_run: bool
