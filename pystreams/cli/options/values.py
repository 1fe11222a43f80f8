"""What options say: `KEY=VALUE`, `TOPIC=N`, and where a topic is read from and up to."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import click

from pystreams.cli.options.times import iso_ms
from pystreams.ids import TopicPartition

if TYPE_CHECKING:
    from pystreams.backfill import KafkaBound

_KEY = re.compile(r"[^\s:=]+")
_BOUND = re.compile(r"(?P<topic>[^=:]+)(?::(?P<partition>\d+))?=(?P<value>.+)")


def pair_of(text: str, option: str) -> tuple[str, str]:
    """Return key and value of a `KEY=VALUE` text.

    Raises:
        UsageError: It has another form. The message does not repeat what may be a secret.
    """
    key, equals, value = text.partition("=")
    if equals and _KEY.fullmatch(key.strip()):
        return key.strip(), value
    begun = _KEY.match(text)
    shown = f"{begun[0]} ..." if begun and begun[0] != text else "..."
    raise click.UsageError(f"{option} {shown}: write KEY=VALUE")


def pairs(texts: Iterable[str], option: str) -> dict[str, str]:
    """Return `KEY=VALUE` texts as keys and values.

    Raises:
        UsageError: A text has another form.
    """
    return dict(pair_of(text, option) for text in texts)


def counts(texts: Iterable[str], option: str) -> dict[str, int]:
    """Return `TOPIC=N` texts as topics and numbers.

    Raises:
        UsageError: A text has another form.
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
        UsageError: A text has another form, or gives a time for one partition.
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
            try:
                times_ms[topic] = iso_ms(value)
            except ValueError as error:
                raise click.UsageError(
                    f"{option} {text}: neither an offset nor a time such as "
                    "2025-01-31T12:00:00+01:00"
                ) from error
    return KafkaBound(offsets, times_ms)
