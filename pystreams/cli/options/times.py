"""Times as people write them: ISO 8601, milliseconds since the epoch, or how long ago."""

from __future__ import annotations

import re
from datetime import UTC, datetime

import click

from pystreams.cli.display.times import told_time
from pystreams.record import MAX_TIME

_UNITS_MS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_SPAN = re.compile(r"(\d+)(ms|s|m|h|d)")


_DATE = re.compile(r"(19|20)\d\d(0[1-9]|1[0-2])(0[1-9]|[12]\d|3[01])")
"""A date without its hyphens: as milliseconds it would be in the first hours of 1970."""
_IN_SECONDS = range(10**9, 10**10)
"""Seconds since the epoch, of the years 2001 to 2286; as milliseconds all are in early 1970."""


def span_ms(text: str, option: str) -> int:
    """Return how long a span such as 90s, 15m, 1h or 2d is (ms).

    Raises:
        UsageError: It is none.
    """
    match = _SPAN.fullmatch(text.strip())
    if match is None:
        raise click.UsageError(f"{option} {text}: write a span such as 90s, 15m, 1h or 2d")
    return int(match[1]) * _UNITS_MS[match[2]]


def time_before_ms(text: str, option: str, now_ms: int) -> int:
    """Return the time that was a span ago (ms).

    Raises:
        UsageError: It is none, or longer than there has been a time of records.
    """
    return _checked(now_ms - span_ms(text, option), text, option)


def time_ms(text: str, option: str, now_ms: int) -> int:
    """Return a time (ms): ISO 8601 (UTC when it has no zone), epoch ms, or a span before now.

    Raises:
        UsageError: It is none of these, or no record has such a time.
    """
    text = text.strip()
    if _SPAN.fullmatch(text):
        return time_before_ms(text, option, now_ms)
    if text.isdecimal() and not _DATE.fullmatch(text):
        return _checked(_no_seconds(int(text), option), text, option)
    try:
        return _checked(iso_ms(text), text, option)
    except ValueError as error:
        raise click.UsageError(
            f"{option} {text}: write a time such as 2025-01-31T12:00:00+01:00, milliseconds since "
            "the epoch, or how long ago: 90s, 15m, 1h, 2d"
        ) from error


def iso_ms(text: str) -> int:
    """Return a time of ISO 8601 (ms); UTC when it has no zone.

    Raises:
        ValueError: It is none.
    """
    time = datetime.fromisoformat(text)
    if time.tzinfo is None:
        time = time.replace(tzinfo=UTC)
    return round(time.timestamp() * 1000)


def _no_seconds(time: int, option: str) -> int:
    """Refuse a time that was given in seconds: it would take everything, or nothing, in silence."""
    if time in _IN_SECONDS:
        raise click.UsageError(
            f"{option} {time}: these look like seconds since the epoch, and it takes milliseconds: "
            f"{time}000. If you mean {told_time(time)}, write it like that"
        )
    return time


def _checked(time: int, text: str, option: str) -> int:
    if not 0 <= time <= MAX_TIME:
        told = "before 1970" if time < 0 else "too far ahead"
        raise click.UsageError(f"{option} {text} is {told}: no record has such a time")
    return time
