"""Types carry through the DSL. Checked by mypy, which reads this file; running it builds once."""

# ruff: noqa: ARG005 - a lambda takes what the DSL gives it.

from __future__ import annotations

from typing import Any, NamedTuple, assert_type

from pystreams import (
    BranchedKStream,
    Consumed,
    GlobalKTable,
    Grouped,
    Joined,
    JoinWindows,
    KGroupedStream,
    KGroupedTable,
    KStream,
    KTable,
    Materialized,
    Produced,
    Repartitioned,
    Serde,
    SessionWindows,
    StateQueryResult,
    StreamJoined,
    StreamsBuilder,
    TimeWindows,
    Windowed,
    aggregations,
    serde_of,
)
from pystreams.serdes import DOUBLE, JSON, LONG, STRING


def join_text(left: str, right: int) -> str:
    return f"{left}{right}"


def join_maybe(left: str, right: int | None) -> str:
    return f"{left}{right}"


def join_any(left: str | None, right: int | None) -> str:
    return f"{left}{right}"


def join_any_of_key(key: str, left: str | None, right: int | None) -> int:
    return len(f"{key}{left}{right}")


def length(value: str) -> int:
    return len(value)


def length_of_both(key: str, value: str) -> int:
    return len(key + value)


def test_types_carry_through(builder: StreamsBuilder) -> None:
    stream = builder.stream("in", key_serde=STRING, value_serde=STRING)
    assert_type(stream, KStream[str, str])
    assert_type(stream.filter(lambda key, value: key == value), KStream[str, str])
    assert_type(stream.map_values(length), KStream[str, int])
    assert_type(stream.map_values(length_of_both, with_key=True), KStream[str, int])
    assert_type(stream.map(lambda key, value: (len(key), 1.5)), KStream[int, float])
    assert_type(stream.flat_map(lambda key, value: [(1, key)]), KStream[int, str])
    assert_type(stream.flat_map_values(lambda value: [1, 2]), KStream[str, int])
    assert_type(stream.select_key(lambda key, value: len(key)), KStream[int, str])
    assert_type(stream.merge(stream), KStream[str, str])
    assert_type(stream.split(), BranchedKStream[str, str])

    grouped = stream.group_by_key()
    assert_type(grouped, KGroupedStream[str, str])
    assert_type(stream.group_by(lambda key, value: 1, key_serde=LONG), KGroupedStream[int, str])
    counts = grouped.count(name="counts")
    assert_type(counts, KTable[str, int])
    assert_type(grouped.reduce(lambda left, right: left + right), KTable[str, str])
    assert_type(
        grouped.aggregate(int, lambda key, value, total: total + len(value), value_serde=LONG),
        KTable[str, int],
    )

    assert_type(counts.to_stream(), KStream[str, int])
    assert_type(counts.to_stream(lambda key, value: value), KStream[int, int])
    assert_type(counts.filter(lambda key, value: value > 1), KTable[str, int])
    assert_type(counts.map_values(str, name="text"), KTable[str, str])
    by_count = counts.group_by(lambda key, value: (value, key), key_serde=LONG, value_serde=STRING)
    assert_type(by_count, KGroupedTable[int, str])
    assert_type(by_count.count(), KTable[int, int])

    assert_type(stream.join(counts, join_text), KStream[str, str])
    assert_type(stream.left_join(counts, join_maybe), KStream[str, str])
    windows = JoinWindows.of_time_difference_with_no_grace(1)
    numbers = counts.to_stream()
    assert_type(stream.join(numbers, join_text, windows), KStream[str, str])
    assert_type(stream.left_join(numbers, join_maybe, windows), KStream[str, str])
    assert_type(stream.outer_join(numbers, join_any, windows, name="any"), KStream[str, str])
    assert_type(
        stream.outer_join(numbers, join_any_of_key, windows, with_key=True), KStream[str, int]
    )
    builder.build()


class Order(NamedTuple):
    item: str
    price: float
    pieces: int


class Summary(NamedTuple):
    orders: int
    total: float


ORDER: Serde[Order] = serde_of(lambda order: order.item.encode(), lambda _: Order("", 0.0, 0))


