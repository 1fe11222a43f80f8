"""Ready aggregations with windows: the same objects, a result for each window."""

from __future__ import annotations

from typing import Any

import pytest

from pystreams import (
    EmitStrategy,
    KTable,
    SessionWindows,
    SlidingWindows,
    StreamsBuilder,
    TimeWindows,
    ValueAndTimestamp,
    aggregations,
)
from pystreams.serdes import JSON, STRING
from pystreams.testing import TopologyTestDriver

TUMBLING = TimeWindows.of_size_with_no_grace(10)


def to_out(table: KTable[Any, Any]) -> None:
    rows = table.to_stream(lambda windowed, _: f"{windowed.key}@{windowed.window.start}")
    rows.to("out", key_serde=STRING, value_serde=JSON)


def run(builder: StreamsBuilder, *values: tuple[Any, int]) -> tuple[list[Any], Any]:
    """Pipe (value, timestamp); return rows of the output, and of the store "kept"."""
    with TopologyTestDriver(builder.build(), {"application.id": "app"}) as driver:
        source = driver.create_input_topic("in", STRING, JSON)
        for value, timestamp in values:
            source.pipe_input("k", value, timestamp)
        rows = driver.create_output_topic("out", STRING, JSON).read_key_values()
        store = driver.get_window_store("kept")
        kept = {windowed.window.start: value for windowed, value in store.all()}
        [stamped] = driver.get_timestamped_window_store("kept").fetch("k", 0, 0)
        assert stamped[1] == ValueAndTimestamp(kept[0], stamped[1].timestamp)
        return rows, kept


@pytest.fixture
def windows(builder: StreamsBuilder) -> Any:
    stream = builder.stream("in", key_serde=STRING, value_serde=JSON)
    return stream.group_by_key().windowed_by(TUMBLING)


def test_each_window_has_its_result(builder: StreamsBuilder, windows: Any) -> None:
    to_out(windows.aggregate(aggregations.mean(), name="kept", retention_ms=100))

    rows, kept = run(builder, (1, 0), (2, 9), (7, 10))

    assert rows == [("k@0", 1.0), ("k@0", 1.5), ("k@10", 7.0)]
    assert kept == {0: 1.5, 10: 7.0}


def test_first_and_last_of_a_window_go_by_event_time(builder: StreamsBuilder, windows: Any) -> None:
    both = aggregations.several(first=aggregations.first(), last=aggregations.last())
    to_out(windows.aggregate(both, name="kept", retention_ms=100))

    rows, _ = run(builder, ("b", 5), ("a", 3), ("c", 8), ("b2", 5))

    assert rows[-1] == ("k@0", {"first": "a", "last": "c"})


def test_final_results_are_results(builder: StreamsBuilder, windows: Any) -> None:
    finals = windows.emit_strategy(EmitStrategy.on_window_close())
    to_out(finals.aggregate(aggregations.top_n(2), name="kept", retention_ms=100))

    rows, _ = run(builder, (1, 0), (3, 4), (2, 9), (7, 12))

    assert rows == [("k@0", [3, 2])]


def test_a_record_without_a_value_changes_nothing(builder: StreamsBuilder, windows: Any) -> None:
    to_out(
        windows.aggregate(
            aggregations.sum(lambda order: order["price"]), name="kept", retention_ms=100
        )
    )

    _, kept = run(builder, ({"price": 1}, 0), (None, 1))

    assert kept == {0: 1}


@pytest.mark.parametrize(
    "cut",
    [
        TUMBLING,
        SlidingWindows.of_time_difference_with_no_grace(10),
        SessionWindows.of_inactivity_gap_with_no_grace(10),
    ],
)
def test_late_records_go_to_their_topic_as_they_came(builder: StreamsBuilder, cut: Any) -> None:
    grouped = builder.stream("in", key_serde=STRING, value_serde=JSON).group_by_key()
    sums = grouped.windowed_by(cut, late="late").aggregate(aggregations.sum())
    sums.to_stream(lambda windowed, _: windowed.key).to("out", key_serde=STRING, value_serde=JSON)
    with TopologyTestDriver(builder.build()) as driver:
        source = driver.create_input_topic("in", STRING, JSON)
        for timestamp in (1, 100, 2):
            source.pipe_input("k", timestamp, timestamp)
        late = driver.create_output_topic("late", STRING, JSON)
        assert late.read_key_values() == [("k", 2)]
        out = driver.create_output_topic("out", STRING, JSON)
        assert out.read_key_values() == [("k", 1), ("k", 100)]
