"""Joins of a stream with a table."""

# ruff: noqa: ARG005 - a lambda takes what the DSL gives it.

from __future__ import annotations

from typing import Any

import pytest

from pystreams import KStream, KTable, ProcessingError, StreamsBuilder, TopologyError
from pystreams.serdes import STRING
from pystreams.topology.plan.partition_plan import plan_partitions
from pystreams.topology.plan.topology_plan import TopologyPlan


@pytest.fixture
def orders(builder: StreamsBuilder) -> KStream[str, str]:
    return builder.stream("orders", key_serde=STRING, value_serde=STRING)


@pytest.fixture
def people(builder: StreamsBuilder) -> KTable[str, str]:
    return builder.table("people", key_serde=STRING, value_serde=STRING)


def run(drive: Any, *records: tuple[str, str | None, str | None], **config: Any) -> list[Any]:
    """Pipe (topic, key, value) and return what came out at "out"."""
    driver = drive(**config)
    for topic, key, value in records:
        driver.create_input_topic(topic, STRING, STRING).pipe_input(key, value)
    key_values: list[Any] = driver.create_output_topic("out", STRING, STRING).read_key_values()
    return key_values


def test_record_is_joined_with_the_row_of_its_key(
    orders: KStream[str, str], people: KTable[str, str], drive: Any
) -> None:
    orders.join(people, lambda order, person: f"{order} for {person}").to("out")

    out = run(drive, ("people", "a", "Ava"), ("orders", "a", "tea"), ("orders", "b", "tea"))

    assert out == [("a", "tea for Ava")]


def test_update_of_the_table_joins_nothing_by_itself(
    orders: KStream[str, str], people: KTable[str, str], drive: Any
) -> None:
    orders.join(people, lambda order, person: f"{order} for {person}").to("out")

    out = run(
        drive,
        ("people", "a", "Ava"),
        ("orders", "a", "tea"),
        ("people", "a", "Eva"),
        ("orders", "a", "ale"),
    )

    assert out == [("a", "tea for Ava"), ("a", "ale for Eva")]


def test_left_join_joins_records_without_a_row_with_none(
    orders: KStream[str, str], people: KTable[str, str], drive: Any
) -> None:
    orders.left_join(people, lambda order, person: f"{order} for {person}").to("out")

    assert run(drive, ("orders", "a", "tea")) == [("a", "tea for None")]


def test_left_join_joins_records_without_a_key_with_none(
    orders: KStream[str, str],
    people: KTable[str, str],
    drive: Any,
    caplog: pytest.LogCaptureFixture,
) -> None:
    orders.left_join(people, lambda order, person: f"{order} for {person}").to("out")

    assert run(drive, ("people", "a", "Ava"), ("orders", None, "tea")) == [(None, "tea for None")]
    assert "dropped" not in caplog.text


def test_inner_join_drops_records_without_a_key_and_tells(
    orders: KStream[str, str],
    people: KTable[str, str],
    drive: Any,
    caplog: pytest.LogCaptureFixture,
) -> None:
    orders.join(people, lambda order, person: "joined").to("out")

    assert run(drive, ("people", "a", "Ava"), ("orders", None, "tea")) == []
    assert caplog.text.count("reason='null key or value'") == 1


def test_joins_drop_records_without_a_value(
    orders: KStream[str, str],
    people: KTable[str, str],
    drive: Any,
    caplog: pytest.LogCaptureFixture,
) -> None:
    orders.join(people, lambda order, person: "joined").to("out")
    orders.left_join(people, lambda order, person: "joined").to("out")

    assert run(drive, ("people", "a", "Ava"), ("orders", "a", None)) == []
    assert caplog.text.count("reason='null key or value'") == 2


def test_joiner_with_key_is_called_with_all_three(
    orders: KStream[str, str], people: KTable[str, str], drive: Any
) -> None:
    joined = orders.join(people, lambda key, order, person: key + order + person, with_key=True)
    joined.to("out")

    assert run(drive, ("people", "a", "Ava"), ("orders", "a", "tea")) == [("a", "ateaAva")]


