"""Aggregations of time windows: results, timestamps, late records, stores."""

from __future__ import annotations

import random
from functools import partial
from typing import Any

import pytest
from structlog.testing import capture_logs

from pystreams import (
    EmitStrategy,
    StoreEngine,
    Stores,
    StreamsBuilder,
    TimeWindows,
    TopologyError,
    UnlimitedWindows,
    ValueAndTimestamp,
    Window,
    Windowed,
)
from pystreams.serdes import LONG, STRING
from pystreams.testing import TopologyTestDriver
from pystreams.topology.contracts.windowed_serdes import TimeWindowedSerde
from tests.topology.windows.windowing import CLOSE, UPDATE, Windows, joined

TUMBLING = TimeWindows.of_size_with_no_grace(500)
HOPPING = TimeWindows.of_size_and_grace(10, 100).advance_by(5)
CACHED = {"statestore.cache.max.bytes": 1 << 20}
THREE_WINDOWS = "11@10 12@15 13@500 2x@550 2y@550 2z@1000"


def count(windowed: Any, **options: Any) -> Any:
    return windowed.count(**options)


def reduce(windowed: Any, **options: Any) -> Any:
    return windowed.reduce(lambda so_far, value: f"{so_far}+{value}", **options)


# Kinds of windows


def test_each_record_counts_in_every_window_it_is_in_and_late_ones_in_those_still_open() -> None:
    with Windows(HOPPING) as windows:
        assert windows.pipe("A1@0 B2@1 A1@4") == [
            ("A@0/10", "0+1", 0),
            ("B@0/10", "0+2", 1),
            ("A@0/10", "0+1+1", 4),
        ]
        assert windows.pipe("A1@5 C3@14") == [
            ("A@0/10", "0+1+1+1", 5),
            ("A@5/15", "0+1", 5),
            ("C@5/15", "0+3", 14),
            ("C@10/20", "0+3", 14),
        ]
        assert windows.pipe("B1@3 B3@9") == [
            ("B@0/10", "0+2+1", 3),
            ("B@0/10", "0+2+1+3", 9),
            ("B@5/15", "0+3", 9),
        ]


@pytest.mark.parametrize(
    ("aggregation", "values"),
    [
        (count, ["1", "2", "1", "1", "2", "1"]),
        (reduce, ["1", "1+2", "3", "x", "x+y", "z"]),
        (joined, ["0+1", "0+1+2", "0+3", "0+x", "0+x+y", "0+z"]),
    ],
)
def test_tumbling_windows_stand_side_by_side(aggregation: Any, values: list[str]) -> None:
    with Windows(TUMBLING, aggregation) as windows:
        sent = windows.pipe(THREE_WINDOWS)
    keys = ["1@0/500", "1@0/500", "1@500/1000", "2@500/1000", "2@500/1000", "2@1000/1500"]
    times = [10, 15, 500, 550, 550, 1000]
    assert sent == list(zip(keys, values, times, strict=True))


def test_the_unlimited_window_takes_all_that_comes_after_its_start() -> None:
    with Windows(UnlimitedWindows.of().start_on(10), count) as windows:
        assert windows.pipe("a1@9") == []
        end = (1 << 63) - 1
        assert windows.pipe("a1@10 a1@1000000 a1@20") == [
            (f"a@10/{end}", "1", 10),
            (f"a@10/{end}", "2", 1_000_000),
            (f"a@10/{end}", "3", 1_000_000),
        ]


@pytest.mark.parametrize(("size", "advance"), [(7, 7), (7, 3), (12, 5), (9, 8), (6, 1), (8, 4)])
def test_records_of_whatever_times_count_in_their_windows(size: int, advance: int) -> None:
    chance = random.Random(size * advance)
    times = [chance.randint(0, 60) for _ in range(300)]
    hopping = TimeWindows.of_size_and_grace(size, 100).advance_by(advance)
    with Windows(hopping, count) as windows:
        sent = windows.pipe(" ".join(f"a1@{time}" for time in times))
    starts = [
        start for time in times for start in range(0, time + 1, advance) if start + size > time
    ]
    expected = {f"a@{start}/{start + size}": str(starts.count(start)) for start in starts}
    assert {key: value for key, value, _ in sent} == expected


# What is counted and what is dropped


def test_a_record_without_a_key_is_dropped_and_told() -> None:
    with capture_logs() as logs, Windows(TUMBLING) as windows:
        assert windows.pipe("-1@5") == []
        assert windows.dropped == 1
    (told,) = [log for log in logs if log["event"] == "records dropped by an operation"]
    assert told["reason"] == "null key"
    assert (told["topic"], told["partition"], told["offset"]) == ("in", 0, 0)


def test_a_record_without_a_value_counts_as_in_kafka_streams() -> None:
    with Windows(TUMBLING, count) as windows:
        assert windows.pipe("a@1 a1@2") == [("a@0/500", "1", 1), ("a@0/500", "2", 2)]


