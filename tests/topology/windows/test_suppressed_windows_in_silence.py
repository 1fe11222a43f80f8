"""Suppressions until windows close, on an input that has fallen silent: each result once."""

# ruff: noqa: ARG005 - a lambda takes what the DSL gives it.

from __future__ import annotations

from typing import Any

import pytest

from pystreams import (
    BufferConfig,
    StreamsBuilder,
    Suppressed,
    TimeWindows,
    Topology,
    TopologyError,
    aggregations,
)
from pystreams.serdes import LONG, STRING
from pystreams.testing import TopologyTestDriver

TIMEOUT_MS = 1000
TEXT: Any = {"key_serde": STRING, "value_serde": STRING}
WINDOWS = TimeWindows.of_size_with_no_grace(100)
CLOSED: Any = Suppressed.until_window_closes(BufferConfig.unbounded())


def timeouts_of(topology: Topology) -> list[int | None]:
    """The idle timeouts of the operators that may have one."""
    operators: list[Any] = [getattr(node, "operator", None) for node in topology.nodes.values()]
    return [found.idle_timeout_ms for found in operators if hasattr(found, "idle_timeout_ms")]


class Final:
    """Final results of windows of 100 ms without grace, by way of a suppression."""

    def __init__(
        self, topology_ms: int | None, windows_ms: int | None, suppress_ms: int | None
    ) -> None:
        self.late: list[str] = []
        builder = StreamsBuilder(idle_timeout_ms=topology_ms)
        grouped = builder.stream("in", **TEXT).group_by_key()
        windowed = grouped.windowed_by(
            WINDOWS,
            late=lambda key, value, timestamp, window: self.late.append(value),
            idle_timeout_ms=windows_ms,
        )
        counts = windowed.count(name="counts").filter(lambda key, count: count > 0)
        told = counts.suppress(CLOSED, idle_timeout_ms=suppress_ms)
        told.to_stream(lambda windowed, _: windowed.window.start).to("out", key_serde=LONG)
        self.topology = builder.build()

    def run(self) -> list[tuple[int, int]]:
        """What is told of a record, a silence, and a record of the same window."""
        with TopologyTestDriver(self.topology) as driver:
            records = driver.create_input_topic("in", STRING, STRING)
            records.pipe_input("a", "in time", timestamp=10)
            driver.advance_wall_clock_ms(TIMEOUT_MS + 1000)
            records.pipe_input("a", "late", timestamp=20)
            driver.advance_wall_clock_ms(10 * TIMEOUT_MS)
            return driver.create_output_topic("out", LONG, LONG).read_key_values()


@pytest.mark.parametrize("topology_ms", [None, -1, 2 * TIMEOUT_MS])
def test_a_window_that_a_suppression_lets_go_in_silence_is_closed_above_it(
    topology_ms: int | None,
) -> None:
    final = Final(topology_ms, None, TIMEOUT_MS)

    assert (final.run(), final.late) == ([(0, 1)], ["late"])


def test_the_parts_of_a_cogroup_close_with_the_suppression_below() -> None:
    builder, told = StreamsBuilder(), list[str]()
    groups = [builder.stream(topic, **TEXT).group_by_key() for topic in ("one", "two")]
    joined = lambda key, value, so_far: so_far + value  # noqa: E731 - twice the same
    together = groups[0].cogroup(joined).cogroup(groups[1], joined).windowed_by(WINDOWS)
    final = together.aggregate(str, value_serde=STRING).suppress(CLOSED, idle_timeout_ms=TIMEOUT_MS)
    final.to_stream().foreach(lambda windowed, value: told.append(value))
    with TopologyTestDriver(builder.build()) as driver:
        for topic in ("one", "two"):
            driver.create_input_topic(topic, STRING, STRING).pipe_input("a", topic, timestamp=10)
        driver.advance_wall_clock_ms(TIMEOUT_MS + 1000)
        driver.create_input_topic("two", STRING, STRING).pipe_input("a", "late", timestamp=20)
        driver.advance_wall_clock_ms(10 * TIMEOUT_MS)

    assert told == ["onetwo"]


def test_results_of_a_ready_aggregation_are_told_once_in_silence() -> None:
    builder, told = StreamsBuilder(), list[int]()
    grouped = builder.stream("in", **TEXT).group_by_key()
    counts = grouped.windowed_by(WINDOWS).aggregate(aggregations.count())
    counts.suppress(CLOSED, idle_timeout_ms=TIMEOUT_MS).to_stream().foreach(
        lambda windowed, number: told.append(number)
    )
    with TopologyTestDriver(builder.build()) as driver:
        records = driver.create_input_topic("in", STRING, STRING)
        records.pipe_input("a", "x", timestamp=10)
        driver.advance_wall_clock_ms(TIMEOUT_MS + 1000)
        records.pipe_input("a", "late", timestamp=20)
        driver.advance_wall_clock_ms(10 * TIMEOUT_MS)

    assert told == [1]


def test_the_shortest_timeout_of_several_suppressions_closes_the_windows() -> None:
    builder = StreamsBuilder()
    counts = builder.stream("in", **TEXT).group_by_key().windowed_by(WINDOWS).count(name="counts")
    for timeout_ms in (-1, 3000, 500):
        counts.suppress(CLOSED, idle_timeout_ms=timeout_ms).to_stream().foreach(print)
    before = counts.suppress(Suppressed.until_time_limit(5, BufferConfig.unbounded()))
    before.to_stream().foreach(print)

    first, again = builder.build(), builder.build()

    assert timeouts_of(first) == timeouts_of(again) == [500, None, 3000, 500, None]


def test_a_suppression_waits_as_long_as_windows_that_have_a_longer_timeout_of_their_own() -> None:
    longer = Final(TIMEOUT_MS, 3 * TIMEOUT_MS, None)
    assert (longer.run(), longer.late) == ([(0, 2)], [])
    never = Final(TIMEOUT_MS, -1, None)
    assert (never.run(), never.late) == ([], [])


@pytest.mark.parametrize(("windows_ms", "suppress_ms"), [(2000, 1000), (-1, 1000)])
def test_a_suppression_that_is_to_tell_windows_before_they_close_is_refused(
    windows_ms: int, suppress_ms: int
) -> None:
    why = f"idle_timeout_ms={suppress_ms} .*windowed_by has idle_timeout_ms={windows_ms}: take"
    with pytest.raises(TopologyError, match=why):
        Final(5000, windows_ms, suppress_ms)