def test_join_looks_through_tables_that_are_computed_on_the_fly(
    orders: KStream[str, str], people: KTable[str, str], drive: Any
) -> None:
    upper = people.filter(lambda key, value: value != "Bo").map_values(str.upper)
    orders.left_join(upper, lambda order, person: f"{order} for {person}").to("out")

    out = run(
        drive,
        ("people", "a", "Ava"),
        ("people", "b", "Bo"),
        ("orders", "a", "tea"),
        ("orders", "b", "ale"),
        ("orders", "c", "gin"),
    )

    assert out == [("a", "tea for AVA"), ("b", "ale for None"), ("c", "gin for None")]


def test_error_in_a_function_behind_the_table_is_the_joins(
    orders: KStream[str, str], people: KTable[str, str], drive: Any
) -> None:
    numbers = people.map_values(int)
    orders.join(numbers, lambda order, number: order, name="number-orders").to("out")

    with pytest.raises(ProcessingError, match="MAPVALUES"):
        run(drive, ("people", "a", "no number"))


def test_join_sees_the_aggregation_of_the_same_record(
    orders: KStream[str, str], drive: Any
) -> None:
    counts = orders.group_by_key().count()
    orders.join(counts, lambda order, count: f"{order} #{count}").to("out")

    assert run(drive, ("orders", "a", "tea"), ("orders", "a", "ale")) == [
        ("a", "tea #1"),
        ("a", "ale #2"),
    ]


def test_stream_with_a_new_key_is_repartitioned_and_drops_null_keys(
    orders: KStream[str, str], people: KTable[str, str], drive: Any
) -> None:
    def initial(key: str, value: str) -> Any:
        return value[0] if value != "none" else None

    keyed = orders.select_key(initial)
    joined = keyed.join(people, lambda order, person: f"{order} for {person}", name="by-initial")
    joined.to("out")
    driver = drive()
    driver.create_input_topic("people", STRING, STRING).pipe_input("t", "Tea")

    source = driver.create_input_topic("orders", STRING, STRING)
    source.pipe_input("a", "tea")
    source.pipe_input("a", "none")

    assert len(driver.produced_raw("app-by-initial-repartition")) == 1
    assert driver.create_output_topic("out", STRING, STRING).read_values() == ["tea for Tea"]


def test_repartition_before_a_left_join_keeps_null_keys(
    orders: KStream[str, str], people: KTable[str, str], drive: Any
) -> None:
    no_key: Any = None
    keyed = orders.select_key(lambda key, value: no_key)
    keyed.left_join(people, lambda order, person: f"{order} for {person}").to("out")

    assert run(drive, ("orders", "a", "tea")) == [(None, "tea for None")]


def test_joined_topics_must_have_equal_partition_counts(
    builder: StreamsBuilder, orders: KStream[str, str], people: KTable[str, str]
) -> None:
    orders.join(people, lambda order, person: order, name="at-table")
    plan = TopologyPlan(builder.build(), "app")

    told = r"node 'at-table' .*: 'orders' has 3, 'people' has 2; repartition one"
    with pytest.raises(TopologyError, match=told):
        plan_partitions(plan, {"orders": 3, "people": 2})


def test_repartition_before_a_join_takes_the_tables_partition_count(
    builder: StreamsBuilder, orders: KStream[str, str], people: KTable[str, str]
) -> None:
    orders.select_key(lambda key, value: value).join(people, lambda a, b: a, name="join")
    plan = TopologyPlan(builder.build(), "app")

    counts = plan_partitions(plan, {"orders": 3, "people": 2}).num_partitions

    assert counts["app-join-repartition"] == 2


def test_streams_of_one_topic_are_copartitioned_under_the_merged_source(
    builder: StreamsBuilder, orders: KStream[str, str], people: KTable[str, str]
) -> None:
    again = builder.stream("orders", key_serde=STRING, value_serde=STRING)
    again.join(people, lambda order, person: order)

    (group,) = builder.build().copartition_groups

    assert "KSTREAM-SOURCE-0000000000" in group.sources
