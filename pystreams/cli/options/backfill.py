"""The options of `pystreams backfill`: where its history is, and what becomes of its results."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import click

from pystreams.cli.options.groups import SparkOptions, grouped
from pystreams.cli.options.values import columns_of

FOR_RUN_OPTION = "--before-run"
"""Hidden option of `pystreams backfill`: `pystreams run` waits for its end, and goes on."""


def staging_path(output: Path | None, application_id: str) -> Path:
    """Return the staging directory: the one that is given, or the application's own here."""
    return (output or Path(f"{application_id}-backfill")).absolute()


@dataclass(frozen=True, slots=True)
class HistoryOptions:
    """Where the history is, and how much of it is meant."""

    source: str
    options: tuple[str, ...]
    columns: tuple[str, ...]
    topic: str | None
    partitions: tuple[str, ...]
    gaps_allowed: bool
    start: tuple[str, ...]
    end: tuple[str, ...]

    @property
    def from_kafka(self) -> bool:
        """Whether the history is read from Kafka."""
        return self.source == "kafka"

    @property
    def is_bounded(self) -> bool:
        """Whether only a part of it is asked for."""
        return bool(self.start or self.end)

    def reader(self) -> tuple[str, str | None]:
        """Return the name of Spark's reader, and what it is to read."""
        reader, colon, path = self.source.partition(":")
        return reader, path if colon else None

    def check(self) -> None:
        """Refuse options that have no effect on this source.

        Raises:
            UsageError: One has none.
        """
        for_archives = {
            "--column": self.columns,
            "--topic": self.topic,
            "--partitions": self.partitions,
            "--gaps-allowed": self.gaps_allowed,
        }
        for_kafka = {"--start": self.start, "--end": self.end}
        for name, given in (for_archives if self.from_kafka else for_kafka).items():
            if given:
                other = "an archive" if self.from_kafka else "--from kafka"
                raise click.UsageError(f"{name} is for {other}: leave it out")


@dataclass(frozen=True, slots=True)
class ResultOptions:
    """What becomes of the results."""

    output: Path | None
    publish: bool
    publish_outputs: bool
    seed_state: bool
    dry_run: bool

    def check(self) -> None:
        """Refuse options that contradict each other.

        Raises:
            UsageError: They do.
        """
        if self.publish:
            return
        if self.publish_outputs:
            raise click.UsageError("--publish-outputs publishes, and --no-publish says not to")
        if self.seed_state:
            raise click.UsageError(
                "--seed-state builds what is published, and --no-publish says not to publish"
            )
        if self.output is None and not self.dry_run:
            raise click.UsageError("--no-publish leaves nothing behind: give --output DIR")


@dataclass(frozen=True, slots=True)
class BackfillOptions:
    """What the command line said, beside what configures the application."""

    history: HistoryOptions
    results: ResultOptions
    spark: SparkOptions

    @property
    def needs_broker(self) -> bool:
        """Whether anything is asked of the application's brokers."""
        publishes = self.results.publish and not self.results.dry_run
        return self.history.from_kafka or publishes

    def check(self) -> None:
        """Refuse options that contradict each other or would have no effect.

        Raises:
            UsageError: They do.
        """
        self.results.check()
        self.history.check()
        columns = columns_of(self.history.columns)
        if self.results.publish and columns.get("offset", "given") is None:
            raise click.UsageError(
                "--column offset= says that the archive has no offsets, and the application could "
                "not go on right behind it: add --no-publish (with --output DIR) for a data set, "
                "or name the column that holds Kafka's offsets"
            )


history_options = grouped(
    "history",
    HistoryOptions,
    click.option(
        "--from",
        "source",
        default="kafka",
        show_default=True,
        metavar="kafka|parquet:PATH|READER[:PATH]",
        help="Where the history is: in Kafka, or in what a Spark reader reads.",
    ),
    click.option(
        "--option",
        "options",
        multiple=True,
        metavar="KEY=VALUE",
        help="An option of Spark's reader.",
    ),
    click.option(
        "--column",
        "columns",
        multiple=True,
        metavar="OURS=THEIRS",
        help="The archive's column for topic, partition, offset, timestamp, key, value or headers, "
        "where it has another name. OURS= says that it has none.",
    ),
    click.option("--topic", metavar="TOPIC", help="The topic of all records of an archive."),
    click.option(
        "--partitions",
        multiple=True,
        metavar="TOPIC=N",
        help="Partitions of a topic, where neither a broker nor the archive tells. Says also "
        "that a topic without records in the archive is meant to be empty.",
    ),
    click.option("--gaps-allowed", is_flag=True, help="Offsets may be missing in the archive."),
    click.option(
        "--start",
        multiple=True,
        metavar="TOPIC[:PARTITION]=OFFSET|TIME",
        help="Where the history in Kafka begins. Default: at the first offset.",
    ),
    click.option(
        "--end",
        multiple=True,
        metavar="TOPIC[:PARTITION]=OFFSET|TIME",
        help="Where it ends; the live application goes on there. Default: at the end now.",
    ),
)

result_options = grouped(
    "results",
    ResultOptions,
    click.option(
        "--output",
        type=click.Path(file_okay=False, path_type=Path),
        metavar="DIR",
        help="Stage the results here and keep them; as a data set for others, too: Parquet with "
        "typed columns, in DIR/dataset/outputs/TOPIC and DIR/dataset/stores/STORE. "
        "Default: <application.id>-backfill here, removed once it is published.",
    ),
    click.option(
        "--publish/--no-publish",
        default=True,
        show_default=True,
        help="Fill the changelogs, and hand the group over to the live application.",
    ),
    click.option("--publish-outputs", is_flag=True, help="Publish output records too."),
    click.option(
        "--seed-state",
        is_flag=True,
        help="Build the stores in this host's state.dir too: what starts here restores nothing.",
    ),
    click.option("--dry-run", is_flag=True, help="Show what would run, and run nothing."),
)
