"""Aggregations of grouped streams: values, timestamps, dropped records, stores."""

# ruff: noqa: ARG005 - a lambda takes what the DSL gives it.

from __future__ import annotations

from typing import Any

import pytest

from pystreams import (
    KGroupedStream,
    KTable,
    ProcessingError,
    Record,
    SessionWindows,
    SlidingWindows,
    StoreEngine,
    StreamsBuilder,
    TimeWindows,
)
from pystreams.serdes import JSON, LONG, STRING
from pystreams.testing import TopologyTestDriver


@pytest.fixture
def words(builder: StreamsBuilder) -> KGroupedStream[str, str]:
    return builder.stream("words", key_serde=STRING, value_serde=STRING).group_by_key()


def run(drive: Any, *records: tuple[str | None, str | None, int], **config: Any) -> list[Any]:
    """Pipe records into "words"; return (key, value, timestamp) of what came out at "out"."""
    driver = drive(**config)
    source = driver.create_input_topic("words", STRING, STRING)
    for key, value, timestamp in records:
        source.pipe_input(key, value, timestamp)
    records_out: list[Record[Any, Any]] = driver.create_output_topic(
        "out", STRING, JSON
    ).read_records()
    return [(record.key, record.value, record.timestamp) for record in records_out]


def to_out(table: KTable[str, Any]) -> None:
    table.to_stream().to("out", value_serde=JSON)


def test_count_counts_each_key(words: KGroupedStream[str, str], drive: Any) -> None:
    to_out(words.count())

    out = run(drive, ("a", "x", 1), ("b", "y", 2), ("a", "z", 3))

    assert out == [("a", 1, 1), ("b", 1, 2), ("a", 2, 3)]


def test_result_carries_the_highest_timestamp_of_its_records(
    words: KGroupedStream[str, str], drive: Any
) -> None:
    to_out(words.count())

    assert run(drive, ("a", "x", 9), ("a", "y", 4)) == [("a", 1, 9), ("a", 2, 9)]


def test_records_without_key_or_value_are_dropped(
    words: KGroupedStream[str, str], drive: Any
) -> None:
    to_out(words.count())

    assert run(drive, (None, "x", 1), ("a", None, 2), ("a", "y", 3)) == [("a", 1, 3)]


def test_reduce_begins_with_the_first_value(words: KGroupedStream[str, str], drive: Any) -> None:
    to_out(words.reduce(lambda so_far, value: so_far + value))

    assert run(drive, ("a", "x", 1), ("a", "y", 2)) == [("a", "x", 1), ("a", "xy", 2)]


def test_reduce_to_none_deletes_the_key(words: KGroupedStream[str, str], drive: Any) -> None:
    to_out(words.reduce(lambda so_far, value: None))

    out = run(drive, ("a", "x", 1), ("a", "y", 2), ("a", "z", 3))

    assert out == [("a", "x", 1), ("a", None, 2), ("a", "z", 3)]


def test_aggregate_folds_into_another_type(words: KGroupedStream[str, str], drive: Any) -> None:
    def add(key: str, value: str, so_far: list[str]) -> list[str]:
        return [*so_far, key + value]

    to_out(words.aggregate(list, add, value_serde=JSON))

    assert run(drive, ("a", "x", 1), ("a", "y", 2)) == [("a", ["ax"], 1), ("a", ["ax", "ay"], 2)]


def test_aggregate_may_change_what_it_was_given_in_place(
    words: KGroupedStream[str, str], drive: Any
) -> None:
    def add(key: str, value: str, so_far: list[str]) -> list[str]:
        so_far.append(value)
        return so_far

    to_out(words.aggregate(list, add, value_serde=JSON))

    assert run(drive, ("a", "x", 1), ("a", "y", 2))[-1] == ("a", ["x", "y"], 2)


def test_failed_aggregation_leaves_the_value_as_it_was(
    words: KGroupedStream[str, str], drive: Any
) -> None:
    to_out(words.aggregate(int, lambda key, value, total: total + int(value), value_serde=LONG))

    out = run(
        drive, ("a", "1", 1), ("a", "no", 2), ("a", "2", 3), processing_exception_handler="continue"
    )

    assert out == [("a", 1, 1), ("a", 3, 3)]


