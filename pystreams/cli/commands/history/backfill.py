"""`pystreams backfill`: a topology over history on Spark, handed over to the live application."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import click

from pystreams.cli.application.configuration import load_application
from pystreams.cli.display.logs import configure_spark_logging, set_up_in_workers
from pystreams.cli.errors import streams_errors_as_exit_codes
from pystreams.cli.options.backfill import (
    FOR_RUN_OPTION,
    BackfillOptions,
    HistoryOptions,
    ResultOptions,
    history_options,
    result_options,
    staging_path,
)
from pystreams.cli.options.groups import (
    ApplicationOptions,
    LogOptions,
    SparkOptions,
    application_options,
    log_options,
    spark_options,
    topology_argument,
)
from pystreams.cli.options.values import bound_of, columns_of, counts, pairs
from pystreams.cli.processes.interruption import InterruptBySignal, exit_when_interrupted
from pystreams.kernel.clock import SystemClock

if TYPE_CHECKING:
    from pystreams.backfill import ArchiveSource, HistorySource, KafkaSource, Published
    from pystreams.backfill.execution.backfill import Backfill
    from pystreams.backfill.sources.history import WantedTopics
    from pystreams.backfill.staging.directory import Manifest
    from pystreams.cli.application.topology_loader import LoadedTopology
    from pystreams.cli.display.backfill_progress import BackfillDisplay
    from pystreams.config import StreamsConfig
    from pystreams.runtime.ports import AdminPort


@click.command()
@topology_argument
@history_options
@spark_options
@result_options
@application_options
@log_options("As in run. json: progress is logged, too.")
@click.option(FOR_RUN_OPTION, "is_before_run", is_flag=True, hidden=True)
def backfill(
    *,
    application: ApplicationOptions,
    history: HistoryOptions,
    spark: SparkOptions,
    results: ResultOptions,
    log: LogOptions,
    is_before_run: bool,
) -> None:
    """Run a topology over history on Spark, and hand over to the live application.

    The results are staged as Parquet. Published, they fill the application's changelogs, and its
    group continues right behind the history: then start `pystreams run` with the same
    application.id. Killed at any moment and started again, it continues without repeat or gap.

    On a terminal a bar for each stage shows how far it is; elsewhere a line every 10 seconds does.
    A table at the end sums up what was read and written.

    The application must not run, nor have run, under this application.id. Punctuations on
    wall-clock time do not fire in a backfill; those on stream time do.

    Needs the extra: pip install 'pystreams-kafka[spark]', and Java 17 or 21.

    \b
    Exit codes:
      0    done: staged, and published if that was asked for
      1    failed, or refused to publish; the message says what to do
      2    wrong usage, configuration or topology
      3    no broker answers
      70   a bug in pystreams
      130  stopped by Ctrl-C (143: by SIGTERM); start it again, and it goes on

    \b
    Examples:
      pystreams backfill topology.py --dev --dry-run
      pystreams backfill topology.py --config production.toml --end orders=2025-01-31
      pystreams backfill topology.py --from parquet:/archive/orders --publish-outputs
      pystreams backfill topology.py --from delta --option versionAsOf=3 --no-publish --output out
    """
    from pystreams.backfill.spark.worker_logging import workers_log_by

    chosen = BackfillOptions(history, results, spark)
    chosen.check()
    configure_spark_logging(log.log_level, log.log_format)
    stop = InterruptBySignal()
    if is_before_run:
        from pystreams.cli.processes.children import stop_with_parent

        stop_with_parent(stop)
    if not (application.dev or chosen.needs_broker):
        settings = ("bootstrap.servers=none:9092", *application.settings)
        application = replace(application, settings=settings)
    then = None if is_before_run else "started again, it goes on"
    with exit_when_interrupted(stop, then), streams_errors_as_exit_codes():
        loaded, config = load_application(application)
        command = _Backfill(chosen, loaded, config, log.log_format, is_before_run=is_before_run)
        with workers_log_by(set_up_in_workers(log.log_level, log.log_format)):
            command.run()


class _Backfill:
    def __init__(
        self,
        options: BackfillOptions,
        loaded: LoadedTopology,
        config: StreamsConfig,
        log_format: str,
        *,
        is_before_run: bool,
    ) -> None:
        from pystreams.backfill.plan.fingerprint import declared_configuration
        from pystreams.topology.plan.topology_plan import TopologyPlan

        self._history, self._results = options.history, options.results
        self._topology = loaded.topology
        self._config = config
        self._configuration = declared_configuration(config)
        self._plan = TopologyPlan(loaded.topology, config.application_id)
        self._log_format = log_format
        self._is_before_run = is_before_run
        self._path = staging_path(options.results.output, config.application_id)
        self._spark_master, self._spark_conf = options.spark.master, options.spark.conf
        self._admin = self._make_admin() if options.needs_broker else None

    def run(self) -> None:
        from pystreams.backfill.staging.directory import StagingDirectory
        from pystreams.cli.display.backfill_progress import display_for
        from pystreams.cli.display.backfill_results import show_published, show_summary

        if self._results.dry_run:
            self._show_plan()
            return
        if self._published_before():
            name = self._config.application_id
            click.echo(
                f"Published before: group {name!r} was handed over with the results of this "
                "backfill, which were removed then. Start the application: pystreams run, with "
                f"application.id={name}"
            )
            return
        with display_for(self._log_format) as display:
            manifest = self._staged(display)
        try:
            published = self._publish() if self._results.publish else None
        finally:
            # What publishing stumbles over does not take away what the stages have done.
            show_summary(manifest)
        is_kept = self._results.output is not None
        if not is_kept:
            StagingDirectory(self._path).remove()
        if published is not None:
            show_published(published)
        removed = "" if is_kept else " (removed: they are published; --output keeps them)"
        click.echo(f"Results: {self._path}{removed}")
        if published is not None and not self._is_before_run:
            name = self._config.application_id
            click.echo(f"Start the application now: pystreams run, with application.id={name}")
        # Last, since the application may start before; and what is to stream next waits for none.
        if is_kept and not self._is_before_run:
            self._keep_dataset()

    def _make_admin(self) -> AdminPort:
        from pystreams.runtime.adapters.client_factory import ConfluentClients

        return ConfluentClients(self._config).admin()

    # ------------------------------------------------------------------ history

    def _source(self) -> HistorySource:
        return self._kafka_source() if self._history.from_kafka else self._archive()

    def _kafka_source(self) -> KafkaSource:
        from pystreams.backfill import KafkaPartitionReader, KafkaSource
        from pystreams.backfill.publishing.identity_checks import check_begun
        from pystreams.backfill.staging.directory import begun_identity

        assert self._admin is not None, "--from kafka needs a broker"
        known = self._admin.partition_counts()
        start = bound_of(self._history.start, "--start", known)
        end = bound_of(self._history.end, "--end", known)
        begun = begun_identity(self._path)
        if begun is not None:
            check_begun(self._path, begun, self._plan, self._configuration, known)
        options = pairs(self._history.options, "--option")
        servers, reader = self._config.bootstrap_servers, KafkaPartitionReader(self._config)
        return KafkaSource(servers, self._admin, start, end, options, reader, config=self._config)

    def _archive(self) -> ArchiveSource:
        from pystreams.backfill import ArchiveSource
        from pystreams.backfill.sources.history import WantedTopics

        reader, path = self._history.reader()
        wanted = WantedTopics.of(self._plan, None)
        known = {} if self._admin is None else self._admin.partition_counts()
        own = {*wanted.among(known), *wanted.written}
        broker_partitions = {topic: count for topic, count in known.items() if topic in own}
        archive = ArchiveSource(
            path,
            reader,
            pairs(self._history.options, "--option"),
            columns_of(self._history.columns),
            self._history.topic,
            counts(self._history.partitions, "--partitions"),
            self._history.gaps_allowed,
            broker_partitions,
        )
        if self._results.publish and not self._results.dry_run:
            self._refuse_guessed_partitions(archive, wanted)
        return archive

    def _refuse_guessed_partitions(self, archive: ArchiveSource, wanted: WantedTopics) -> None:
        """See that results can be published before they are made; see `History`."""
        if archive.guesses_partitions(wanted.among(archive.known_partitions)):
            raise click.UsageError(
                "--column partition= says that the archive has no partitions, and with "
                "--gaps-allowed nothing shows that the computed ones are Kafka's: name the column "
                "that holds them; or leave --gaps-allowed out, and the offsets are looked at; or "
                "add --no-publish (with --output DIR) for a data set"
            )

    # ------------------------------------------------------------------ steps

    def _show_plan(self) -> None:
        from pystreams.backfill.execution.planned_stages import planned_stages
        from pystreams.backfill.plan.refused_topologies import refuse_idle_timeouts, refuse_stores
        from pystreams.backfill.sources.history import WantedTopics
        from pystreams.backfill.sources.size_estimates import estimated_sizes
        from pystreams.backfill.spark.session import spark_session
        from pystreams.backfill.staging.directory import begun_identity
        from pystreams.cli.display.backfill_results import show_age, show_plan

        refuse_stores(self._plan)
        refuse_idle_timeouts(self._plan, self._config)
        wanted = WantedTopics.of(self._plan, begun_identity(self._path))
        if self._history.from_kafka:
            source = self._kafka_source()
            source.needs_connector(self._plan, wanted)
            known, bounds = source.bounds(wanted)
            estimate = estimated_sizes(self._config, bounds)
            stages = planned_stages(self._plan, known, bounds, estimate)
            show_plan(stages, self._plan.application_id, estimate)
            show_age(self._plan, lambda: estimate.newest_ms, SystemClock())
            return
        with spark_session(self._spark_master, self._spark_conf) as spark:
            archive = self._archive()
            history = archive.read(spark, wanted)
            sizes = archive.file_sizes(spark)
            stages = planned_stages(self._plan, history.num_partitions, history.bounds, sizes)
            show_plan(stages, self._plan.application_id)
            show_age(self._plan, history.newest_ms, SystemClock())

    def _backfill(self) -> Backfill:
        from pystreams.backfill import PublishingSettings
        from pystreams.backfill.execution.backfill import Backfill

        settings = PublishingSettings(with_outputs=self._results.publish_outputs)
        publishing = settings if self._results.publish else None
        return Backfill(self._topology, self._config, self._path, publishing, self._admin)

    def _published_before(self) -> bool:
        """Whether this backfill was published, and its results were removed as nobody keeps them.

        Those that are there say so themselves when they are published again.
        """
        is_removed = self._results.output is None and not self._path.exists()
        if not (is_removed and self._results.publish and self._history.from_kafka):
            return False
        return self._backfill().handed_over_before(self._kafka_source())

    def _staged(self, display: BackfillDisplay) -> Manifest:
        """Return the results, running what of the backfill is not staged yet."""
        backfill = self._backfill()
        is_bounded = self._history.is_bounded
        complete = backfill.complete_before(self._source() if is_bounded else None)
        if complete is not None:
            display.note(f"The results in {self._path} are complete")
            return complete

        def source() -> HistorySource:
            display.note("Spark starts")
            return self._source()

        return backfill.run(
            source,
            master=self._spark_master,
            spark_conf=self._spark_conf,
            progress=display.stage,
        )

    def _keep_dataset(self) -> None:
        """Write the results as a data set, if it is not there yet."""
        from pystreams.backfill.exports.dataset import write_dataset
        from pystreams.backfill.exports.dataset_place import is_dataset_of
        from pystreams.backfill.spark.session import SparkNotAvailableError
        from pystreams.cli.display.backfill_results import show_dataset

        path = self._path / "dataset"
        if is_dataset_of(path, self._path):
            return
        master, conf = self._spark_master, self._spark_conf
        try:
            show_dataset(
                write_dataset(
                    self._path, self._topology, self._config, path, master=master, spark_conf=conf
                )
            )
        except SparkNotAvailableError as error:
            # Results that were brought here to be published are published.
            click.echo(f"No data set was made, since it takes Spark: {error}")

    def _publish(self) -> Published:
        from pystreams.backfill import PublishingSettings, publish
        from pystreams.cli.display.backfill_progress import display_for

        settings = PublishingSettings(with_outputs=self._results.publish_outputs)
        with display_for(self._log_format) as display:
            return publish(
                self._topology,
                self._config,
                output=self._path,
                settings=settings,
                progress=display.publishing,
                seed_state=self._results.seed_state,
            )
