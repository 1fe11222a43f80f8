"""`map_values_batch`: one call for many records, with the results of one call each."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pystreams import ProcessingError, StreamsBuilder, TopologyError, serdes
from tests.runtime.running_task import RunningTask
from tests.topology.conftest import Drive

STRINGS: dict[str, Any] = {"key_serde": serdes.STRING, "value_serde": serdes.STRING}


def upper(values: list[str]) -> list[str]:
    return [value.upper() for value in values]


def written(running: RunningTask, topic: str = "out") -> list[tuple[Any, ...]]:
    outputs = [output for output in running.task.outputs() if output.topic == topic]
    return [record[:3] for output in outputs for record in output.records]


def batching(mapper: Any, **options: Any) -> RunningTask:
    builder = StreamsBuilder()
    builder.stream("in", **STRINGS).map_values_batch(mapper, **options).to("out", **STRINGS)
    return RunningTask(builder.build())


def test_the_records_of_a_run_are_one_call_and_go_on_as_they_came() -> None:
    calls: list[list[str]] = []

    def noting(values: list[str]) -> list[str]:
        calls.append(values)
        return upper(values)

    running = batching(noting)
    running.run(("a", "x", 5), ("b", "y", 3), ("a", "z", 4))

    assert calls == [["x", "y", "z"]]
    assert written(running) == [(b"a", b"X", 5), (b"b", b"Y", 3), (b"a", b"Z", 4)]


def test_a_call_gets_no_more_than_it_may() -> None:
    sizes: list[int] = []

    def noting(values: list[str]) -> list[str]:
        sizes.append(len(values))
        return values

    batching(noting, max_batch=2).run(*(("k", "x", 1) for _ in range(5)))

    assert sizes == [2, 2, 1]


@settings(deadline=None)
@given(
    keys=st.lists(st.sampled_from("abc"), max_size=20),
    bad=st.sets(st.integers(0, 19)),
    max_batch=st.integers(1, 6),
    runs=st.lists(st.integers(1, 5), min_size=20, max_size=20),
    second_batch=st.none() | st.integers(1, 6),
)
def test_each_record_comes_out_once_in_the_order_of_all_however_runs_and_batches_split(
    keys: list[str], bad: set[int], max_batch: int, runs: list[int], second_batch: int | None
) -> None:
    """Of calls that fail too, and through a second batch."""
    sizes: list[int] = []

    def strict(values: list[str]) -> list[str]:
        sizes.append(len(values))
        if any(int(value) in bad for value in values):
            raise ValueError(values)
        return values

    builder = StreamsBuilder()
    mapped = builder.stream("in", **STRINGS).map_values_batch(strict, max_batch=max_batch)
    if second_batch is not None:
        mapped = mapped.map_values_batch(upper, max_batch=second_batch)
    mapped.to("out", **STRINGS)
    running = RunningTask(builder.build())
    running.read(*((key, str(number), number) for number, key in enumerate(keys)))

    for limit in runs:
        run = running.task.next_run(limit)
        if run is not None:
            running.task.process(run)
    running.task.settle()

    assert max(sizes, default=0) <= max_batch
    assert written(running) == [
        (key.encode(), b"%d" % number, number)
        for number, key in enumerate(keys)
        if number not in bad
    ]


def test_with_key_the_function_is_given_keys_and_values() -> None:
    running = batching(
        lambda keys, values: [key + value for key, value in zip(keys, values, strict=True)],
        with_key=True,
    )
    running.run(("a", "1", 1), ("b", "2", 1))

    assert [value for _, value, _ in written(running)] == [b"a1", b"b2"]


def test_of_a_batch_that_fails_only_the_records_at_fault_are_skipped() -> None:
    def strict(values: list[str]) -> list[str]:
        if "bad" in values:
            raise ValueError("bad")
        return upper(values)

    running = batching(strict)
    running.run(("a", "x", 1), ("b", "bad", 1), ("c", "y", 1))

    assert [value for _, value, _ in written(running)] == [b"X", b"Y"]
    assert running.task.counts.dropped == 1


def test_an_error_names_the_record_it_is_about(builder: StreamsBuilder, drive: Drive) -> None:
    builder.stream("in").map_values_batch(lambda values: [1 / len(values[0])]).to(
        "out", value_serde=serdes.DOUBLE
    )
    topic = drive().create_input_topic("in", serdes.STRING, serdes.STRING)
    topic.pipe_input("k", "a")
    with pytest.raises(ProcessingError, match=r"in-0 offset 1: division by zero"):
        topic.pipe_input("k", "")


def test_a_function_that_returns_too_few_values_is_told(
    builder: StreamsBuilder, drive: Drive
) -> None:
    builder.stream("in").map_values_batch(lambda _: []).to("out")
    topic = drive().create_input_topic("in", serdes.STRING, serdes.STRING)
    with pytest.raises(ProcessingError, match="returned 0 values for 1: return one for each"):
        topic.pipe_input("k", "a")


def test_batches_follow_each_other_and_feed_tables(builder: StreamsBuilder, drive: Drive) -> None:
    first = builder.stream("in").map_values_batch(upper)
    second = first.map_values_batch(lambda values: [value + "!" for value in values])
    grouped = second.group_by(lambda _, value: value, **STRINGS)
    grouped.count(name="counts").to_stream().to("out", value_serde=serdes.LONG)
    driver = drive()
    topic = driver.create_input_topic("in", serdes.STRING, serdes.STRING)
    for value in ("a", "b", "a"):
        topic.pipe_input("k", value)

    out = driver.create_output_topic("out", serdes.STRING, serdes.LONG)
    assert out.read_key_values() == [("A!", 1), ("B!", 1), ("A!", 2)]


def test_what_leaves_a_record_cache_goes_through_a_batch_before_the_commit(
    tmp_path: Path,
) -> None:
    builder = StreamsBuilder()
    table = builder.stream("in", **STRINGS).group_by_key().count(name="counts")
    table.to_stream().map_values_batch(lambda values: [-value for value in values]).to(
        "out", key_serde=serdes.STRING, value_serde=serdes.LONG
    )
    running = RunningTask(builder.build(), directory=tmp_path, cache_enabled=True)
    running.run(("a", "x", 1), ("a", "x", 2))
    assert written(running) == []

    running.task.settle()

    assert written(running) == [(b"a", serdes.LONG.serializer("out")(-2), 2)]


@pytest.mark.parametrize("max_batch", [0, -1, 1.5, True, None])
def test_a_batch_size_that_is_none_is_refused(builder: StreamsBuilder, max_batch: Any) -> None:
    with pytest.raises(TopologyError, match="max_batch is a whole number from 1"):
        builder.stream("in").map_values_batch(upper, max_batch=max_batch)
