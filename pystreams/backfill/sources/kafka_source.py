"""History from Kafka itself: read by the workers, or through Spark's Kafka connector.

A stage that reads nothing but topics is read by its workers (`partition_reader`); one that merges
them with what an earlier stage has written, by the connector.

The bounds of each partition are fixed before anything is read, so that the history is the same
however long the backfill takes and however often it runs: from the first offset, an offset or a
time, up to the last stable offset at the start, an offset or a time. Only committed records are
read. Offsets have gaps then (markers and records of aborted transactions, compaction), and the
history goes up to its bound whether or not the last offsets are records: the live application goes
on right there.

Differs from Spark: `timestamp` is milliseconds, and a topic is read by explicit offsets only.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import reduce
from typing import TYPE_CHECKING

from pystreams.backfill.broker_waiting import REAL_WAITING, Waiting
from pystreams.backfill.plan.partition_bounds import PartitionBounds
from pystreams.backfill.plan.rows import HISTORY_TYPE
from pystreams.backfill.plan.stages import merges_history
from pystreams.backfill.sources.connector_security import security_options
from pystreams.backfill.sources.history import (
    History,
    HistoryError,
    PartitionReader,
    WantedTopics,
    without_later,
)
from pystreams.backfill.sources.partition_reader import KafkaPartitionReader
from pystreams.config import StreamsConfig
from pystreams.errors import MissingSourceTopicError
from pystreams.ids import TopicPartition, all_partitions, firsts_of
from pystreams.runtime.cluster.committed_offsets import OffsetRange
from pystreams.runtime.ports import AdminPort
from pystreams.topology.plan.topology_plan import TopologyPlan

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_FIXED_OPTIONS = frozenset(
    {
        "assign",
        "subscribe",
        "subscribepattern",
        "startingoffsets",
        "endingoffsets",
        "startingtimestamp",
        "endingtimestamp",
        "startingoffsetsbytimestamp",
        "endingoffsetsbytimestamp",
        "includeheaders",
        "kafka.bootstrap.servers",
        "kafka.isolation.level",
    }
)


@dataclass(frozen=True, slots=True)
class KafkaBound:
    """Where the history of some partitions begins, or ends.

    Attributes:
        times_ms: Times (ms since the epoch), by topic: the first record at or after it.
    """

    offsets: Mapping[TopicPartition, int] = field(default_factory=dict)
    times_ms: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class KafkaSource:
    """History that is still in Kafka; `KafkaSource.of(config)` makes one from a configuration.

    Attributes:
        bootstrap_servers: The brokers, as Spark's workers reach them.
        admin: Asks the brokers for topics and offsets.
        start: Where partitions begin, as far as not at their first offset.
        end: Where they end (the record there is not read), as far as not at their end now.
        options: More options of Spark's reader, such as `kafka.fetch.max.bytes`; a
            backfill in which no stage needs the reader refuses them.
        reader: Reads partitions within the workers; None leaves all to Spark's reader.
        config: The configuration by whose TLS and login Spark's reader reaches the brokers; None
            leaves both to the options.
    """

    bootstrap_servers: str
    admin: AdminPort
    start: KafkaBound = field(default_factory=KafkaBound)
    end: KafkaBound = field(default_factory=KafkaBound)
    options: Mapping[str, str] = field(default_factory=dict)
    reader: PartitionReader | None = None
    waiting: Waiting = REAL_WAITING
    config: StreamsConfig | None = field(default=None, repr=False)

    @classmethod
    def of(
        cls,
        config: Mapping[str, object] | StreamsConfig,
        *,
        start: KafkaBound | None = None,
        end: KafkaBound | None = None,
        options: Mapping[str, str] | None = None,
    ) -> KafkaSource:
        """Return the source that reads as the live application would: with its configuration.

        Args:
            start: Where partitions begin, as far as not at their first offset.
            end: Where they end, as far as not at their end when the backfill is begun.
            options: More options of Spark's Kafka connector, for stages that need it.

        Raises:
            ConfigError: `bootstrap.servers` or another key is missing or wrong.
        """
        # Imported here: Spark's workers import this package, and talk to no broker for that.
        from pystreams.runtime.adapters.client_factory import ConfluentClients

        own = config if isinstance(config, StreamsConfig) else StreamsConfig.of(config)
        return cls(
            own.bootstrap_servers,
            ConfluentClients(own).admin(),
            start or KafkaBound(),
            end or KafkaBound(),
            options or {},
            KafkaPartitionReader(own),
            config=own,
        )

    @property
    def asked(self) -> dict[str, str]:
        """The bounds that are times; see `History.asked`."""
        return {
            f"the {what} of {topic}": datetime.fromtimestamp(ms / 1000, UTC).isoformat()
            for what, bound in (("start", self.start), ("end", self.end))
            for topic, ms in bound.times_ms.items()
        }

    def needs_connector(self, plan: TopologyPlan, wanted: WantedTopics) -> bool:
        """Return whether Spark's Kafka connector is needed: workers can't read all themselves.

        Options are for the connector alone: those that would have no effect are refused. Whether it
        has one of that name is not known.

        Raises:
            HistoryError: The backfill sets an option itself, or nothing needs the connector.
            ConfigError: The connector can't reach brokers as the configuration says.
            BrokerNotAvailableError: No broker answered.
            TopologyError: The topology can't run as a backfill.
        """
        self._refuse_fixed_options()
        is_needed = self.reader is None or self._merges_history(plan, wanted)
        if self.options and not is_needed:
            raise HistoryError(
                f"option {min(self.options)!r} is for Spark's Kafka connector, and no stage of "
                "this topology needs it: workers read Kafka themselves, with the application's "
                "configuration. Leave the option out; what clients are to be told, such as "
                "security.protocol, goes into the configuration, in librdkafka's names"
            )
        if is_needed:
            self.connector_options()
        return is_needed

    def connector_options(self) -> dict[str, str]:
        """Return with what Spark's reader reaches the brokers, and reads: the user's, and ours.

        Raises:
            HistoryError: The user gives an option that is ours.
            ConfigError: Java's client can't be told what the configuration says.
        """
        self._refuse_fixed_options()
        security = {} if self.config is None else security_options(self.config, self.options)
        return {
            "failOnDataLoss": "true",
            **security,
            **self.options,
            "kafka.bootstrap.servers": self.bootstrap_servers,
            "kafka.isolation.level": "read_committed",
            "includeHeaders": "true",
        }

    def _merges_history(self, plan: TopologyPlan, wanted: WantedTopics) -> bool:
        counts = self.admin.partition_counts()
        later = wanted.came_later(counts)
        return merges_history(plan, {name: counts[name] for name in counts.keys() - later})

    def _refuse_fixed_options(self) -> None:
        fixed = sorted(name for name in self.options if name.lower() in _FIXED_OPTIONS)
        if fixed:
            raise HistoryError(f"option {fixed[0]!r} is set by the backfill itself: leave it out")

    def read(self, spark: SparkSession, wanted: WantedTopics) -> History:
        """Return the history; see `HistorySource`.

        Raises:
            HistoryError: A bound is not in its partition, or the session has no Kafka connector.
            MissingSourceTopicError: A topic does not exist.
        """
        self._refuse_fixed_options()
        counts, bounds = self.bounds(wanted)
        return History(
            lambda: self._frame(spark, bounds),
            bounds,
            counts,
            gaps_allowed=True,
            reader=self.reader,
            asked=self.asked,
        )

    def bounds(
        self, wanted: WantedTopics
    ) -> tuple[dict[str, int], dict[TopicPartition, PartitionBounds]]:
        """Return the partition count of all topics, and the bounds of the wanted ones.

        Those with which a backfill was begun stay, whatever has come since; topics that a pattern
        matches since then are left out of both. Whether a partition still holds what is missing is
        seen when it is read; perhaps nothing is.

        Raises:
            HistoryError: A bound is not in its partition, or not the one it was begun with.
            MissingSourceTopicError: A topic does not exist.
            RetriableClientError: Brokers did not tell offsets, however often they were asked.
        """
        there = self.admin.partition_counts(awaited=firsts_of(wanted.names))
        counts = without_later(there, wanted.came_later(there))
        missing = [name for name in wanted.names if name not in counts]
        if missing:
            raise MissingSourceTopicError(missing, self.admin.reached_with)
        topics = wanted.among(counts)
        partitions = all_partitions(topics, counts)
        self._refuse_unknown(partitions)
        self._refuse_other_than(wanted.begun)
        new = [partition for partition in partitions if partition not in wanted.begun]
        # Before the ends, so that none is behind its partition's.
        starts = self._offsets(self.start, new)
        ends = self._offsets(self.end, new)
        # The leader of a topic that has just been made may still have to learn of it.
        ranges = self.waiting.until_answered(lambda: self.admin.offset_ranges(partitions))
        found = {}
        for partition in partitions:
            held = ranges[partition]
            if partition in wanted.begun:
                found[partition] = wanted.begun[partition]
                _check_end(partition, found[partition], held)
                continue
            first = _or_end(starts.get(partition, held.beginning), held)
            end = _or_end(ends.get(partition), held)
            _check(partition, first, end, held)
            found[partition] = PartitionBounds(first, end, end - first)
        return counts, found

    def _offsets(
        self, bound: KafkaBound, partitions: Sequence[TopicPartition]
    ) -> dict[TopicPartition, int | None]:
        """Return the offsets that were chosen; None where no stable record is at or after a time.

        That is so behind the last record, and behind the first of an open transaction.
        """
        times = {
            partition: bound.times_ms[partition.topic]
            for partition in partitions
            if partition[0] in bound.times_ms
        }
        at_times = self.waiting.until_answered(lambda: self.admin.offsets_at(times))
        return {partition: at_times.get(partition) for partition in times} | dict(bound.offsets)

    def refuse_other_bounds(self, begun: Mapping[TopicPartition, PartitionBounds]) -> None:
        """Refuse offsets that are not those of a backfill that is complete; asks no broker.

        Args:
            begun: The bounds of all its partitions.

        Raises:
            HistoryError: A bound is another offset, or of something else.
        """
        self._refuse_unknown(list(begun))
        self._refuse_other_than(begun)

    def _refuse_other_than(self, begun: Mapping[TopicPartition, PartitionBounds]) -> None:
        """Refuse offsets that are not those with which the backfill was begun."""
        for partition, has in begun.items():
            chosen = (
                ("begin", has.first, self.start.offsets.get(partition, has.first)),
                ("end", has.end, self.end.offsets.get(partition, has.end)),
            )
            for what, was, now in chosen:
                if now != was:
                    raise HistoryError(
                        f"the history of {partition} is to {what} at offset {now}, and the "
                        f"backfill was begun with {was}: choose that, or leave it out; or take "
                        "another directory"
                    )

    def _refuse_unknown(self, partitions: Sequence[TopicPartition]) -> None:
        topics = {partition.topic for partition in partitions}
        for what, bound in (("start", self.start), ("end", self.end)):
            unknown = [str(partition) for partition in bound.offsets if partition not in partitions]
            unknown += [f"topic {topic!r}" for topic in bound.times_ms if topic not in topics]
            if unknown:
                raise HistoryError(
                    f"the {what} of {unknown[0]} is given, which the backfill does not read: it "
                    f"reads {', '.join(sorted(topics))}"
                )

    def _frame(
        self, spark: SparkSession, bounds: Mapping[TopicPartition, PartitionBounds]
    ) -> DataFrame:
        """Return the records, a scan a topic: a stage that reads one does not scan the others."""
        from pyspark.errors import AnalysisException

        own: dict[str, dict[int, PartitionBounds]] = {}
        for (topic, number), has in sorted(bounds.items()):
            own.setdefault(topic, {})[number] = has
        try:
            scans = [self._scan(spark, topic, of_topic) for topic, of_topic in own.items()]
        except AnalysisException as error:
            first_line = str(error).strip().splitlines()[0]
            raise HistoryError(
                f"Spark can't read from Kafka: {first_line}. A session of your own needs "
                "Spark's Kafka connector (spark.jars or spark.jars.packages) from its start: "
                "see pystreams.backfill.spark.connector_jars"
            ) from error
        if not scans:
            return spark.createDataFrame([], HISTORY_TYPE)
        return reduce(lambda some, more: some.unionByName(more), scans)

    def _scan(
        self, spark: SparkSession, topic: str, bounds: Mapping[int, PartitionBounds]
    ) -> DataFrame:
        from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

        first = {str(number): has.first for number, has in bounds.items()}
        end = {str(number): has.end for number, has in bounds.items()}
        options = {
            **self.connector_options(),
            "assign": json.dumps({topic: list(bounds)}),
            "startingOffsets": json.dumps({topic: first}),
            "endingOffsets": json.dumps({topic: end}),
        }
        # The topic as a constant lets Spark leave out the scan when it is filtered away.
        return (
            spark.read.format("kafka")
            .options(**options)
            .load()
            .select(
                F.lit(topic).alias("topic"),
                "partition",
                "offset",
                F.unix_millis("timestamp").alias("timestamp"),
                "key",
                "value",
                "headers",
            )
        )


def _or_end(offset: int | None, held: OffsetRange) -> int:
    return held.end if offset is None else offset


def _check_end(partition: TopicPartition, begun: PartitionBounds, held: OffsetRange) -> None:
    """Check that a partition still reaches as far as when the backfill was begun.

    Raises:
        HistoryError: It does not.
    """
    if held.end < begun.end:
        raise HistoryError(
            f"the history of {partition} went up to offset {begun.end} when the backfill was "
            f"begun, and the partition now ends at {held.end}: the topic was deleted and made "
            "anew, or lost records. Delete the staging directory (or choose another), and run the "
            "backfill again"
        )


def _check(partition: TopicPartition, first: int, end: int, held: OffsetRange) -> None:
    """Check that bounds lie in their partition.

    Raises:
        HistoryError: They do not.
    """
    if first < held.beginning or first > held.end:
        raise HistoryError(
            f"the history of {partition} is to begin at offset {first}, and the partition holds "
            f"{held.beginning} to {held.end}: choose an offset there, or take what is gone from an "
            "archive"
        )
    if end < first or end > held.end:
        raise HistoryError(
            f"the history of {partition} is to end at offset {end}, and there is "
            f"{first} to {held.end} to choose from"
        )
