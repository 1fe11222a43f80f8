"""What `pystreams backfill` is told on its command line, as sources and bounds."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pystreams.cli.options import pair_of
from pystreams.ids import TopicPartition

if TYPE_CHECKING:
    from pystreams.backfill import KafkaBound

FOR_RUN_OPTION = "--before-run"
"""Hidden option of `pystreams backfill`: `pystreams run` waits for its end, and goes on."""

_BOUND = re.compile(r"(?P<topic>[^=:]+)(?::(?P<partition>\d+))?=(?P<value>.+)")


def staging_path(output: Path | None, application_id: str) -> Path:
    """Return the staging directory: the one that is given, or the application's own here."""
    return (output or Path(f"{application_id}-backfill")).absolute()


@dataclass(frozen=True, slots=True)
class BackfillOptions:
    """What the command line said, beside what configures the application."""

    source: str
    options: tuple[str, ...]
    columns: tuple[str, ...]
    topic: str | None
    partitions: tuple[str, ...]
    gaps_allowed: bool
    start: tuple[str, ...]
    end: tuple[str, ...]
    master: str | None
    spark_conf: tuple[str, ...]
    output: Path | None
    publish: bool
    publish_outputs: bool
    seed_state: bool
    dry_run: bool

    @property
    def from_kafka(self) -> bool:
        """Whether the history is read from Kafka."""
        return self.source == "kafka"

    @property
    def needs_broker(self) -> bool:
        """Whether anything is asked of the application's brokers."""
        return self.from_kafka or (self.publish and not self.dry_run)

    def reader(self) -> tuple[str, str | None]:
        """Return the name of Spark's reader, and what it is to read."""
        reader, colon, path = self.source.partition(":")
        return reader, path if colon else None

    def check(self) -> None:
        """Refuse options that contradict each other or would have no effect.

        Raises:
            UsageError: They do.
        """
        if self.publish_outputs and not self.publish:
            raise click.UsageError("--publish-outputs publishes, and --no-publish says not to")
        if self.seed_state and not self.publish:
            raise click.UsageError(
                "--seed-state builds what is published, and --no-publish says not to publish"
            )
        if not self.publish and self.output is None and not self.dry_run:
            raise click.UsageError("--no-publish leaves nothing behind: give --output DIR")
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
        if self.publish and columns_of(self.columns).get("offset", "given") is None:
            raise click.UsageError(
                "--column offset= says that the archive has no offsets, and the application could "
                "not go on right behind it: add --no-publish (with --output DIR) for a data set, "
                "or name the column that holds Kafka's offsets"
            )


def pairs(texts: Iterable[str], option: str) -> dict[str, str]:
    """Return `KEY=VALUE` texts as keys and values.

    Raises:
        UsageError: One is none.
    """
    return dict(pair_of(text, option) for text in texts)


def counts(texts: Iterable[str], option: str) -> dict[str, int]:
    """Return `TOPIC=N` texts as topics and numbers.

    Raises:
        UsageError: One is none.
    """
    found = {}
    for key, value in pairs(texts, option).items():
        if not value.isdigit() or int(value) < 1:
            raise click.UsageError(f"{option} {key}={value}: write TOPIC=N, with N of 1 or more")
        found[key] = int(value)
    return found


def columns_of(texts: Iterable[str]) -> dict[str, str | None]:
    """Return `OURS=THEIRS` texts; `OURS=` says that there is no such column."""
    return {ours: theirs or None for ours, theirs in pairs(texts, "--column").items()}


def bound_of(texts: Iterable[str], option: str, num_partitions: Mapping[str, int]) -> KafkaBound:
    """Return `TOPIC[:PARTITION]=OFFSET|TIME` texts as a bound.

    A whole number is an offset, of all partitions of a topic if none is named. A time is ISO 8601,
    as in 2025-01-31 or 2025-01-31T12:00:00+01:00; UTC when it has no zone.

    Raises:
        UsageError: One is neither; a time is given for one partition.
    """
    from pystreams.backfill import KafkaBound

    offsets: dict[TopicPartition, int] = {}
    times_ms: dict[str, int] = {}
    for text in texts:
        match = _BOUND.fullmatch(text)
        if match is None:
            raise click.UsageError(f"{option} {text}: write TOPIC[:PARTITION]=OFFSET or TOPIC=TIME")
        topic, partition, value = match.group("topic", "partition", "value")
        if value.isdigit():
            numbers = range(num_partitions.get(topic, 1)) if partition is None else [int(partition)]
            offsets |= {TopicPartition(topic, number): int(value) for number in numbers}
        elif partition is not None:
            raise click.UsageError(f"{option} {text}: a time is for a whole topic")
        else:
            times_ms[topic] = _milliseconds(value, f"{option} {text}")
    return KafkaBound(offsets, times_ms)


def _milliseconds(text: str, given: str) -> int:
    try:
        time = datetime.fromisoformat(text)
    except ValueError as error:
        raise click.UsageError(
            f"{given}: neither an offset nor a time such as 2025-01-31T12:00:00+01:00"
        ) from error
    if time.tzinfo is None:
        time = time.replace(tzinfo=UTC)
    return round(time.timestamp() * 1000)
