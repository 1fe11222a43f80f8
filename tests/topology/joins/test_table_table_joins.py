"""Joins of two tables by their keys.

`table_table_joins.json` has what Kafka Streams' own test of them expects: for each pair of joins
what each record of the input makes, as (value, timestamp).

Source: Kafka's `TableTableJoinIntegrationTest`.
"""

# ruff: noqa: ARG005 - a lambda takes what the DSL gives it.

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pystreams import KTable, Materialized, StreamsBuilder, TopologyError
from pystreams.serdes import LONG, STRING
from pystreams.testing import TopologyTestDriver

EXPECTED: dict[str, list[list[list[Any]]]] = json.loads(
    Path(__file__).with_name("table_table_joins.json").read_text()
)
LEFT, RIGHT = "left", "right"
IN_ORDER: list[tuple[str, str | None, int]] = [
    (LEFT, None, 1),
    (RIGHT, None, 2),
    (LEFT, "A", 3),
    (RIGHT, "a", 4),
    (LEFT, "B", 5),
    (RIGHT, "b", 6),
    (LEFT, None, 7),
    (RIGHT, None, 8),
    (LEFT, "C", 9),
    (RIGHT, "c", 10),
    (RIGHT, None, 11),
    (LEFT, None, 12),
    (RIGHT, None, 13),
]
WITH_LATE_RECORDS = [
    *IN_ORDER,
    (RIGHT, "d", 7),
    (LEFT, "D", 6),
    (LEFT, None, 2),
    (RIGHT, None, 3),
    (RIGHT, "e", 14),
    (LEFT, "E", 15),
    (LEFT, None, 10),
    (RIGHT, None, 9),
    (LEFT, "F", 4),
    (RIGHT, "f", 3),
]
TWICE = [*IN_ORDER, (RIGHT, "d", 14), (LEFT, "D", 15), (LEFT, "E", 16), (RIGHT, "e", 17)]
WITHOUT_KEY = (16, 17)
"""Times of the records of `TWICE` that have no key."""
SELF = (None, "1", "2", "no", "none")
"""Rows of a table that is joined with itself: one side leaves out "none", the other one both."""
METHODS = {"Inner": "join", "Left": "left_join", "Outer": "outer_join"}


def table_of(builder: StreamsBuilder, topic: str, *, versioned: bool) -> KTable[int, str]:
    """Read a table; a versioned one keeps five minutes."""
    materialized = Materialized[int, str](
        name=topic, logging=False, history_retention_ms=300_000 if versioned else None
    )
    return builder.table(topic, key_serde=LONG, value_serde=STRING, materialized=materialized)


def dashed(left: str | None, right: str | None) -> str:
    """Return both, as Java would write them."""
    return f"{left or 'null'}-{right or 'null'}"


def joined(name: str) -> StreamsBuilder:
    """Return the topology of one of Kafka's cases."""
    builder = StreamsBuilder()
    all_versioned = name.endswith("WithVersionedStores")
    left = table_of(
        builder, LEFT, versioned=all_versioned or name.endswith("WithLeftVersionedOnly")
    )
    right = table_of(
        builder, RIGHT, versioned=all_versioned or name.endswith("WithRightVersionedOnly")
    )
    *first, last = (METHODS[kind] for kind in kinds_in(name))
    result = left
    for method in first:
        result = getattr(result, method)(right, dashed)
    result = getattr(result, last)(right, dashed, name="joined", value_serde=STRING, caching=False)
    result.to_stream().to("out", key_serde=LONG, value_serde=STRING)
    return builder


def kinds_in(name: str) -> list[str]:
    """Return the joins of a case's name, in order."""
    name = name.partition("With")[0]
    found = []
    while name:
        kind = next(kind for kind in METHODS if name.startswith(kind))
        found.append(kind)
        name = name.removeprefix(kind)
    return found


@pytest.mark.parametrize("name", EXPECTED)
def test_each_record_makes_what_it_makes_in_kafka_streams(name: str) -> None:
    twice = len(kinds_in(name)) == 2
    with TopologyTestDriver(joined(name).build()) as driver:
        inputs = {topic: driver.create_input_topic(topic, LONG, STRING) for topic in (LEFT, RIGHT)}
        out = driver.create_output_topic("out", LONG, STRING)
        made = []
        for topic, value, timestamp in TWICE if twice else WITH_LATE_RECORDS:
            key = None if twice and timestamp in WITHOUT_KEY else 0
            inputs[topic].pipe_input(key, value, timestamp=timestamp)
            made.append([[record.value, record.timestamp] for record in out.read_records()])
    assert made == EXPECTED[name]


