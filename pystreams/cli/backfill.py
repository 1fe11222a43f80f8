"""`pystreams backfill`: a topology over history on Spark, handed over to the live application."""

from __future__ import annotations

import logging
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pystreams.cli.backfill_options import (
    BackfillOptions,
    bound_of,
    columns_of,
    counts,
    pairs,
)
from pystreams.cli.failures import streams_errors_as_exit_codes
from pystreams.cli.loading import load_topology
from pystreams.cli.logs import FORMATS, LEVELS, configure_logging
from pystreams.cli.run import RunOptions, configuration

if TYPE_CHECKING:
    from pystreams.backfill import HistorySource, KafkaSource
    from pystreams.backfill.describing import PlannedStage
    from pystreams.backfill.staging import Manifest
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
    help="Partitions of a topic, where neither a broker nor the archive tells.",
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
@click.option("--master", metavar="URL", help="Spark's master. Default: all cores here.")
@click.option("--spark-conf", multiple=True, metavar="KEY=VALUE", help="Configuration of Spark.")
@click.option(
    "--output",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Stage the results here and keep them, as Parquet. "
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
@click.option("--dev", is_flag=True, help="Use the development broker; see `pystreams run`.")
@click.option("-c", "settings", multiple=True, metavar="KEY=VALUE", help="Set a configuration key.")
@click.option(
    "--config",
    "config_file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Read configuration from a file: TOML, or Java properties.",
)
@click.option(
    "--log-level", type=click.Choice(LEVELS), default="info", show_default=True, help="Least level."
)
@click.option(
    "--log-format", type=click.Choice(FORMATS), default="auto", show_default=True, help="As in run."
)
def backfill(
    topology: str,
    *,
    dev: bool,
    settings: tuple[str, ...],
    config_file: Path | None,
    log_level: str,
    log_format: str,
    **options: object,
) -> None:
    """Run a topology over history on Spark, and hand over to the live application.

    The results are staged as Parquet. Published, they fill the application's changelogs, and its
    group goes on right behind the history: start `pystreams run` with the same application.id
    then. Killed at any moment and started again, it goes on without repeat or gap.

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
      130  stopped by Ctrl-C; start it again, and it goes on

    \b
    Examples:
      pystreams backfill topology.py --dev --dry-run
      pystreams backfill topology.py --config production.toml --end orders=2025-01-31
      pystreams backfill topology.py --from parquet:/archive/orders --publish-outputs
      pystreams backfill topology.py --from delta --option versionAsOf=3 --no-publish --output out
    """
    chosen = BackfillOptions(**options)  # type: ignore[arg-type]  # click has checked the types
    chosen.check()
    configure_logging(log_level, log_format)
    # It tells of each of its connections, at the level of our stages.
    logging.getLogger("py4j").setLevel(logging.WARNING)
    with streams_errors_as_exit_codes():
        loaded = load_topology(topology)
        if not (dev or chosen.needs_broker):
            settings = ("bootstrap.servers=none:9092", *settings)
        run_options = RunOptions(topology, dev, settings, config_file, 1, None, None)
        _Backfill(chosen, loaded, configuration(run_options, loaded)).run()


class _Backfill:
    """One run of the command."""

    def __init__(
        self, options: BackfillOptions, loaded: LoadedTopology, config: StreamsConfig
    ) -> None:
        from pystreams.topology.plan import TopologyPlan

        self._options = options
        self._topology = loaded.topology
        self._config = config
        self._plan = TopologyPlan(loaded.topology, config.application_id)
        self._path = (options.output or Path(f"{config.application_id}-backfill")).absolute()
        self._spark_conf = pairs(options.spark_conf, "--spark-conf")
        self._admin = self._make_admin() if options.needs_broker else None

    def run(self) -> None:
        from pystreams.cli.backfill_display import show_plan, show_summary

        if self._options.dry_run:
            show_plan(self._planned(), self._plan.application_id)
            return
        manifest = self._staged()
        show_summary(manifest)
        if self._options.publish:
            self._publish()
        if self._options.output is None:
            shutil.rmtree(self._path)
        else:
            click.echo(f"Results: {self._path}", err=True)

    def _make_admin(self) -> AdminPort:
        from pystreams.runtime.adapters.factory import ConfluentClients

        return ConfluentClients(self._config).admin()

    # ------------------------------------------------------------------ history

    def _source(self) -> HistorySource:
        return self._kafka_source() if self._options.from_kafka else self._archive()

    def _kafka_source(self) -> KafkaSource:
        from pystreams.backfill import KafkaBound, KafkaSource
        from pystreams.backfill.staging import begun_identity

        assert self._admin is not None, "--from kafka needs a broker"
        known = self._admin.partition_counts()
        start = bound_of(self._options.start, "--start", known)
        end = bound_of(self._options.end, "--end", known)
        begun = begun_identity(self._path)
        if begun is not None:
            # What is begun goes on with its own bounds; more has arrived meanwhile.
            bounds = begun.partition_bounds()
            start = KafkaBound({**{one: has.first for one, has in bounds.items()}, **start.offsets})
            end = KafkaBound({**{one: has.end for one, has in bounds.items()}, **end.offsets})
        options = pairs(self._options.options, "--option")
        return KafkaSource(self._config.bootstrap_servers, self._admin, start, end, options)

    def _archive(self) -> HistorySource:
        from pystreams.backfill import ArchiveSource

        reader, path = self._options.reader()
        partitions = counts(self._options.partitions, "--partitions")
        if self._admin is not None:
            wanted = {*self._plan.source_topics(), *self._plan.sink_topics()}
            patterns = self._plan.source_patterns()
            partitions |= {
                topic: count
                for topic, count in self._admin.partition_counts().items()
                if topic in wanted or any(one.fullmatch(topic) for one in patterns)
            }
        return ArchiveSource(
            path,
            reader,
            pairs(self._options.options, "--option"),
            columns_of(self._options.columns),
            self._options.topic,
            partitions,
            self._options.gaps_allowed,
        )

    # ------------------------------------------------------------------ steps

    def _planned(self) -> list[PlannedStage]:
        from pystreams.backfill.describing import planned_stages
        from pystreams.backfill.history import WantedTopics
        from pystreams.backfill.spark import spark_session

        wanted = WantedTopics(
            tuple(self._plan.source_topics()), tuple(self._plan.source_patterns())
        )
        if self._options.from_kafka:
            known, bounds = self._kafka_source().bounds(wanted)
            return planned_stages(self._plan, known, bounds)
        with spark_session(self._options.master, self._spark_conf) as spark:
            history = self._archive().read(spark, wanted)
            return planned_stages(self._plan, history.num_partitions, history.bounds)

    def _staged(self) -> Manifest:
        """Return the results, running what of the backfill is not staged yet."""
        from pystreams.backfill.running import run
        from pystreams.backfill.spark import require_pyspark
        from pystreams.backfill.staged_publication import check_identity
        from pystreams.backfill.staging import read_manifest
        from pystreams.cli.backfill_display import show_progress

        if (self._path / "manifest.json").is_file():
            manifest = read_manifest(self._path)
            check_identity(self._path, manifest.identity, self._plan)
            click.echo(f"The results in {self._path} are complete", err=True)
            return manifest
        require_pyspark()
        spark_conf = self._spark_conf
        if self._options.from_kafka:
            from pystreams.backfill.connector_jars import with_connector

            spark_conf = with_connector(spark_conf)
        result = run(
            self._topology,
            self._config,
            source=self._source(),
            output=self._path,
            master=self._options.master,
            spark_conf=spark_conf,
            progress=show_progress,
        )
        return result.manifest

    def _publish(self) -> None:
        from pystreams.backfill import PublishingSettings, publish
        from pystreams.cli.backfill_display import PublishingDisplay, show_published

        settings = PublishingSettings(with_outputs=self._options.publish_outputs)
        with PublishingDisplay() as display:
            done = publish(
                self._topology,
                self._config,
                output=self._path,
                settings=settings,
                progress=display.told,
                seed_state=self._options.seed_state,
            )
        show_published(done, self._config.application_id)
