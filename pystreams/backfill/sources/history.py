"""The history a backfill reads: a DataFrame of records, and what is known of its partitions.

A source of history (`ArchiveSource`, or one of your own) reads it. What it must give is a `History`
whose frame has the columns of `rows.HISTORY_TYPE`, one row a record, each offset once.
`history_checks` counts and checks the rows of one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from pystreams.backfill.plan.identity import BackfillIdentity
from pystreams.backfill.plan.partition_bounds import PartitionBounds
from pystreams.errors import StreamsError
from pystreams.ids import TopicPartition
from pystreams.kernel.loggers import get_logger
from pystreams.record import ConsumedMessage
from pystreams.topology.plan.topology_plan import TopologyPlan

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_log = get_logger("pystreams.backfill")


class HistoryError(StreamsError):
    """The history can't be read as records. Names the file or column, and what to do."""


@dataclass(frozen=True, slots=True)
class History:
    """History as Spark reads it.

    Attributes:
        frame: Makes the frame: columns of `rows.HISTORY_TYPE`; may hold rows of other topics.
            Called when there is a stage that needs rows.
        bounds: Each partition that has records or is known to be empty.
        num_partitions: Partition counts of topics: of all that are read and, where they are known,
            of those that are written.
        gaps_allowed: Whether offsets may be missing (compacted topics, transactions).
        reader: Reads partitions within workers. Then a stage that reads nothing but history needs
            no shuffle, and nothing of the frame. None where only Spark can read.
        computed_offsets: Whether the offsets are not Kafka's: the results may not be handed over,
            since nobody knows where the live application would go on.
        guessed_partitions: Whether the partitions may not be Kafka's: the same, since offsets may
            be those of another partition.
        asked: What bounds were asked for by something else than offsets, which may mean other
            offsets when it is asked again: what is bounded, and by what, as texts.
    """

    frame: Callable[[], DataFrame]
    bounds: Mapping[TopicPartition, PartitionBounds]
    num_partitions: Mapping[str, int]
    gaps_allowed: bool
    reader: PartitionReader | None = None
    asked: Mapping[str, str] = field(default_factory=dict)
    computed_offsets: bool = False
    guessed_partitions: bool = False

    def newest_ms(self) -> int | None:
        """Return the largest timestamp (ms), None without records; reads that column of the frame.

        For a plan: nothing that runs waits for it.
        """
        from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

        topics = sorted({partition.topic for partition in self.bounds})
        own = self.frame().filter(F.col("topic").isin(topics))
        newest: int | None = own.agg(F.max("timestamp")).collect()[0][0]
        return newest


@dataclass(frozen=True, slots=True)
class WantedTopics:
    """Which topics a topology reads from outside.

    Attributes:
        patterns: Patterns that more of them match.
        begun: The bounds with which this backfill was begun before; empty when it was not. A source
            that grows keeps to them: results of some stages are there.
        begun_topics: The topics that there were then; None when it was not begun.
        written: Topics that the topology writes itself: of those it also reads, a history may have
            no records.
    """

    names: tuple[str, ...]
    patterns: tuple[re.Pattern[str], ...]
    begun: Mapping[TopicPartition, PartitionBounds] = field(default_factory=dict)
    begun_topics: frozenset[str] | None = None
    written: frozenset[str] = frozenset()

    @classmethod
    def of(cls, plan: TopologyPlan, begun: BackfillIdentity | None) -> WantedTopics:
        """Return what a topology reads.

        Args:
            begun: What was begun before; None when nothing was.
        """
        names = (*plan.source_topics(), *plan.global_topics())
        patterns = tuple(plan.source_patterns())
        written = frozenset(plan.sink_topics())
        if begun is None:
            return cls(names, patterns, written=written)
        bounds = begun.partition_bounds()
        # An archive's topic without records has a count, and no bounds; an internal one is no part.
        counted = begun.num_partitions.keys() - plan.repartition_topics().keys()
        topics = frozenset(counted) | {partition.topic for partition in bounds}
        return cls(names, patterns, bounds, topics, written)

    def among(self, topics: Iterable[str]) -> list[str]:
        """Return those of some topics that are wanted, sorted."""
        return sorted(
            topic
            for topic in set(topics)
            if topic in self.names or any(pattern.fullmatch(topic) for pattern in self.patterns)
        )

    def came_later(self, topics: Iterable[str]) -> frozenset[str]:
        """Return those of some topics that only a pattern names, and that were not there at first.

        They are no part of a backfill that was begun without them: the live application reads them,
        from where `auto.offset.reset` says.
        """
        if self.begun_topics is None:
            return frozenset()
        return frozenset(self.among(topics)) - self.begun_topics - frozenset(self.names)


class PartitionReader(Protocol):
    """Reads partitions in Spark's workers; is pickled on its way there."""

    def read(
        self, partition: TopicPartition, bounds: PartitionBounds
    ) -> Generator[Sequence[ConsumedMessage]]:
        """Return the records of a partition within its bounds, in order, some at a time.

        The generator is closed when it is not read to its end.

        Raises:
            StreamsError: The records can't be read, or are not there any more.
        """


class HistorySource(Protocol):
    """Where history comes from; implement it for a source of your own."""

    def read(self, spark: SparkSession, wanted: WantedTopics) -> History:
        """Return the history of the wanted topics.

        Raises:
            HistoryError: It can't be read, or is not what it should be.
        """


def without_later(num_partitions: Mapping[str, int], later: AbstractSet[str]) -> dict[str, int]:
    """Return partition counts without those of topics that came later; tell the log of these.

    Args:
        num_partitions: Counts, by topic.
        later: See `WantedTopics.came_later`.
    """
    if later:
        _log.warning(
            "topics that came after the backfill was begun are left to the live application, which "
            "reads them from where auto.offset.reset says",
            topics=sorted(later),
        )
    return {topic: count for topic, count in num_partitions.items() if topic not in later}