CHANGES = st.lists(
    st.tuples(
        st.sampled_from((LEFT, RIGHT)),
        st.integers(0, 2),
        st.one_of(st.none(), st.sampled_from("abc")),
    ),
    max_size=30,
)


@pytest.mark.parametrize("kept", [True, False], ids=["kept", "computed"])
@pytest.mark.parametrize("method", METHODS.values())
@settings(max_examples=50, deadline=None)
@given(changes=CHANGES)
def test_the_joined_table_is_that_of_both_tables_rows(
    method: str, kept: bool, changes: list[tuple[str, int, str | None]]
) -> None:
    builder = StreamsBuilder()
    left = table_of(builder, LEFT, versioned=False)
    right = table_of(builder, RIGHT, versioned=False)
    options: dict[str, Any] = {"name": "joined", "value_serde": STRING} if kept else {}
    result = getattr(left, method)(right, dashed, **options)
    result.to_stream().to("out", key_serde=LONG, value_serde=STRING)
    rows: dict[str, dict[int, str]] = {LEFT: {}, RIGHT: {}}
    seen: dict[int, str | None] = {}
    with TopologyTestDriver(builder.build()) as driver:
        inputs = {topic: driver.create_input_topic(topic, LONG, STRING) for topic in (LEFT, RIGHT)}
        out = driver.create_output_topic("out", LONG, STRING)
        for topic, key, value in changes:
            inputs[topic].pipe_input(key, value)
            if value is None:
                rows[topic].pop(key, None)
            else:
                rows[topic][key] = value
        seen.update(out.read_key_values())
    sides = {
        "join": rows[LEFT].keys() & rows[RIGHT].keys(),
        "left_join": rows[LEFT].keys(),
        "outer_join": rows[LEFT].keys() | rows[RIGHT].keys(),
    }
    expected = {key: dashed(rows[LEFT].get(key), rows[RIGHT].get(key)) for key in sides[method]}
    assert {key: value for key, value in seen.items() if value is not None} == expected


def test_groups_of_a_joined_table_give_back_what_a_row_was() -> None:
    builder = StreamsBuilder()
    left = table_of(builder, LEFT, versioned=False)
    right = table_of(builder, RIGHT, versioned=False)
    counts = (
        left.join(right, dashed)
        .group_by(lambda key, pair: (pair, pair), key_serde=STRING, value_serde=STRING)
        .count()
    )
    counts.to_stream().to("out")
    with TopologyTestDriver(builder.build()) as driver:
        inputs = {topic: driver.create_input_topic(topic, LONG, STRING) for topic in (LEFT, RIGHT)}
        out = driver.create_output_topic("out", STRING, LONG)
        inputs[LEFT].pipe_input(0, "A")
        inputs[RIGHT].pipe_input(0, "a")
        inputs[RIGHT].pipe_input(0, "b")
        inputs[LEFT].pipe_input(0, None)
        assert out.read_key_values() == [("A-a", 1), ("A-a", 0), ("A-b", 1), ("A-b", 0)]


@pytest.mark.parametrize("kept", [(LEFT,), (RIGHT,), (LEFT, RIGHT)], ids="+".join)
@pytest.mark.parametrize("method", METHODS.values())
def test_two_sides_of_one_table_end_right_with_a_cache_if_one_of_them_is_kept(
    method: str, kept: tuple[str, ...]
) -> None:
    builder = StreamsBuilder()
    rows = builder.table("in", key_serde=LONG, value_serde=STRING)
    left_options: Any = {"name": LEFT, "value_serde": STRING} if LEFT in kept else {}
    right_options: Any = {"name": RIGHT} if RIGHT in kept else {}
    left = rows.filter(lambda key, value: value != "none", **left_options)
    right = rows.filter(lambda key, value: not value.startswith("no"), **right_options)
    result = getattr(left, method)(right, dashed, name="joined", value_serde=STRING)
    counts = result.group_by(lambda key, value: ("all", key), key_serde=STRING, value_serde=LONG)
    counts.count(name="count")
    with TopologyTestDriver(builder.build()) as driver:
        rows_in = driver.create_input_topic("in", LONG, STRING)
        joined_rows, count = (driver.get_key_value_store(name) for name in ("joined", "count"))
        for value in (each for pair in itertools.permutations(SELF, 2) for each in pair):
            rows_in.pipe_input(1, value)
            left_row = None if value == "none" else value
            right_row = None if value is None or value.startswith("no") else value
            there = (right_row if method == "join" else left_row) is not None
            assert joined_rows.get(1) == (dashed(left_row, right_row) if there else None)
            assert (count.get("all") or 0) == int(there)


