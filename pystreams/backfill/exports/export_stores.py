"""The export of an application's stores: `pystreams.backfill.export(topology, config, ...)`.

    changelogs --Kafka source, read_committed--> state (`changelog_state`) --> typed columns
    --> DIR/<store>/*.parquet, and at the end DIR/manifest.json

It reads topics and committed offsets only, so it runs on any host, beside a running application or
after its end, and changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from pystreams.backfill.broker_waiting import REAL_WAITING
from pystreams.backfill.exports.export_points import ExportPoints, TaskPoint, take_points
from pystreams.backfill.exports.manifest import (
    ExportDirectory,
    ExportedStore,
    ExportError,
    manifest_content,
)
from pystreams.backfill.exports.written_times import times_in_microseconds
from pystreams.backfill.plan.identity import BackfillIdentity
from pystreams.backfill.plan.store_changelogs import (
    StoreChangelog,
    changelogs_of,
    stores_without_changelog,
)
from pystreams.backfill.publishing.publisher import publishing_config
from pystreams.backfill.sources.history import WantedTopics
from pystreams.backfill.sources.kafka_source import KafkaBound, KafkaSource
from pystreams.backfill.spark.connector_jars import kafka_session
from pystreams.backfill.spark.failures import spark_words
from pystreams.backfill.spark.session import require_pyspark
from pystreams.backfill.spark.shared_paths import local_path
from pystreams.config import StreamsConfig
from pystreams.ids import all_partitions
from pystreams.kernel.clock import SystemClock
from pystreams.kernel.loggers import get_logger
from pystreams.runtime.ports import ClientFactory
from pystreams.topology.graph.topology import Topology
from pystreams.topology.plan.topology_plan import TopologyPlan

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_log = get_logger("pystreams.backfill")


@dataclass(frozen=True, slots=True)
class Exported:
    """What was exported.

    Attributes:
        stores: The stores, in the order of the topology.
        skipped: Names of stores that have no changelog, and so can't be exported.
        tasks: Which input the stores of each task cover.
    """

    path: Path
    stores: Sequence[ExportedStore]
    skipped: Sequence[str]
    tasks: Sequence[TaskPoint]


def export(
    topology: Topology,
    config: Mapping[str, object] | StreamsConfig,
    *,
    output: Path | str,
    stores: Sequence[str] = (),
    options: Mapping[str, str] | None = None,
    master: str | None = None,
    spark_conf: Mapping[str, str] | None = None,
) -> Exported:
    """Write a committed snapshot of an application's stores as Parquet, a directory a store.

    Works for a running application, too. Each changelog partition is read up to one point, which
    the manifest names; see `export_points` for what that promises.

    Args:
        output: An empty directory, or one that is not there yet; to be reached by this path from
            all workers.
        stores: Names of the stores; none for all that have a changelog.
        options: More options of Spark's Kafka reader, such as `kafka.fetch.max.bytes`.
        master: Spark's master; see `session.spark_session`.
        spark_conf: More of Spark's configuration.

    Raises:
        TopologyError: There is no such store, or it has no changelog.
        MissingChangelogError: A changelog topic does not exist: the application has never run.
        ExportError: The directory is not empty, or Spark failed.
        ConfigError: Spark's Kafka reader can't reach brokers as the configuration says.
        SparkNotAvailableError: pyspark or Java is missing.
        BrokerNotAvailableError: No broker answered.
    """
    # Imported here: Spark's workers import this package, and talk to no broker.
    from pystreams.runtime.adapters.client_factory import ConfluentClients

    require_pyspark()
    own = config if isinstance(config, StreamsConfig) else StreamsConfig.of(config)
    plan = TopologyPlan(topology, own.application_id)
    clients = ConfluentClients(publishing_config(own))
    admin = clients.admin()
    num_partitions = admin.partition_counts()
    changelogs = changelogs_of(plan, num_partitions, stores)
    if not changelogs:
        raise ExportError("the topology has no store with a changelog: there is nothing to export")
    source = KafkaSource(own.bootstrap_servers, admin, options=options or {}, config=own)
    source.connector_options()
    directory = ExportDirectory(local_path(output))
    directory.begin([changelog.store for changelog in changelogs])
    points = _points_now(plan, changelogs, num_partitions, clients, own)
    begun_ms = SystemClock().now_ms()
    source = replace(source, end=KafkaBound(points.ends))
    with kafka_session(master, spark_conf) as spark:
        done = _Export(changelogs, points, source, directory, own).run(spark)
    identity = BackfillIdentity.of(plan, {}, {}, {})
    directory.finish(
        manifest_content(own.application_id, identity.topology, begun_ms, done, points)
    )
    skipped = () if stores else stores_without_changelog(plan)
    return Exported(directory.path, done, skipped, points.tasks)


def _points_now(
    plan: TopologyPlan,
    changelogs: Sequence[StoreChangelog],
    num_partitions: Mapping[str, int],
    clients: ClientFactory,
    config: StreamsConfig,
) -> ExportPoints:
    admin = clients.admin()
    exactly_once = config.processing_guarantee.exactly_once
    consumer = clients.consumer(f"{config.application_id}-export", "")
    try:
        return REAL_WAITING.until_answered(
            lambda: take_points(
                plan, changelogs, num_partitions, admin, consumer, exactly_once=exactly_once
            )
        )
    finally:
        consumer.close()


@dataclass(frozen=True, slots=True)
class _Export:
    """Writes the stores of one export."""

    changelogs: Sequence[StoreChangelog]
    points: ExportPoints
    source: KafkaSource
    directory: ExportDirectory
    config: StreamsConfig

    def run(self, spark: SparkSession) -> list[ExportedStore]:
        """Write all of them, one after the other."""
        topics = tuple(changelog.topic for changelog in self.changelogs)
        records = self.source.read(spark, WantedTopics(topics, ())).frame()
        return [self._store(records, changelog) for changelog in self.changelogs]

    def _store(self, records: DataFrame, changelog: StoreChangelog) -> ExportedStore:
        from pystreams.backfill.exports.columns import exported
        from pystreams.backfill.spark.changelog_state import current_state

        own = records.filter(records["topic"] == changelog.topic)
        defaults = self.config.default_key_serde, self.config.default_value_serde
        serdes = changelog.spec.filled_serdes(*defaults)
        rows = exported(current_state(own, changelog), changelog, *serdes)
        path = self.directory.path / changelog.store
        try:
            with times_in_microseconds(rows.sparkSession):
                rows.write.mode("overwrite").parquet(f"file://{path.resolve()}")
        except Exception as error:  # noqa: BLE001 - pyspark's, or py4j's where it has none
            raise ExportError(
                f"store {changelog.store!r} can't be exported; run the export again when the cause "
                f"is gone. Spark says:\n{spark_words(error)}"
            ) from None
        num_rows = self.directory.num_rows(changelog.store)
        _log.info("store exported", store=changelog.store, rows=num_rows)
        return ExportedStore(changelog, num_rows, *self._ends(changelog))

    def _ends(self, changelog: StoreChangelog) -> tuple[dict[int, int], frozenset[int]]:
        """Return where the partitions were read to, and which of them have more by now."""
        partitions = all_partitions([changelog.topic], {changelog.topic: changelog.num_partitions})
        ends = {partition.partition: self.points.ends[partition] for partition in partitions}
        admin = self.source.admin
        ranges = REAL_WAITING.until_answered(lambda: admin.offset_ranges(partitions))
        written = [
            partition
            for partition in partitions
            if ranges[partition].high_watermark > ends[partition.partition]
        ]
        return ends, frozenset(partition.partition for partition in written)