def test_records_of_closed_windows_are_dropped_and_told_as_kafka_streams_tells_them() -> None:
    """Of its own case: windows of 10 that hop by 5, none of grace."""
    hopping = TimeWindows.of_size_with_no_grace(10).advance_by(5)
    with capture_logs() as logs, Windows(hopping) as windows:
        assert len(windows.pipe("k100@100")) == 2
        assert windows.pipe("k0@0 k1@1 k2@2 k3@3 k4@4 k5@5 k6@6") == []
        assert windows.dropped == 5 + 2 * 2
    told = next(log for log in logs if log.get("reason") == "expired window")
    expected = {
        "topic": "in",
        "partition": 0,
        "offset": 1,
        "timestamp": 0,
        "window": "[0,10)",
        "expiration": 100,
        "stream_time": 100,
    }
    assert expected.items() <= told.items()


def test_the_grace_period_lets_late_records_in() -> None:
    """Kafka Streams' case: 90 of grace, stream time 200."""
    hopping = TimeWindows.of_size_and_grace(10, 90).advance_by(10)
    with Windows(hopping) as windows:
        windows.pipe("k100@200")
        assert windows.pipe("k0@100 k1@101 k5@105 k6@106 k2@109") == []
        assert windows.dropped == 5
        assert windows.pipe("k0@110") == [("k@110/120", "0+0", 110)]


def test_a_result_that_is_none_deletes_the_row() -> None:
    def aggregation(windowed: Any) -> Any:
        return windowed.aggregate(
            lambda: "",
            lambda _, value, so_far: None if value == "x" else so_far + value,
            value_serde=STRING,
            name="kept",
        )

    with Windows(TUMBLING, aggregation) as windows:
        assert windows.pipe("a1@1 ax@2 a2@3") == [
            ("a@0/500", "1", 1),
            ("a@0/500", None, 2),
            ("a@0/500", "2", 3),
        ]


def test_an_error_of_the_aggregator_drops_the_record_if_the_handler_says_so() -> None:
    def aggregation(windowed: Any) -> Any:
        return windowed.reduce(lambda so_far, value: str(int(so_far) + int(value)))

    config = {"processing.exception.handler": "continue"}
    with Windows(TUMBLING, aggregation, config=config) as windows:
        assert windows.pipe("a1@1 ax@2 a2@3")[-1] == ("a@0/500", "3", 3)
        assert windows.dropped == 1


# Late records on request


def test_a_function_is_told_of_each_late_record_and_window() -> None:
    told: list[Any] = []
    hopping = TimeWindows.of_size_with_no_grace(10).advance_by(5)
    with Windows(hopping, late=lambda *record: told.append(record)) as windows:
        windows.pipe("a1@17 b2@7 c3@12")
    assert told == [
        ("b", "2", 7, Window(0, 10)),
        ("b", "2", 7, Window(5, 15)),
        ("c", "3", 12, Window(5, 15)),
    ]


@pytest.mark.parametrize("emit", [UPDATE, CLOSE])
def test_a_topic_gets_each_late_record_once_as_it_came(emit: EmitStrategy) -> None:
    hopping = TimeWindows.of_size_with_no_grace(10).advance_by(5)
    with Windows(hopping, late="too-late", emit=emit) as windows:
        late = windows.driver.create_output_topic("too-late", STRING, STRING)
        windows.pipe("a1@17")
        windows.pipe_with_headers("b", "2", 7, (("trace", b"x"),))
        (record,) = late.read_records()
    assert (record.key, record.value, record.timestamp) == ("b", "2", 7)
    assert record.headers == (("trace", b"x"),)


def test_an_error_of_the_function_for_late_records_is_one_of_the_node() -> None:
    def fail(*_: Any) -> None:
        raise RuntimeError("no")

    config = {"processing.exception.handler": "continue"}
    with Windows(TUMBLING, late=fail, config=config) as windows:
        windows.pipe("a1@1000 b1@1")
        assert windows.dropped == 2
    with pytest.raises(TopologyError, match="late"):
        Windows(TUMBLING, late=lambda key: key)


# Stores


@pytest.mark.parametrize("engine", list(StoreEngine))
@pytest.mark.parametrize("emit", [UPDATE, CLOSE])
def test_the_store_answers_by_key_and_by_time(emit: EmitStrategy, engine: StoreEngine) -> None:
    def kept(windowed: Any) -> Any:
        return windowed.count(name="counts", store_type=engine, retention_ms=10_000)

    with Windows(TUMBLING, kept, emit=emit) as windows:
        windows.pipe(THREE_WINDOWS)
        store = windows.driver.get_window_store("counts")
        assert list(store.fetch("1", 0, 1000)) == [(0, 2), (500, 1)]
        assert store.fetch("2", 500) == 2
        assert list(store.fetch_range("1", "2", 0, 1000)) == [
            (Windowed("1", Window(0, 500)), 2),
            (Windowed("1", Window(500, 1000)), 1),
            (Windowed("2", Window(500, 1000)), 2),
            (Windowed("2", Window(1000, 1500)), 1),
        ]
        timestamped = windows.driver.get_timestamped_window_store("counts")
        assert timestamped.fetch("1", 0) == ValueAndTimestamp(2, 15)


