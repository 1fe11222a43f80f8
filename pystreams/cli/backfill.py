"""`pystreams backfill`: a topology over history on Spark, handed over to the live application."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from pystreams.cli.backfill_options import (
    FOR_RUN_OPTION,
    BackfillOptions,
    bound_of,
    columns_of,
    counts,
    pairs,
    staging_path,
)
from pystreams.cli.failures import streams_errors_as_exit_codes
from pystreams.cli.leaving import LeaveBySignal, leaving_by_signals
from pystreams.cli.loading import load_topology
from pystreams.cli.logs import configure_spark_logging, set_up_in_workers
from pystreams.cli.options import application_options, log_options, spark_options
from pystreams.cli.run import RunOptions, configuration

if TYPE_CHECKING:
    from pystreams.backfill import ArchiveSource, HistorySource, KafkaSource, Published
    from pystreams.backfill.staging import Manifest
    from pystreams.cli.backfill_progress import BackfillDisplay
    from pystreams.cli.loading import LoadedTopology
    from pystreams.config import StreamsConfig
    from pystreams.runtime.ports import AdminPort


@click.command()
@click.argument("topology", metavar="FILE|MODULE:ATTRIBUTE")
@click.option(
    "--from",
    "source",
    default="kafka",
    show_default=True,
    metavar="kafka|parquet:PATH|READER[:PATH]",
    help="Where the history is: in Kafka, or in what a reader of Spark's reads.",
)
@click.option(
    "--option", "options", multiple=True, metavar="KEY=VALUE", help="An option of Spark's reader."
)
@click.option(
    "--column",
    "columns",
    multiple=True,
    metavar="OURS=THEIRS",
    help="The archive's column for topic, partition, offset, timestamp, key, value or headers, "
    "where it has another name. OURS= says that it has none.",
)
@click.option("--topic", metavar="TOPIC", help="The topic of all records of an archive.")
@click.option(
    "--partitions",
    multiple=True,
    metavar="TOPIC=N",
    help="Partitions of a topic, where neither a broker nor the archive tells; and that a topic "
    "without records in the archive is meant to be empty.",
)
@click.option("--gaps-allowed", is_flag=True, help="Offsets may be missing in the archive.")
@click.option(
    "--start",
    multiple=True,
    metavar="TOPIC[:PARTITION]=OFFSET|TIME",
    help="Where the history in Kafka begins. Default: at the first offset.",
)
@click.option(
    "--end",
    multiple=True,
    metavar="TOPIC[:PARTITION]=OFFSET|TIME",
    help="Where it ends; the live application goes on there. Default: at the end now.",
)
@spark_options
@click.option(
    "--output",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Stage the results here and keep them; as a data set for others, too: Parquet with typed "
    "columns, in DIR/dataset/outputs/TOPIC and DIR/dataset/stores/STORE. "
    "Default: <application.id>-backfill here, removed once it is published.",
)
@click.option(
    "--publish/--no-publish",
    default=True,
    show_default=True,
    help="Fill the changelogs, and hand the group over to the live application.",
)
@click.option("--publish-outputs", is_flag=True, help="Publish output records too.")
@click.option(
    "--seed-state",
    is_flag=True,
    help="Build the stores in this host's state.dir too: what starts here restores nothing.",
)
@click.option("--dry-run", is_flag=True, help="Show what would run, and run nothing.")
@application_options
@log_options("As in run. json: progress, too, is told in lines of the log.")
@click.option(FOR_RUN_OPTION, "is_before_run", is_flag=True, hidden=True)
def backfill(
    topology: str,
    *,
    dev: bool,
    settings: tuple[str, ...],
    config_file: Path | None,
    log_level: str,
    log_format: str,
    is_before_run: bool,
    **options: object,
) -> None:
    """Run a topology over history on Spark, and hand over to the live application.

    The results are staged as Parquet. Published, they fill the application's changelogs, and its
    group goes on right behind the history: start `pystreams run` with the same application.id
    then. Killed at any moment and started again, it goes on without repeat or gap.

    On a terminal a bar a stage shows how far it is; elsewhere a line every 10 seconds does. A table
    at the end tells what was read and written.

    The application must not run, nor have run, under this application.id. Punctuations on
    wall-clock time do not fire in a backfill; those on stream time do.

    Needs the extra: pip install 'pystreams[spark]', and Java 17 or 21.

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
    from pystreams.backfill.worker_logging import workers_log_by

    chosen = BackfillOptions(**options)  # type: ignore[arg-type]  # click has checked the types
    chosen.check()
    configure_spark_logging(log_level, log_format)
    leave = LeaveBySignal()
    if is_before_run:
        from pystreams.cli.processes import stop_with_parent

        stop_with_parent(leave)
    then = None if is_before_run else "started again, it goes on"
    with leaving_by_signals(leave, then), streams_errors_as_exit_codes():
        loaded = load_topology(topology)
        if not (dev or chosen.needs_broker):
            settings = ("bootstrap.servers=none:9092", *settings)
        run_options = RunOptions(topology, dev, settings, config_file)
        config = configuration(run_options, loaded)
        command = _Backfill(chosen, loaded, config, log_format, is_before_run=is_before_run)
        with workers_log_by(set_up_in_workers(log_level, log_format)):
            command.run()