def test_failed_aggregation_names_its_node(words: KGroupedStream[str, str], drive: Any) -> None:
    to_out(words.reduce(lambda so_far, value: str(1 // 0), node_name="divide"))

    with pytest.raises(ProcessingError, match="divide"):
        run(drive, ("a", "x", 1), ("a", "y", 2))


def test_named_aggregation_can_be_queried_by_its_name(
    words: KGroupedStream[str, str], drive: Any
) -> None:
    counts = words.count(name="counts")
    driver = drive()

    driver.create_input_topic("words", STRING, STRING).pipe_input("a", "x", 5)

    assert counts.queryable_store_name == "counts"
    assert driver.get_state_store("counts").get("a") == (1, 5)


def test_aggregation_without_a_name_has_no_queryable_store(
    words: KGroupedStream[str, str],
) -> None:
    assert words.count().queryable_store_name is None


def test_changelog_is_named_after_the_store(words: KGroupedStream[str, str], drive: Any) -> None:
    words.count(name="counts")
    driver = drive()

    driver.create_input_topic("words", STRING, STRING).pipe_input("a", "x", 5)

    assert driver.produced_raw("app-counts-changelog") == [(b"a", LONG.serializer("")(1), 5, ())]


def test_store_options_reach_the_store(words: KGroupedStream[str, str]) -> None:
    builder = StreamsBuilder()
    builder.stream("words").group_by_key().count(
        name="counts",
        caching=False,
        log_config={"segment.bytes": "1048576"},
        store_type=StoreEngine.IN_MEMORY,
    )

    store: Any = builder.build().stores["counts"]

    assert not store.spec.caching
    assert store.spec.engine is StoreEngine.IN_MEMORY
    assert store.changelog_config == {"segment.bytes": "1048576"}


def test_store_without_logging_has_no_changelog(drive: Any, builder: StreamsBuilder) -> None:
    builder.stream("words").group_by_key().count(name="counts", logging=False)
    driver = drive()

    driver.create_input_topic("words", STRING, STRING).pipe_input("a", "x", 5)

    assert driver.produced_topic_names() == set()


@pytest.mark.parametrize("caching", [True, False])
def test_update_carries_the_headers_of_its_record(
    words: KGroupedStream[str, str], drive: Any, caching: bool
) -> None:
    to_out(words.count(caching=caching))
    driver = drive()

    driver.pipe_raw("words", b"a", b"x", 42, (("trace", b"1"),))

    assert driver.produced_raw("out") == [(b"a", b"1", 42, (("trace", b"1"),))]


@pytest.mark.parametrize(
    "windows",
    [
        None,
        TimeWindows.of_size_with_no_grace(1000),
        SlidingWindows.of_time_difference_with_no_grace(1000),
    ],
)
def test_an_aggregator_may_change_what_it_is_given_in_place(windows: Any) -> None:
    builder = StreamsBuilder()
    grouped: Any = builder.stream("in", key_serde=STRING, value_serde=STRING).group_by_key()
    if windows is not None:
        grouped = grouped.windowed_by(windows)

    def append(_key: str, value: str, so_far: list[str]) -> list[str]:
        so_far.append(value)
        return so_far

    values = grouped.aggregate(list, append, value_serde=JSON, caching=False)
    lengths = values.group_by(
        lambda _, so_far: ("all", len(so_far)), key_serde=STRING, value_serde=LONG
    )
    total = lengths.reduce(
        lambda so_far, length: so_far + length, lambda so_far, length: so_far - length
    )
    total.to_stream().to("out")
    with TopologyTestDriver(builder.build()) as driver:
        records = driver.create_input_topic("in", STRING, STRING)
        for value in "abcd":
            records.pipe_input("key", value, timestamp=1)
        out = driver.create_output_topic("out", STRING, LONG).read_key_values()
    assert out[-1] == ("all", 4)


@pytest.mark.parametrize(
    "windows",
    [
        None,
        TimeWindows.of_size_with_no_grace(1000),
        SlidingWindows.of_time_difference_with_no_grace(1000),
        SessionWindows.of_inactivity_gap_with_no_grace(1000),
    ],
)
def test_a_reducer_may_change_what_it_is_given_in_place(windows: Any) -> None:
    builder = StreamsBuilder()
    grouped: Any = builder.stream("in", key_serde=STRING, value_serde=JSON).group_by_key()
    if windows is not None:
        grouped = grouped.windowed_by(windows)

    def extend(so_far: list[str], value: list[str]) -> list[str]:
        so_far += value
        return so_far

    lengths = grouped.reduce(extend, caching=False).group_by(
        lambda _, so_far: ("all", len(so_far)), key_serde=STRING, value_serde=LONG
    )
    total = lengths.reduce(
        lambda so_far, length: so_far + length, lambda so_far, length: so_far - length
    )
    total.to_stream().to("out")
    with TopologyTestDriver(builder.build()) as driver:
        records = driver.create_input_topic("in", STRING, JSON)
        for value in "abcd":
            records.pipe_input("key", [value], timestamp=1)
        out = driver.create_output_topic("out", STRING, LONG).read_key_values()
    assert out[-1] == ("all", 4)
