"""Rates of growing totals, and durations in words."""

from __future__ import annotations

import pytest

from pystreams.kernel.rate import RateMeter, duration


def test_the_first_sample_has_no_rate() -> None:
    assert RateMeter().rate(1000, now_s=3.0) == 0.0


def test_the_rate_covers_the_window_only() -> None:
    meter = RateMeter(window_s=5.0)
    for second in range(11):
        meter.rate(1000 * second, float(second))

    assert meter.rate(10_000, 15.0) == 0.0
    assert meter.rate(10_600, 16.0) == 100.0


def test_a_falling_total_starts_anew() -> None:
    meter = RateMeter()
    meter.rate(1000, 0.0)

    assert meter.rate(10, 1.0) == 0.0
    assert meter.rate(20, 2.0) == 10.0


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0.4, "0 s"),
        (59.4, "59 s"),
        (59.6, "1 min 0 s"),
        (3599, "59 min 59 s"),
        (11_100, "3 h 5 min"),
    ],
)
def test_a_duration_is_told_in_its_two_largest_units(seconds: float, words: str) -> None:
    assert duration(seconds) == words
