"""Stream time on an input that has fallen silent: what waits for it goes on with the wall clock."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from pystreams import (
    BufferConfig,
    EmitStrategy,
    JoinWindows,
    Materialized,
    SessionWindows,
    SlidingWindows,
    StreamsBuilder,
    Suppressed,
    TimeWindows,
    TopologyError,
    UnlimitedWindows,
    session_windowed_serde,
    time_windowed_serde,
)
from pystreams.serdes import LONG, STRING
from pystreams.testing import TopologyTestDriver
from tests.topology.joins.joined_streams import JoinedStreams

TIMEOUT_MS = 1000
WINDOWS = JoinWindows.of_time_difference_and_grace(100, 50)
"""A record waits for another at most 150 ms, of event time."""


def pair(one: str | None, other: str | None) -> str:
    return f"{one}+{other}"


class Joined(JoinedStreams):
    """An outer join whose records wait; its results while the wall clock moves on."""

    def after(self, advance_ms: int) -> list[tuple[str | None, str, int]]:
        """Let the wall clock move on; return the results."""
        self.driver.advance_wall_clock_ms(advance_ms)
        return [(record.key, record.value, record.timestamp) for record in self._out.read_records()]


@pytest.fixture
def joined() -> Iterator[Joined]:
    with Joined("outer_join", WINDOWS, idle_timeout_ms=TIMEOUT_MS) as streams:
        yield streams


def test_a_record_without_a_match_is_let_go_when_its_window_is_over_by_the_wall_clock(
    joined: Joined,
) -> None:
    joined.left("a", "1", 5000)

    assert joined.after(TIMEOUT_MS) == []
    assert joined.after(150) == []
    assert joined.after(TIMEOUT_MS) == [("a", "1+none", 5000)]


def test_stream_time_follows_the_wall_clock_at_a_distance_of_the_timeout(joined: Joined) -> None:
    joined.left("a", "1", 5000)

    assert joined.after(TIMEOUT_MS + 150) == []
    # Looked at a second later again: stream time is 5000 + 151 then at least.
    assert joined.after(1000) == [("a", "1+none", 5000)]


def test_records_begin_silence_anew(joined: Joined) -> None:
    joined.left("a", "1", 5000)
    assert joined.after(TIMEOUT_MS - 1) == []
    joined.right("b", "2", 4990)

    assert joined.after(TIMEOUT_MS) == []
    assert joined.after(TIMEOUT_MS + 151) == [("b", "none+2", 4990), ("a", "1+none", 5000)]


def test_a_record_behind_the_time_that_silence_has_reached_is_dropped(joined: Joined) -> None:
    joined.left("a", "1", 5000)
    assert joined.after(TIMEOUT_MS + 2000) == [("a", "1+none", 5000)]

    assert joined.right("a", "2", 5100) == []
    assert joined.dropped() == 1
    # A later one of the left side does not find what was dropped.
    assert joined.left("a", "3", 5110) == []


def test_stream_time_goes_on_only_as_far_as_something_waits(joined: Joined) -> None:
    joined.left("a", "1", 5000)
    assert joined.after(TIMEOUT_MS + 100_000) == [("a", "1+none", 5000)]

    # 5151 let it go; grace is 50.
    assert joined.right("a", "2", 5101) == []
    assert joined.dropped() == 0
    assert joined.left("a", "3", 5102) == [("a", "3+2", 5102)]


def test_a_task_in_which_nothing_waits_is_not_looked_at(joined: Joined) -> None:
    [task] = joined.driver._tasks
    joined.left("a", "1", 5000)
    assert task.wall_clock_due_ms() is not None

    joined.after(TIMEOUT_MS + 2000)

    assert task.wall_clock_due_ms() is None
    joined.right("b", "2", 6000)
    assert task.wall_clock_due_ms() is not None


def test_without_a_timeout_the_wall_clock_lets_nothing_go() -> None:
    with Joined("outer_join", WINDOWS) as joined:
        joined.left("a", "1", 5000)

        assert joined.after(10**9) == []
        assert joined.driver._tasks[0].wall_clock_due_ms() is None


def test_a_timeout_of_the_topology_holds_for_each_join_that_has_none_of_its_own() -> None:
    def results(**own: Any) -> list[tuple[str, str]]:
        builder = StreamsBuilder(idle_timeout_ms=TIMEOUT_MS)
        left = builder.stream("left", key_serde=STRING, value_serde=STRING)
        right = builder.stream("right", key_serde=STRING, value_serde=STRING)
        left.left_join(right, pair, WINDOWS, **own).to("out", value_serde=STRING)
        with TopologyTestDriver(builder.build()) as driver:
            driver.create_input_topic("left", STRING, STRING).pipe_input("a", "1", 5000)
            driver.advance_wall_clock_ms(TIMEOUT_MS + 2000)
            return driver.create_output_topic("out", STRING, STRING).read_key_values()

    assert results() == [("a", "1+None")]
    assert results(idle_timeout_ms=-1) == []
    assert results(idle_timeout_ms=TIMEOUT_MS + 5000) == []


def test_a_join_that_waits_for_nothing_takes_no_timeout() -> None:
    builder = StreamsBuilder()
    left, right = builder.stream("left"), builder.stream("right")
    table = builder.table("table")

    with pytest.raises(TopologyError, match="waits for nothing"):
        left.join(right, pair, WINDOWS, idle_timeout_ms=1)
    with pytest.raises(TopologyError, match="waits for nothing"):
        left.join(table, pair, idle_timeout_ms=1)


@pytest.mark.parametrize("timeout_ms", [0, -2, 1.5, "1", True])
def test_a_timeout_that_is_none_is_refused(timeout_ms: Any) -> None:
    with pytest.raises(TopologyError, match="StreamsBuilder: idle_timeout_ms must be"):
        StreamsBuilder(idle_timeout_ms=timeout_ms)


def test_a_join_with_grace_lets_records_go_when_the_input_is_silent() -> None:
    builder = StreamsBuilder(idle_timeout_ms=TIMEOUT_MS)
    stream = builder.stream("stream", key_serde=STRING, value_serde=STRING)
    table = builder.table(
        "table",
        key_serde=STRING,
        value_serde=STRING,
        materialized=Materialized(name="history", history_retention_ms=600_000),
    )
    stream.join(table, pair, grace_period_ms=100).to("out", value_serde=STRING)
    with TopologyTestDriver(builder.build()) as driver:
        driver.create_input_topic("table", STRING, STRING).pipe_input("k", "A", 0)
        records = driver.create_input_topic("stream", STRING, STRING)
        out = driver.create_output_topic("out", STRING, STRING)
        records.pipe_input("k", "1", 50)

        driver.advance_wall_clock_ms(TIMEOUT_MS + 99)
        assert out.read_key_values() == []
        driver.advance_wall_clock_ms(1000)
        assert out.read_key_values() == [("k", "1+A")]
        # Late by the time that silence has reached: joined at once.
        records.pipe_input("k", "2", 49)
        assert out.read_key_values() == [("k", "2+A")]


WINDOWINGS = [
    TimeWindows.of_size_and_grace(100, 10),
    TimeWindows.of_size_and_grace(100, 10).advance_by(50),
    SlidingWindows.of_time_difference_and_grace(100, 10),
    SessionWindows.of_inactivity_gap_and_grace(40, 10),
]


class Windowed:
    """Counts of windows with final results, in a driver.

    Args:
        windows: How time is cut.
        emit: When results are sent on.
        options: Keywords of `windowed_by`.
    """

    def __init__(
        self,
        windows: TimeWindows | SlidingWindows | SessionWindows,
        emit: EmitStrategy = EmitStrategy.ON_WINDOW_CLOSE,
        **options: Any,
    ) -> None:
        builder = StreamsBuilder()
        grouped = builder.stream("in", key_serde=STRING, value_serde=STRING).group_by_key()
        counts = grouped.windowed_by(windows, **options).emit_strategy(emit).count()
        counts.to_stream().to("out", value_serde=LONG)
        self.driver = TopologyTestDriver(builder.build())
        self._in = self.driver.create_input_topic("in", STRING, STRING)
        serde = (
            session_windowed_serde(STRING)
            if isinstance(windows, SessionWindows)
            else time_windowed_serde(STRING, windows.size_ms)
        )
        self._out = self.driver.create_output_topic("out", serde, LONG)

    def pipe(self, key: str, timestamp: int) -> list[tuple[str, int, int]]:
        """Pipe a record; return (key, start of the window, count) of what came out."""
        self._in.pipe_input(key, "x", timestamp)
        return self._results()

    def after(self, advance_ms: int) -> list[tuple[str, int, int]]:
        """Let the wall clock move on; return the same."""
        self.driver.advance_wall_clock_ms(advance_ms)
        return self._results()

    def dropped(self) -> int:
        """How many records were dropped, or windows of one."""
        return sum(task.counts.dropped for task in self.driver._tasks)

    def _results(self) -> list[tuple[str, int, int]]:
        return [(key.key, key.window.start, count) for key, count in self._out.read_key_values()]


@pytest.mark.parametrize("windows", WINDOWINGS)
def test_all_windows_close_on_a_silent_input_each_once(
    windows: TimeWindows | SlidingWindows | SessionWindows,
) -> None:
    counts = Windowed(windows, idle_timeout_ms=TIMEOUT_MS)
    noisy = Windowed(windows)
    for key, time in [("a", 1000), ("a", 1030), ("b", 1060), ("a", 1110)]:
        assert counts.pipe(key, time) == noisy.pipe(key, time)

    silent = counts.after(TIMEOUT_MS + 10_000)

    assert silent == [result for result in noisy.pipe("end", 100_000) if result[0] != "end"]
    assert counts.after(10_000) == []
    assert counts.pipe("end", 100_000) == []


@pytest.mark.parametrize("windows", WINDOWINGS)
@pytest.mark.parametrize("emit", EmitStrategy)
def test_a_record_of_a_window_that_silence_has_closed_is_late(
    windows: TimeWindows | SlidingWindows | SessionWindows, emit: EmitStrategy
) -> None:
    counts = Windowed(windows, emit, idle_timeout_ms=TIMEOUT_MS)
    counts.pipe("a", 1000)
    counts.after(TIMEOUT_MS + 10_000)

    assert counts.pipe("a", 800) == []
    assert counts.dropped() >= 1


def test_a_window_closes_when_the_clock_has_passed_its_end_the_grace_period_and_the_timeout() -> (
    None
):
    counts = Windowed(TimeWindows.of_size_and_grace(10_000, 500), idle_timeout_ms=TIMEOUT_MS)
    counts.pipe("a", 3000)

    assert counts.after(TIMEOUT_MS + 7499) == []
    assert counts.after(1000) == [("a", 0, 1)]


def test_stream_time_grows_by_no_more_than_the_clock_when_operators_feed_each_other() -> None:
    builder = StreamsBuilder(idle_timeout_ms=TIMEOUT_MS)
    grouped = builder.stream("in", key_serde=STRING, value_serde=STRING).group_by_key()
    closing = EmitStrategy.on_window_close()
    short = grouped.windowed_by(TimeWindows.of_size_with_no_grace(10)).emit_strategy(closing)
    counts = short.count().to_stream()
    long = TimeWindows.of_size_with_no_grace(5000)
    again = counts.group_by_key(key_serde=time_windowed_serde(STRING, 10), value_serde=LONG)
    again.windowed_by(long).emit_strategy(closing).count().to_stream().foreach(
        lambda key, count: sent.append((key.window.start, count))
    )
    sent: list[tuple[int, int]] = []
    with TopologyTestDriver(builder.build()) as driver:
        driver.create_input_topic("in", STRING, STRING).pipe_input("a", "x", 1000)
        driver.advance_wall_clock_ms(TIMEOUT_MS + 500)
        # The long window ends at 5000, 4 s after the record.
        driver.advance_wall_clock_ms(3400)
        assert sent == []
        driver.advance_wall_clock_ms(1200)
        assert sent == [(0, 1)]


def suppressed(**options: Any) -> StreamsBuilder:
    """Return counts of windows of 100 ms that wait until these close."""
    builder = StreamsBuilder()
    grouped = builder.stream("in", key_serde=STRING, value_serde=STRING).group_by_key()
    counts = grouped.windowed_by(TimeWindows.of_size_and_grace(100, 20)).count()
    config = BufferConfig.unbounded()
    finals = counts.suppress(Suppressed.until_window_closes(config), **options)
    finals.to_stream(lambda windowed, _: windowed.window.start).to("out", key_serde=LONG)
    return builder


def test_a_suppression_lets_go_on_a_silent_input_what_it_holds_each_once() -> None:
    with TopologyTestDriver(suppressed(idle_timeout_ms=TIMEOUT_MS).build()) as driver:
        records = driver.create_input_topic("in", STRING, STRING)
        out = driver.create_output_topic("out", LONG, LONG)
        for time in (10, 20, 110):
            records.pipe_input("a", "x", timestamp=time)
        driver.advance_wall_clock_ms(TIMEOUT_MS)
        assert out.read_key_values() == []

        driver.advance_wall_clock_ms(10_000)

        assert out.read_key_values() == [(0, 2), (100, 1)]
        driver.advance_wall_clock_ms(10_000)
        records.pipe_input("a", "x", timestamp=100_000)
        assert out.read_key_values() == []


def test_a_suppression_without_a_timeout_waits_for_records() -> None:
    with TopologyTestDriver(suppressed().build()) as driver:
        driver.create_input_topic("in", STRING, STRING).pipe_input("a", "x", timestamp=10)
        driver.advance_wall_clock_ms(1_000_000)
        assert driver.create_output_topic("out", LONG, LONG).read_key_values() == []


def test_windows_that_never_close_take_no_timeout() -> None:
    grouped = StreamsBuilder(idle_timeout_ms=1).stream("in").group_by_key()

    grouped.windowed_by(UnlimitedWindows.of()).count()
    with pytest.raises(TopologyError, match="never close"):
        grouped.windowed_by(UnlimitedWindows.of(), idle_timeout_ms=1)