def test_results_of_ready_aggregations_have_their_types(builder: StreamsBuilder) -> None:
    orders = builder.stream("in", key_serde=STRING, value_serde=ORDER).group_by_key()
    mean = orders.aggregate(aggregations.mean(lambda order: order.price), name="mean-price")
    assert_type(mean, KTable[str, float])
    assert_type(orders.aggregate(aggregations.count()), KTable[str, int])
    total = orders.aggregate(aggregations.sum(lambda order: order.price))
    assert_type(total, KTable[str, float])
    pieces = orders.aggregate(aggregations.sum(lambda order: order.pieces))
    assert_type(pieces, KTable[str, int])
    assert_type(orders.aggregate(aggregations.max(lambda order: order.item)), KTable[str, str])
    assert_type(orders.aggregate(aggregations.last(serde=ORDER)), KTable[str, Order])
    assert_type(orders.aggregate(aggregations.first(lambda order: order.item)), KTable[str, str])
    dearest = orders.aggregate(aggregations.top_n(3, by=lambda order: order.price, serde=ORDER))
    assert_type(dearest, KTable[str, list[Order]])
    items = orders.aggregate(aggregations.collect(3, lambda order: order.item))
    assert_type(items, KTable[str, list[str]])
    about = orders.aggregate(aggregations.approx_distinct_count(lambda order: order.item))
    assert_type(about, KTable[str, int])
    median = orders.aggregate(aggregations.percentile(0.5, lambda order: order.price))
    assert_type(median, KTable[str, float])
    summaries = orders.aggregate(
        aggregations.several(
            Summary,
            orders=aggregations.count(),
            total=aggregations.sum(lambda order: order.price),
        )
    )
    assert_type(summaries, KTable[str, Summary])
    windows = TimeWindows.of_size_with_no_grace(1)
    by_window = orders.windowed_by(windows).aggregate(
        aggregations.mean(lambda order: order.price), name="by-window"
    )
    assert_type(by_window, KTable[Windowed[str], float])
    sessions = orders.windowed_by(SessionWindows.of_inactivity_gap_with_no_grace(1))
    assert_type(sessions.aggregate(aggregations.count()), KTable[Windowed[str], int])
    assert_type(
        mean.group_by(lambda key, value: (1, value), key_serde=LONG, value_serde=DOUBLE).aggregate(
            aggregations.mean()
        ),
        KTable[int, float],
    )
    builder.build()


def test_types_carry_through_joins_with_global_tables(builder: StreamsBuilder) -> None:
    stream = builder.stream("in", key_serde=STRING, value_serde=STRING)
    table = builder.global_table("global", key_serde=LONG, value_serde=LONG)

    assert_type(table, GlobalKTable[int, int])
    assert_type(stream.join(table, length_of_both, join_text), KStream[str, str])
    assert_type(stream.left_join(table, length_of_both, join_maybe), KStream[str, str])
    assert_type(
        stream.left_join(table, length_of_both, join_any_of_key, with_key=True), KStream[str, int]
    )
    # A key of another type, and a joiner that does not take None, are found.
    stream.join(table, lambda key, value: key, join_text)  # type: ignore[arg-type,return-value]
    stream.left_join(table, length_of_both, join_text)  # type: ignore[arg-type]
    builder.build()


def test_serdes_that_are_not_given_leave_types_open(builder: StreamsBuilder) -> None:
    assert_type(builder.stream("a"), KStream[Any, Any])
    assert_type(builder.stream("b", key_serde=STRING), KStream[str, Any])
    assert_type(builder.stream("c", value_serde=JSON), KStream[Any, Any])
    assert_type(builder.table("d", value_serde=LONG), KTable[Any, int])
    assert_type(builder.stream("e", consumed=Consumed(key_serde=LONG)), KStream[int, Any])
    assert_type(
        builder.table("f", materialized=Materialized(key_serde=STRING, value_serde=LONG)),
        KTable[str, int],
    )
    builder.build()


def test_options_are_made_with_their_types_named() -> None:
    assert Materialized[str, int](name="counts") == Materialized(name="counts")
    assert Consumed[str, int](key_serde=STRING) == Consumed(key_serde=STRING)
    assert Produced[str, int](key_serde=STRING) == Produced(key_serde=STRING)
    assert Grouped[str, int](name="by") == Grouped(name="by")
    assert Repartitioned[str, int](name="by") == Repartitioned(name="by")
    assert Joined[str, int, str](name="with") == Joined(name="with")
    assert StreamJoined[str, int, str](name="with") == StreamJoined(name="with")
    assert StateQueryResult[int]({}) == StateQueryResult({})
