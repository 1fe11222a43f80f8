"""Records at the last timestamp there is, 2^63 - 1 ms, as a `valid_until` without an end has it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from pystreams import (
    BufferConfig,
    JoinWindows,
    Materialized,
    SlidingWindows,
    StreamsBuilder,
    Suppressed,
    TimeWindows,
)
from pystreams.serdes import STRING
from pystreams.testing import TopologyTestDriver
from tests.topology.joins.joined_streams import KINDS, JoinedStreams, Kind

LAST_MS = 2**63 - 1
HOUR_MS = 3_600_000
TEXT: Any = {"key_serde": STRING, "value_serde": STRING}
Piped = tuple[str, str]
"""The topic, and the value, of a record at the last timestamp."""


def results(
    declare: Callable[[StreamsBuilder], Any],
    *records: Piped,
    idle_timeout_ms: int | None = None,
    config: Mapping[str, Any] | None = None,
) -> list[str]:
    """What comes out of a stream of text when such records come; then the wall clock moves on."""
    builder = StreamsBuilder(idle_timeout_ms=idle_timeout_ms)
    declare(builder).map(lambda key, value: (str(key), str(value))).to("out", **TEXT)
    with TopologyTestDriver(builder.build(), config) as driver:
        for topic, value in records:
            driver.pipe_raw(topic, b"k", value.encode(), LAST_MS)
        for _ in range(2):
            driver.advance_wall_clock_ms(HOUR_MS)
        return driver.create_output_topic("out", STRING, STRING).read_values()


def limited(builder: StreamsBuilder, wait_ms: int) -> Any:
    suppressed: Any = Suppressed.until_time_limit(wait_ms, BufferConfig.unbounded())
    return builder.table("in", **TEXT).suppress(suppressed).to_stream()


def closing(builder: StreamsBuilder, windows: Any) -> Any:
    counts: Any = builder.stream("in", **TEXT).group_by_key().windowed_by(windows).count()
    final = Suppressed.until_window_closes(BufferConfig.unbounded())
    return counts.suppress(final).to_stream()


def joined(builder: StreamsBuilder, grace_period_ms: int) -> Any:
    history = Materialized(name="history", history_retention_ms=HOUR_MS)
    table = builder.table("table", materialized=history, **TEXT)
    stream = builder.stream("in", **TEXT)
    return stream.join(table, lambda one, row: f"{one}+{row}", grace_period_ms=grace_period_ms)


def test_a_suppression_lets_a_record_go_that_no_later_one_can_follow() -> None:
    assert results(lambda builder: limited(builder, 0), ("in", "1"), ("in", "2")) == ["1", "2"]


@pytest.mark.parametrize(
    "windows",
    [
        TimeWindows.of_size_with_no_grace(10),
        TimeWindows.of_size_with_no_grace(HOUR_MS),
        SlidingWindows.of_time_difference_with_no_grace(10),
    ],
)
@pytest.mark.parametrize("cache_bytes", [0, 1_000_000])
def test_a_window_that_ends_with_all_time_closes_then(windows: Any, cache_bytes: int) -> None:
    config = {"statestore.cache.max.bytes": cache_bytes}
    found = results(lambda builder: closing(builder, windows), ("in", "1"), config=config)
    assert found == ["1"]


@pytest.mark.parametrize("idle_timeout_ms", [None, 1000])
def test_what_would_leave_later_than_any_record_stays_in_a_suppression(
    idle_timeout_ms: int | None,
) -> None:
    def wait(builder: StreamsBuilder) -> Any:
        return limited(builder, 10)

    assert results(wait, ("in", "1"), idle_timeout_ms=idle_timeout_ms) == []


@pytest.mark.parametrize(("grace_period_ms", "found"), [(0, ["1+A", "2+A"]), (10, [])])
def test_a_join_with_grace_lets_go_what_is_due(grace_period_ms: int, found: list[str]) -> None:
    records = (("table", "A"), ("in", "1"), ("in", "2"))

    assert results(lambda builder: joined(builder, grace_period_ms), *records) == found
    assert (
        results(lambda builder: joined(builder, grace_period_ms), *records, idle_timeout_ms=1000)
        == found
    )


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("timestamp", [LAST_MS - 1, LAST_MS])
def test_streams_are_joined_whose_window_ends_after_all_time(kind: Kind, timestamp: int) -> None:
    with JoinedStreams(kind, JoinWindows.of_time_difference_with_no_grace(10)) as streams:
        streams.left("k", "A", 1)
        streams.left("k", "B", timestamp)
        assert streams.right("k", "b", timestamp)[-1:] == [("k", "B+b", timestamp)]
        assert streams.left("k", "C", timestamp) == [("k", "C+b", timestamp)]


def test_sliding_windows_take_each_record() -> None:
    def count(builder: StreamsBuilder) -> Any:
        grouped: Any = builder.stream("in", **TEXT).group_by_key()
        windows = SlidingWindows.of_time_difference_and_grace(10, 5)
        return grouped.windowed_by(windows).count().to_stream()

    assert results(count, ("in", "1"), ("in", "2"), ("in", "3")) == ["1", "2", "3"]