class _Backfill:
    """One run of the command."""

    def __init__(
        self,
        options: BackfillOptions,
        loaded: LoadedTopology,
        config: StreamsConfig,
        log_format: str,
        *,
        is_before_run: bool,
    ) -> None:
        from pystreams.backfill.declared import declared_configuration
        from pystreams.topology.plan import TopologyPlan

        self._options = options
        self._topology = loaded.topology
        self._config = config
        self._configuration = declared_configuration(config)
        self._plan = TopologyPlan(loaded.topology, config.application_id)
        self._log_format = log_format
        self._is_before_run = is_before_run
        self._path = staging_path(options.output, config.application_id)
        self._spark_conf = pairs(options.spark_conf, "--spark-conf")
        self._admin = self._make_admin() if options.needs_broker else None

    def run(self) -> None:
        from pystreams.backfill.staging import StagingDirectory
        from pystreams.cli.backfill_display import (
            show_next,
            show_place,
            show_published,
            show_summary,
        )
        from pystreams.cli.backfill_progress import display_for

        if self._options.dry_run:
            self._show_plan()
            return
        with display_for(self._log_format) as display:
            manifest = self._staged(display)
        try:
            published = self._publish() if self._options.publish else None
        finally:
            # What publishing stumbles over does not take away what the stages have done.
            show_summary(manifest)
        is_kept = self._options.output is not None
        if not is_kept:
            StagingDirectory(self._path).remove()
        if published is not None:
            show_published(published)
        show_place(self._path, is_kept=is_kept)
        if published is not None and not self._is_before_run:
            show_next(self._config.application_id)
        # Last, since the application may start before; and what is to stream next waits for none.
        if is_kept and not self._is_before_run:
            self._keep_dataset()

    def _make_admin(self) -> AdminPort:
        from pystreams.runtime.adapters.factory import ConfluentClients

        return ConfluentClients(self._config).admin()

    # ------------------------------------------------------------------ history

    def _source(self) -> HistorySource:
        return self._kafka_source() if self._options.from_kafka else self._archive()

    def _kafka_source(self) -> KafkaSource:
        from pystreams.backfill import KafkaPartitionReader, KafkaSource
        from pystreams.backfill.identity_checks import check_begun
        from pystreams.backfill.staging import begun_identity

        assert self._admin is not None, "--from kafka needs a broker"
        known = self._admin.partition_counts()
        start = bound_of(self._options.start, "--start", known)
        end = bound_of(self._options.end, "--end", known)
        begun = begun_identity(self._path)
        if begun is not None:
            check_begun(self._path, begun, self._plan, self._configuration, known)
        options = pairs(self._options.options, "--option")
        servers, reader = self._config.bootstrap_servers, KafkaPartitionReader(self._config)
        return KafkaSource(servers, self._admin, start, end, options, reader)

    def _archive(self) -> ArchiveSource:
        from pystreams.backfill import ArchiveSource

        reader, path = self._options.reader()
        broker_partitions = {}
        if self._admin is not None:
            wanted = {*self._plan.source_topics(), *self._plan.sink_topics()}
            patterns = self._plan.source_patterns()
            broker_partitions = {
                topic: count
                for topic, count in self._admin.partition_counts().items()
                if topic in wanted or any(one.fullmatch(topic) for one in patterns)
            }
        archive = ArchiveSource(
            path,
            reader,
            pairs(self._options.options, "--option"),
            columns_of(self._options.columns),
            self._options.topic,
            counts(self._options.partitions, "--partitions"),
            self._options.gaps_allowed,
            broker_partitions,
        )
        if self._options.publish and not self._options.dry_run:
            self._refuse_guessed_partitions(archive)
        return archive

    def _refuse_guessed_partitions(self, archive: ArchiveSource) -> None:
        """See that results can be published before they are made; see `History`."""
        from pystreams.backfill.history import WantedTopics

        wanted = WantedTopics.of(self._plan, None)
        if archive.guesses_partitions(wanted.among(archive.known_partitions)):
            raise click.UsageError(
                "--column partition= says that the archive has no partitions, and with "
                "--gaps-allowed nothing shows that the computed ones are Kafka's: name the column "
                "that holds them; or leave --gaps-allowed out, and the offsets are looked at; or "
                "add --no-publish (with --output DIR) for a data set"
            )

    # ------------------------------------------------------------------ steps

    def _show_plan(self) -> None:
        from pystreams.backfill.describing import planned_stages
        from pystreams.backfill.estimating import estimated_sizes
        from pystreams.backfill.history import WantedTopics
        from pystreams.backfill.spark import spark_session
        from pystreams.backfill.staging import begun_identity
        from pystreams.backfill.store_checks import refuse_stores_without_dump
        from pystreams.cli.backfill_display import show_age, show_plan
        from pystreams.clock import SystemClock

        refuse_stores_without_dump(self._plan)
        wanted = WantedTopics.of(self._plan, begun_identity(self._path))
        if self._options.from_kafka:
            source = self._kafka_source()
            source.needs_connector(self._plan, wanted)
            known, bounds = source.bounds(wanted)
            estimate = estimated_sizes(self._config, bounds)
            stages = planned_stages(self._plan, known, bounds, estimate)
            show_plan(stages, self._plan.application_id, estimate)
            show_age(self._plan, lambda: estimate.newest_ms, SystemClock())
            return
        with spark_session(self._options.master, self._spark_conf) as spark:
            archive = self._archive()
            history = archive.read(spark, wanted)
            sizes = archive.file_sizes(spark)
            stages = planned_stages(self._plan, history.num_partitions, history.bounds, sizes)
            show_plan(stages, self._plan.application_id)
            show_age(self._plan, history.newest_ms, SystemClock())

    def _staged(self, display: BackfillDisplay) -> Manifest:
        """Return the results, running what of the backfill is not staged yet."""
        from pystreams.backfill import PublishingSettings
        from pystreams.backfill.running import Backfill

        settings = PublishingSettings(with_outputs=self._options.publish_outputs)
        publishing = settings if self._options.publish else None
        backfill = Backfill(self._topology, self._config, self._path, publishing, self._admin)
        is_bounded = bool(self._options.start or self._options.end)
        complete = backfill.complete_before(self._source() if is_bounded else None)
        if complete is not None:
            display.note(f"The results in {self._path} are complete")
            return complete

        def source() -> HistorySource:
            display.note("Spark starts")
            return self._source()

        return backfill.run(
            source,
            master=self._options.master,
            spark_conf=self._spark_conf,
            progress=display.stage,
        )

    def _keep_dataset(self) -> None:
        """Write the results as a data set, if it is not there yet."""
        from pystreams.backfill.dataset import write_dataset
        from pystreams.backfill.dataset_place import is_dataset_of
        from pystreams.backfill.spark import SparkNotAvailableError
        from pystreams.cli.backfill_display import show_dataset, show_no_dataset

        path = self._path / "dataset"
        if is_dataset_of(path, self._path):
            return
        master, conf = self._options.master, self._spark_conf
        try:
            show_dataset(
                write_dataset(
                    self._path, self._topology, self._config, path, master=master, spark_conf=conf
                )
            )
        except SparkNotAvailableError as error:
            # Results that were brought here to be published are published.
            show_no_dataset(error)

    def _publish(self) -> Published:
        from pystreams.backfill import PublishingSettings, publish
        from pystreams.cli.backfill_progress import display_for

        settings = PublishingSettings(with_outputs=self._options.publish_outputs)
        with display_for(self._log_format) as display:
            return publish(
                self._topology,
                self._config,
                output=self._path,
                settings=settings,
                progress=display.publishing,
                seed_state=self._options.seed_state,
            )
