"""Sliding windows beside a plain model: any order of records within the grace period.

The model keeps all records of a key and says which windows there must be: one that ends with each
record, and one that begins after each, if a record is in it.
"""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from pystreams import (
    EmitStrategy,
    SlidingWindows,
    StreamsBuilder,
    Windowed,
    time_windowed_serde,
)
from pystreams.serdes import JSON, LONG, STRING
from pystreams.testing import TopologyTestDriver

FOREVER_MS = 10**6

Results = dict[tuple[str, int], tuple[list[int], int]]
"""What each window holds, by key and start: numbers of its records as they came, and its time."""

records = st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 60)), max_size=20)


def model(difference_ms: int, came: list[tuple[str, int]]) -> Results:
    """Return the windows of all records."""
    starts = {(key, max(0, time - difference_ms)) for key, time in came}
    starts |= {(key, time + 1) for key, time in came}
    results: Results = {}
    for key, start in starts:
        inside = [
            number
            for number, (other, time) in enumerate(came)
            if other == key and start <= time <= start + difference_ms
        ]
        if inside:
            results[key, start] = (inside, max(came[number][1] for number in inside))
    return results


def windows_of(difference_ms: int, came: list[tuple[str, int]]) -> tuple[Results, Results]:
    """Return what was sent on last of each window, and what the store has."""

    def add(_key: str, number: int, so_far: list[int]) -> list[int]:
        so_far.append(number)
        return so_far

    builder = StreamsBuilder()
    sent: Results = {}

    def note(key: Windowed[str], value: list[int]) -> None:
        sent[key.key, key.window.start] = (list(value), max(came[number][1] for number in value))
        assert key.window.end == key.window.start + difference_ms

    windows = SlidingWindows.of_time_difference_and_grace(difference_ms, FOREVER_MS)
    grouped = builder.stream("in", key_serde=STRING, value_serde=JSON).group_by_key()
    table = grouped.windowed_by(windows).aggregate(list, add, name="kept", value_serde=JSON)
    table.to_stream().foreach(note)
    with TopologyTestDriver(builder.build()) as driver:
        source = driver.create_input_topic("in", STRING, JSON)
        for number, (key, time) in enumerate(came):
            source.pipe_input(key, number, time)
        kept: Results = {
            (key.key, key.window.start): (held.value, held.timestamp)
            for key, held in driver.get_timestamped_window_store("kept").all()
        }
    return sent, kept


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 25), records)
def test_every_window_of_the_model_is_there_with_the_models_records(
    difference_ms: int, came: list[tuple[str, int]]
) -> None:
    sent, kept = windows_of(difference_ms, came)

    assert kept == model(difference_ms, came)
    assert sent == kept


def sent_with(
    emit: EmitStrategy, windows: SlidingWindows, came: list[tuple[str, int]]
) -> list[tuple[tuple[str, int], int, int]]:
    """Return what was sent on: the window, its count and its time."""
    builder = StreamsBuilder()
    grouped = builder.stream("in", key_serde=STRING, value_serde=JSON).group_by_key()
    counts = grouped.windowed_by(windows).emit_strategy(emit).count(caching=False)
    counts.to_stream().to("out", value_serde=LONG)
    with TopologyTestDriver(builder.build()) as driver:
        source = driver.create_input_topic("in", STRING, JSON)
        for number, (key, time) in enumerate(came):
            source.pipe_input(key, number, time)
        serde = time_windowed_serde(STRING, windows.size_ms)
        records_out = driver.create_output_topic("out", serde, LONG).read_records()
    return [
        ((record.key.key, record.key.window.start), record.value, record.timestamp)
        for record in records_out
    ]


@settings(max_examples=75, deadline=None)
@given(st.integers(1, 25), st.integers(0, 20), records)
def test_final_results_are_the_last_updates_of_the_windows_that_are_closed(
    difference_ms: int, grace_ms: int, came: list[tuple[str, int]]
) -> None:
    windows = SlidingWindows.of_time_difference_and_grace(difference_ms, grace_ms)
    came = [*came, ("c", 100)]
    last = {
        window: (count, time)
        for window, count, time in sent_with(EmitStrategy.on_window_update(), windows, came)
    }

    final = sent_with(EmitStrategy.on_window_close(), windows, came)

    closed = {
        window: update
        for window, update in last.items()
        if window[1] + difference_ms < 100 - grace_ms
    }
    assert {window: (count, time) for window, count, time in final} == closed
    assert len(final) == len(closed)
