"""A backfill as one call: `pystreams.backfill.run(topology, config, source=..., output=...)`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from pystreams.backfill.broker_waiting import REAL_WAITING
from pystreams.backfill.execution.progress import StageProgress
from pystreams.backfill.plan.backfill_plan import BackfillPlan
from pystreams.backfill.plan.fingerprint import declared_configuration
from pystreams.backfill.plan.identity import BackfillIdentity
from pystreams.backfill.plan.partition_bounds import PartitionBounds
from pystreams.backfill.plan.refused_topologies import refuse_idle_timeouts, refuse_stores
from pystreams.backfill.plan.stages import merges_history
from pystreams.backfill.plan.turns import topics_in_turn
from pystreams.backfill.publishing.broker_checks import own_offsets, refuse_used_group
from pystreams.backfill.publishing.hand_over import is_handed_over_with
from pystreams.backfill.publishing.identity_checks import check_identity, refuse_other_offsets
from pystreams.backfill.publishing.publish_results import publish
from pystreams.backfill.publishing.publisher import Published, PublishingSettings
from pystreams.backfill.sources.history import HistoryError, HistorySource, WantedTopics
from pystreams.backfill.sources.kafka_source import KafkaSource
from pystreams.backfill.spark.connector_jars import kafka_session
from pystreams.backfill.spark.session import require_pyspark, spark_session
from pystreams.backfill.spark.shared_paths import local_path
from pystreams.backfill.staging.directory import (
    MANIFEST,
    Manifest,
    StagedStage,
    StagingDirectory,
    begun_asked,
    begun_identity,
    read_manifest,
    refuse_other_times,
)
from pystreams.backfill.teller import Teller
from pystreams.config import Source, StreamsConfig
from pystreams.ids import TopicPartition
from pystreams.kernel.clock import SystemClock
from pystreams.runtime.cluster.publishing_mark import published_by
from pystreams.runtime.ports import AdminPort
from pystreams.topology.contracts.user_functions import checked_callback
from pystreams.topology.graph.topology import Topology
from pystreams.topology.plan.configuration_check import check_configured
from pystreams.topology.plan.topology_plan import TopologyPlan

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from pystreams.backfill.sources.history import History

_NO_BROKER = "none:9092"


@dataclass(frozen=True, slots=True)
class BackfillResult:
    """What a backfill did.

    Attributes:
        path: The staging directory; `directory.StagingDirectory` reads it.
        published: What was published; None where that was not asked for.
    """

    path: Path
    manifest: Manifest
    published: Published | None = None

    @property
    def stages(self) -> tuple[StagedStage, ...]:
        """The stages, in the order they ran."""
        return self.manifest.stages

    @property
    def outputs(self) -> dict[str, int]:
        """Records written, by topic."""
        return _added_up(stage.outputs for stage in self.stages)

    @property
    def state(self) -> dict[str, int]:
        """Changelog records of the final state, by store."""
        return _added_up(stage.state for stage in self.stages)


def run(
    topology: Topology,
    config: Mapping[str, object] | StreamsConfig,
    *,
    output: Path | str,
    source: HistorySource | None = None,
    master: str | None = None,
    spark_conf: Mapping[str, str] | None = None,
    progress: Callable[[StageProgress], None] = lambda _: None,
    publishing: PublishingSettings | None = None,
) -> BackfillResult:
    """Run a topology over history on Spark, stage what it gives, and publish it if asked to.

    Run again over the same directory, it does what is missing. When nothing is, it reads nothing
    and starts no Spark (see `Backfill`). From Kafka it goes on with the bounds it was begun
    with; what has come since is behind them. Wall-clock punctuations do not fire.

    Args:
        topology: The topology, as the live application runs it.
        config: The application's configuration; with a source, `bootstrap.servers` may be missing.
        output: The staging directory, to be reached by this path from all workers.
        source: Where the history comes from, such as an `ArchiveSource`; None for all that the
            source topics hold in Kafka, as `KafkaSource.of(config)` reads it.
        master: Spark's master; see `session.spark_session`.
        spark_conf: More of Spark's configuration.
        progress: Told how far it is: when a stage begins and when it ends, or was staged before, in
            the thread that calls this; and about once a second while it runs, in a thread of the
            backfill's own. Never two calls at a time, and none after the end of its stage, which
            waits for a call to return. What it raises is logged, and it is not called again.
        publishing: How to publish the results to Kafka when they are staged; None leaves that to
            a call of `publish`, which may be made elsewhere, tells how far it is, and can build the
            stores of its host. Results that could not be published are refused before they are
            made.

    Raises:
        TopologyError: `progress` is async, or no function of one argument.
        ConfigError: A key of the configuration is missing or wrong.
        BrokerNotAvailableError: The history is in Kafka, and no broker answered.
        SparkNotAvailableError: pyspark or Java is missing.
        HistoryError: The history can't be read, or is not what it should be.
        StagingError: The directory holds something else, can't be written, or another backfill
            runs in it.
        PublishingRefusedError: It holds complete results of another application, topology or
            configuration; or they can't be published, see `publish`.
        TopologyError: The topology can't run as a backfill.
        BackfillTaskError: A task failed, with the record's coordinates and the user's traceback.
        BackfillError: Spark failed.
    """
    # Imported here: Spark's workers import this package, and talk to no broker.
    from pystreams.runtime.adapters.client_factory import ConfluentClients

    checked_callback(progress, "run: progress", ("stage_progress",))
    settings = _settings(config, needs_broker=source is None or publishing is not None)
    admin = None if publishing is None else ConfluentClients(settings).admin()
    backfill = Backfill(topology, settings, output, publishing, admin)
    manifest = backfill.complete_before(source)
    if manifest is not None:
        tell = Teller(progress)
        for stage in manifest.stages:
            begun = StageProgress(stage.position, len(manifest.stages), stage.topics, stage.records)
            tell(begun.done(stage.seconds, before=True))
    else:
        manifest = backfill.run(
            lambda: source or KafkaSource.of(settings),
            master=master,
            spark_conf=spark_conf,
            progress=progress,
        )
    if publishing is None:
        return BackfillResult(backfill.path, manifest)
    published = publish(topology, settings, output=backfill.path, settings=publishing)
    return BackfillResult(backfill.path, manifest, published)


class Backfill:
    """A backfill in its staging directory: what is there of it, and what is missing.

    Args:
        publishing: How the results are to be published, which is made sure of before they are made;
            None where they need not be fit for it.
        admin: Asks the brokers about that.

    Attributes:
        path: The staging directory.

    Raises:
        TopologyError: A serde is missing.
        ConfigError: The directory is none that Spark's workers could reach.
    """

    def __init__(
        self,
        topology: Topology,
        config: StreamsConfig,
        output: Path | str,
        publishing: PublishingSettings | None = None,
        admin: AdminPort | None = None,
    ) -> None:
        check_configured(topology, config)
        self.path = local_path(output)
        self._plan = TopologyPlan(topology, config.application_id)
        self._config = config
        self._configuration = declared_configuration(config)
        self._publishing = publishing
        self._admin = admin

    def complete_before(self, source: HistorySource | None) -> Manifest | None:
        """Return what is staged where nothing is missing; else None.

        Needs no Spark, and asks neither the source nor a broker: what has come since the backfill
        was begun is behind its history.

        Args:
            source: What would be read. A `KafkaSource` must have the bounds with which the backfill
                was begun, as far as it has any; None has none.

        Raises:
            PublishingRefusedError: The results are of another application, topology or
                configuration.
            HistoryError: They are of other offsets.
            StagingError: They are of other times, or can't be read.
        """
        if not (self.path / MANIFEST).is_file():
            return None
        manifest = read_manifest(self.path)
        check_identity(self.path, manifest.identity, self._plan, self._configuration)
        if isinstance(source, KafkaSource):
            source.refuse_other_bounds(manifest.identity.partition_bounds())
            refuse_other_times(begun_asked(self.path), source.asked, self.path)
        return manifest

    def handed_over_before(self, source: KafkaSource) -> bool:
        """Return whether the group says that it was handed over with results of this very backfill.

        They need not be there any more. Ends that the source does not bound are where the group was
        handed over; where its beginnings have gone since, the history is another one.

        Args:
            source: What would be read.
        """
        assert self._admin is not None, "only a broker knows"
        committed = own_offsets(self._plan, self._admin, REAL_WAITING)
        if not any(published_by(offset.metadata) for offset in committed.values()):
            return False
        wanted = WantedTopics.of(self._plan, None)
        ends = {
            partition: offset.next_offset
            for partition, offset in committed.items()
            if wanted.among([partition.topic])
            and partition.topic not in wanted.written
            and partition.topic not in source.end.times_ms
        }
        end = replace(source.end, offsets={**ends, **source.end.offsets})
        try:
            counts, bounds = replace(source, end=end).bounds(wanted)
        except HistoryError:
            return False  # It does not hold that history any more.
        identity = self._identity(BackfillPlan.of(self._plan, self._config, counts), bounds)
        return is_handed_over_with(identity.fingerprint, committed)

    def run(
        self,
        make_source: Callable[[], HistorySource],
        *,
        master: str | None,
        spark_conf: Mapping[str, str] | None,
        progress: Callable[[StageProgress], None],
    ) -> Manifest:
        """Run the stages that are missing; return what is staged then.

        Args:
            make_source: Makes what the history is read from, when nothing keeps it from being run.
            master: See `run`.
            spark_conf: The same.
            progress: The same.

        Raises:
            StreamsError: As by `run`.
        """
        refuse_stores(self._plan)
        refuse_idle_timeouts(self._plan, self._config)
        require_pyspark()
        if self._publishing is not None and self._admin is not None:
            with_outputs = self._publishing.with_outputs
            refuse_used_group(self._plan, self._admin, REAL_WAITING, with_outputs=with_outputs)
        source = make_source()
        staging = StagingDirectory(self.path)
        with staging.held():
            wanted = WantedTopics.of(self._plan, begun_identity(self.path))
            with self._session(source, wanted, master, spark_conf or {}) as spark:
                history = source.read(spark, wanted)
                if self._publishing is not None:
                    refuse_other_offsets(history, "these would be results")
                return self._staged(spark, history, staging, Teller(progress))

    def _session(
        self,
        source: HistorySource,
        wanted: WantedTopics,
        master: str | None,
        conf: Mapping[str, str],
    ) -> AbstractContextManager[SparkSession]:
        """Return a session that can read the source; jars are fetched only where it needs them."""
        if not isinstance(source, KafkaSource):
            return spark_session(master, conf)
        if source.needs_connector(self._plan, wanted):
            return kafka_session(master, conf)
        return spark_session(master, conf, has_queries=False)

    def _staged(
        self,
        spark: SparkSession,
        history: History,
        staging: StagingDirectory,
        tell: Teller[StageProgress],
    ) -> Manifest:
        from pystreams.backfill.execution.stage_runner import Execution

        clock = SystemClock()
        plan = BackfillPlan.of(self._plan, self._config, history.num_partitions)
        identity = replace(
            self._identity(plan, history.bounds),
            computed_offsets=history.computed_offsets,
            guessed_partitions=history.guessed_partitions,
        )
        # The first beginning's time, so that stages run later see the same.
        started_ms = staging.begin(identity, clock.now_ms(), history.asked)
        if merges_history(self._plan, plan.num_partitions):
            # A session that can't read rows is told now, not after the stages before.
            history.frame()
        done = Execution(spark, plan, history, staging, started_ms, clock, tell).run()
        seconds = sum(stage.seconds for stage in done)
        manifest = Manifest(identity, tuple(done), started_ms, seconds)
        staging.finish(manifest)
        return manifest

    def _identity(
        self, plan: BackfillPlan, bounds: Mapping[TopicPartition, PartitionBounds]
    ) -> BackfillIdentity:
        partitions = plan.partitions
        return BackfillIdentity.of(
            self._plan,
            partitions.num_partitions,
            partitions.num_tasks,
            bounds,
            self._configuration,
            topics_in_turn=topics_in_turn(self._plan),
        )


def _settings(config: Mapping[str, object] | StreamsConfig, *, needs_broker: bool) -> StreamsConfig:
    if isinstance(config, StreamsConfig):
        return config
    stand_ins = {} if needs_broker else {"bootstrap.servers": _NO_BROKER}
    return StreamsConfig.from_sources([Source("", config), Source("", stand_ins)])


def _added_up(counts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    found = Counter[str]()
    for of_stage in counts:
        found.update(of_stage)
    return dict(sorted(found.items()))