def by_topic(left: KTable[int, str], right: KTable[int, str], method: str) -> KTable[int, str]:
    """Join a table with another that comes through a topic of its own."""
    again: KTable[int, str] = right.to_stream().repartition(name="again").to_table()
    joined: KTable[int, str] = getattr(left, method)(
        again, dashed, name="joined", value_serde=STRING
    )
    return joined


def by_foreign_key(
    left: KTable[int, str], right: KTable[int, str], method: str
) -> KTable[int, str]:
    """Join tables by their keys, as if the key of the right one were in the left one's row."""
    joined: KTable[int, str] = getattr(left, method)(
        right,
        lambda key, one, other: dashed(one, other),
        foreign_key=lambda key, value: key,
        with_key=True,
        name="joined",
        value_serde=STRING,
    )
    return joined


@pytest.mark.parametrize("cache_bytes", [0, 1_000_000], ids=["uncached", "cached"])
@pytest.mark.parametrize(
    ("method", "join"),
    [
        ("join", by_topic),
        ("left_join", by_topic),
        ("outer_join", by_topic),
        ("join", by_foreign_key),
        ("left_join", by_foreign_key),
    ],
)
def test_two_sides_of_one_table_end_right_through_a_topic_with_and_without_a_cache(
    method: str, join: Callable[..., KTable[int, str]], cache_bytes: int
) -> None:
    builder = StreamsBuilder()
    rows = builder.table("in", key_serde=LONG, value_serde=STRING)
    left = rows.filter(lambda key, value: value != "none")
    right = rows.filter(lambda key, value: not value.startswith("no"))
    result = join(left, right, method)
    counts = result.group_by(lambda key, value: ("all", key), key_serde=STRING, value_serde=LONG)
    counts.count(name="count")
    config = {"statestore.cache.max.bytes": cache_bytes}
    with TopologyTestDriver(builder.build(), config) as driver:
        rows_in = driver.create_input_topic("in", LONG, STRING)
        joined_rows, count = (driver.get_key_value_store(name) for name in ("joined", "count"))
        for value in (each for pair in itertools.permutations(SELF, 2) for each in pair):
            rows_in.pipe_input(1, value)
            left_row = None if value == "none" else value
            right_row = None if value is None or value.startswith("no") else value
            there = (right_row if method == "join" else left_row) is not None
            assert joined_rows.get(1) == (dashed(left_row, right_row) if there else None)
            assert (count.get("all") or 0) == int(there)


def test_options_without_a_name_keep_the_result() -> None:
    builder = StreamsBuilder()
    left = table_of(builder, LEFT, versioned=False)
    right = table_of(builder, RIGHT, versioned=False)
    joined = left.join(right, dashed, value_serde=STRING)
    assert "KTABLE-MERGE-STATE-STORE-0000000004" in builder.build().stores
    assert joined.queryable_store_name is None


def test_the_joiner_takes_the_key_if_asked_to() -> None:
    builder = StreamsBuilder()
    left = table_of(builder, LEFT, versioned=False)
    right = table_of(builder, RIGHT, versioned=False)
    joined = left.join(right, lambda key, one, other: f"{key}: {one}{other}", with_key=True)
    joined.to_stream().to("out", value_serde=STRING)
    with TopologyTestDriver(builder.build()) as driver:
        inputs = {topic: driver.create_input_topic(topic, LONG, STRING) for topic in (LEFT, RIGHT)}
        inputs[LEFT].pipe_input(7, "A")
        inputs[RIGHT].pipe_input(7, "a")
        out = driver.create_output_topic("out", LONG, STRING)
        assert out.read_key_values() == [(7, "7: Aa")]


def test_tables_of_two_builders_are_not_joined() -> None:
    one, other = StreamsBuilder(), StreamsBuilder()
    left = table_of(one, LEFT, versioned=False)
    with pytest.raises(TopologyError, match="two StreamsBuilders"):
        left.join(table_of(other, RIGHT, versioned=False), dashed)


def test_a_table_is_not_joined_with_a_stream() -> None:
    builder = StreamsBuilder()
    left = table_of(builder, LEFT, versioned=False)
    stream: Any = builder.stream("in")
    with pytest.raises(TopologyError, match="join the stream with the table"):
        left.join(stream, dashed)