def test_windows_older_than_the_retention_are_not_found() -> None:
    """What just closed still is, where final results are sent: Kafka Streams keeps it so."""
    for emit, oldest in ((UPDATE, 1000), (CLOSE, 500)):
        with Windows(TUMBLING, lambda windowed: windowed.count(name="c"), emit=emit) as windows:
            windows.pipe(THREE_WINDOWS)
            store = windows.driver.get_window_store("c")
            assert min(key.window.start for key, _ in store.all()) == oldest


def test_a_caching_store_sends_the_last_change_of_a_window_at_the_flush() -> None:
    builder = StreamsBuilder()
    grouped = builder.stream("in", key_serde=STRING, value_serde=STRING).group_by_key()
    table = grouped.windowed_by(TUMBLING).count()
    out_serde = TimeWindowedSerde(STRING, 500)
    table.to_stream().to("out", value_serde=LONG)
    with TopologyTestDriver(builder.build(), {"application.id": "app", **CACHED}) as driver:
        out = driver.create_output_topic("out", out_serde, LONG)
        driver.create_input_topic("in", STRING, STRING).pipe_input("a", "1", 7)
        (record,) = out.read_records()
    assert (record.key, record.value, record.timestamp) == (Windowed("a", Window(0, 500)), 1, 7)


def test_suppliers_say_where_windows_are_kept_and_those_that_do_not_fit_are_refused() -> None:
    fitting = Stores.in_memory_window_store("mine", 1000, 500)
    with Windows(TUMBLING, lambda windowed: windowed.count(supplier=fitting)) as windows:
        windows.pipe("a1@1")
        assert windows.driver.get_window_store("mine").fetch("a", 0) == 1

    for misfit in (
        Stores.persistent_key_value_store("mine"),
        Stores.persistent_session_store("mine", 1000),
    ):
        with pytest.raises(TopologyError, match="mine"):
            Windows(TUMBLING, partial(count, supplier=misfit))
    too_short = Stores.persistent_timestamped_window_store("mine", 500, 500)
    graceful = TimeWindows.of_size_and_grace(500, 1)
    with pytest.raises(TopologyError, match="501"):
        Windows(graceful, lambda windowed: windowed.count(supplier=too_short))
    with pytest.raises(TopologyError, match="retention_ms"):
        Windows(graceful, lambda windowed: windowed.count(retention_ms=500))


# What comes after


def test_windowed_tables_are_filtered_mapped_and_joined_with_each_other() -> None:
    builder = StreamsBuilder()
    grouped = builder.stream("in", key_serde=STRING, value_serde=STRING).group_by_key()
    counts = grouped.windowed_by(TUMBLING).count().filter(lambda _, number: number > 1)
    texts = grouped.windowed_by(TUMBLING).reduce(lambda so_far, value: so_far + value)
    kept = counts.map_values(lambda number: number * 10, name="kept", value_serde=LONG)
    both = counts.join(texts.map_values(str.upper), lambda number, text: f"{number}{text}")
    both.to_stream().to("out", value_serde=STRING)
    assert kept.queryable_store_name == "kept"
    with TopologyTestDriver(builder.build(), {"application.id": "app"}) as driver:
        out = driver.create_output_topic("out", TimeWindowedSerde(STRING, 500), STRING)
        into = driver.create_input_topic("in", STRING, STRING)
        into.pipe_input("a", "x", 1)
        into.pipe_input("a", "y", 2)
        assert out.read_key_values()[-1] == (Windowed("a", Window(0, 500)), "2XY")
        store = driver.get_key_value_store("kept")
        assert store.get(Windowed("a", Window(0, 500))) == 20


def test_regrouped_windows_take_back_what_changed() -> None:
    builder = StreamsBuilder()
    grouped = builder.stream("in", key_serde=STRING, value_serde=STRING).group_by_key()
    counts = grouped.windowed_by(TUMBLING).count()
    regrouped = counts.group_by(
        lambda windowed, number: (windowed.window.start, number), key_serde=LONG, value_serde=LONG
    )
    total = regrouped.reduce(
        lambda so_far, number: so_far + number, lambda so_far, old: so_far - old
    )
    total.to_stream().to("out")
    with TopologyTestDriver(builder.build(), {"application.id": "app"}) as driver:
        into = driver.create_input_topic("in", STRING, STRING)
        out = driver.create_output_topic("out", LONG, LONG)
        for key, time in (("a", 1), ("b", 2), ("a", 3), ("a", 501)):
            into.pipe_input(key, "x", time)
        assert out.read_key_values_to_map() == {0: 3, 500: 1}
