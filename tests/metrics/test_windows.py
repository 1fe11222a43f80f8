"""Rates, averages and maxima: what is in the last windows counts, and nothing older."""

from __future__ import annotations

import math
from typing import Any

import pytest

from pystreams.metrics import SampledValues, TotalsHistory


def sampled(*recorded: tuple[float, float], window_ms: int = 10, num_samples: int = 2) -> Any:
    values = SampledValues(window_ms, num_samples)
    for value, now_ms in recorded:
        values.record(value, now_ms)
    return values


def test_average_maximum_and_minimum_are_over_all_samples() -> None:
    reading = sampled((4, 0), (6, 12)).read(15)

    assert (reading.average, reading.maximum, reading.minimum) == (5, 6, 4)


def test_a_sample_is_forgotten_when_it_is_older_than_all_windows() -> None:
    reading = sampled((4, 0), (6, 12)).read(21)

    assert (reading.average, reading.maximum, reading.minimum) == (6, 6, 6)


def test_nothing_recorded_lately_is_no_number_and_a_rate_of_zero() -> None:
    for values in (sampled(), sampled((4, 0), (6, 12))):
        reading = values.read(1000)

        assert reading.rate == 0
        assert math.isnan(reading.average)
        assert math.isnan(reading.maximum)
        assert math.isnan(reading.minimum)


def test_a_rate_is_what_was_recorded_by_the_time_it_took() -> None:
    assert sampled((1, 0), (1, 4), (1, 12)).read(15).rate == pytest.approx(3 / 0.015)


def test_a_value_recorded_just_now_is_no_high_rate() -> None:
    assert sampled((1, 0)).read(0).rate == pytest.approx(1 / 0.010)
    assert sampled((1, 0), num_samples=1).read(0).rate == pytest.approx(1 / 0.010)
    assert sampled((1, 0), num_samples=4).read(1).rate == pytest.approx(1 / 0.030)


def test_the_count_goes_on_when_samples_are_forgotten() -> None:
    values = sampled((1, 0), (1, 100), (1, 200))

    assert values.count == 3
    assert values.read(200).average == 1


def test_negative_values_have_a_maximum() -> None:
    assert sampled((-3, 0), (-2, 1)).read(1).maximum == -2


def test_the_rate_of_a_total_is_what_it_grew_in_the_last_windows() -> None:
    history = TotalsHistory[str](10, 2, 0)
    history.sample(10, lambda: {"t": 30})
    history.sample(20, lambda: {"t": 50})

    assert history.rate("t", 60, 25) == pytest.approx((60 - 30) / 0.015)


def test_totals_are_looked_at_once_a_window() -> None:
    looks: list[int] = []
    history = TotalsHistory[str](10, 2, 0)

    def totals() -> dict[str, float]:
        looks.append(1)
        return {}

    for now_ms in range(35):
        history.sample(now_ms, totals)

    assert len(looks) == 3


def test_a_total_that_is_new_grew_from_nothing() -> None:
    history = TotalsHistory[str](10, 2, 0)
    history.sample(10, lambda: {"other": 1})
    history.sample(20, lambda: {"other": 1})

    assert history.rate("t", 5, 20) == pytest.approx(5 / 0.010)


def test_a_total_that_began_anew_has_no_negative_rate() -> None:
    history = TotalsHistory[str](10, 2, 0)
    history.sample(10, lambda: {"t": 100})
    history.sample(20, lambda: {"t": 3})

    assert history.rate("t", 5, 20) == pytest.approx(5 / 0.010)
