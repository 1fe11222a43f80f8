"""Times in options: how people write them, and what they mean."""

from __future__ import annotations

import click
import pytest

from pystreams.cli.options.times import time_ms

NOW_MS = 1_800_000_000_000


@pytest.mark.parametrize(
    ("text", "time"),
    [
        ("2026-11-28", 1_795_824_000_000),
        ("20261128", 1_795_824_000_000),
        ("20261128T120000Z", 1_795_867_200_000),
        ("0", 0),
        ("1795824000000", 1_795_824_000_000),
        ("12345678", 12_345_678),  # No date.
        ("1h", NOW_MS - 3_600_000),
    ],
)
def test_a_time_is_a_date_or_milliseconds_or_how_long_ago(text: str, time: int) -> None:
    assert time_ms(text, "--from", NOW_MS) == time


@pytest.mark.parametrize("text", ["1000000000", "1795824000", "9999999999"])
def test_a_time_in_seconds_is_refused_with_what_to_write(text: str) -> None:
    with pytest.raises(click.UsageError, match=f"--from {text}: .* milliseconds: {text}000"):
        time_ms(text, "--from", NOW_MS)


def test_a_time_of_1970_that_looks_like_seconds_is_written_as_a_date() -> None:
    with pytest.raises(click.UsageError, match="write it like that") as refused:
        time_ms("1795824000", "--from", NOW_MS)
    written = refused.value.message.partition("you mean ")[2].partition(",")[0]

    assert time_ms(written, "--from", NOW_MS) == 1_795_824_000
