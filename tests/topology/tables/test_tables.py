"""Tables: sources, filters, maps, when they are kept in a store, what their changes carry."""

# ruff: noqa: ARG005 - a lambda takes what the DSL gives it.

from __future__ import annotations

from typing import Any

import pytest

from pystreams import KTable, StreamsBuilder
from pystreams.serdes import STRING


@pytest.fixture
def homes(builder: StreamsBuilder) -> KTable[str, str]:
    return builder.table("homes", key_serde=STRING, value_serde=STRING)


def run(drive: Any, *records: tuple[str | None, str | None], **config: Any) -> list[Any]:
    """Pipe records into "homes" and return what came out at "out"."""
    driver = drive(**config)
    source = driver.create_input_topic("homes", STRING, STRING)
    for key, value in records:
        source.pipe_input(key, value)
    key_values: list[Any] = driver.create_output_topic("out", STRING, STRING).read_key_values()
    return key_values


def stores_of(builder: StreamsBuilder) -> list[str]:
    return list(builder.build().stores)


def test_table_to_stream_gives_updates_and_deletions(homes: KTable[str, str], drive: Any) -> None:
    homes.to_stream().to("out")

    assert run(drive, ("a", "x"), ("a", None)) == [("a", "x"), ("a", None)]


def test_table_drops_records_without_a_key(homes: KTable[str, str], drive: Any) -> None:
    homes.to_stream().to("out")

    assert run(drive, (None, "x"), ("a", "y")) == [("a", "y")]


def test_late_update_of_a_table_is_applied(builder: StreamsBuilder, drive: Any) -> None:
    builder.table("homes", name="store").to_stream().to("out")
    driver = drive()
    source = driver.create_input_topic("homes", STRING, STRING)

    source.pipe_input("a", "new", 9)
    source.pipe_input("a", "late", 4)

    assert driver.get_state_store("store").get("a") == ("late", 4)
    assert driver.create_output_topic("out", STRING, STRING).read_record().timestamp == 9


def test_table_that_nothing_looks_into_has_no_store(
    builder: StreamsBuilder, homes: KTable[str, str]
) -> None:
    homes.filter(lambda key, value: True).map_values(str).to_stream().to("out")

    assert stores_of(builder) == []


def test_named_table_has_a_store(builder: StreamsBuilder) -> None:
    builder.table("homes", name="homes-store")

    assert stores_of(builder) == ["homes-store"]


def test_table_that_is_joined_has_a_store(builder: StreamsBuilder, homes: KTable[str, str]) -> None:
    derived = homes.filter(lambda key, value: True).map_values(str)
    builder.stream("orders").join(derived, lambda order, home: order)

    assert stores_of(builder) == ["homes-STATE-STORE-0000000000"]


def test_table_that_is_regrouped_has_a_store_for_its_old_values(
    builder: StreamsBuilder, homes: KTable[str, str]
) -> None:
    homes.group_by(lambda key, value: (value, key)).count(name="residents")

    assert stores_of(builder) == ["homes-STATE-STORE-0000000000", "residents"]


def test_unnamed_store_is_not_queryable(homes: KTable[str, str]) -> None:
    homes.group_by(lambda key, value: (value, key)).count()

    assert homes.queryable_store_name is None


def test_row_that_leaves_a_filter_is_deleted(homes: KTable[str, str], drive: Any) -> None:
    homes.filter(lambda key, value: value != "gone").to_stream().to("out")

    assert run(drive, ("a", "x"), ("a", "gone")) == [("a", "x"), ("a", None)]


def test_filter_not_keeps_the_other_rows(homes: KTable[str, str], drive: Any) -> None:
    homes.filter_not(lambda key, value: value == "x").to_stream().to("out")

    assert run(drive, ("a", "x"), ("b", "y")) == [("a", None), ("b", "y")]


def test_filter_below_a_kept_table_deletes_only_what_it_had(
    builder: StreamsBuilder, drive: Any
) -> None:
    table = builder.table("homes", name="store")
    table.filter(lambda key, value: value == "x").to_stream().to("out")

    assert run(drive, ("a", "y"), ("a", "x"), ("a", "y")) == [("a", "x"), ("a", None)]


@pytest.mark.parametrize("kept", [{}, {"name": "kept"}], ids=["computed", "kept"])
@pytest.mark.parametrize("grouped", [False, True])
def test_a_filter_deletes_what_was_never_there_unless_a_group_needs_its_old_values(
    homes: KTable[str, str], drive: Any, kept: Any, grouped: bool
) -> None:
    even = homes.filter(lambda key, value: int(value) % 2 == 0, **kept)
    even.to_stream().to("out")
    if grouped:
        even.group_by(lambda key, value: (value, key)).count()

    records = ("a", "1"), ("b", "2"), ("a", "2"), ("a", "3"), ("a", "5"), ("a", None), ("b", None)
    out = run(drive, *records, statestore_cache_max_bytes=0)

    never_there = ("a", None)
    assert out == [
        *([] if grouped else [never_there]),
        ("b", "2"),
        ("a", "2"),
        ("a", None),
        *([] if grouped else [never_there, never_there]),
        ("b", None),
    ]


def test_named_filter_keeps_its_rows(homes: KTable[str, str], drive: Any) -> None:
    kept = homes.filter(lambda key, value: value == "x", name="only-x")
    driver = drive()
    source = driver.create_input_topic("homes", STRING, STRING)

    source.pipe_input("a", "x", 1)
    source.pipe_input("b", "y", 2)

    assert kept.queryable_store_name == "only-x"
    assert list(driver.get_state_store("only-x").all()) == [("a", ("x", 1))]


def test_map_values_does_not_call_its_mapper_for_deleted_rows(
    homes: KTable[str, str], drive: Any
) -> None:
    homes.map_values(str.upper).to_stream().to("out")

    assert run(drive, ("a", "x"), ("a", None)) == [("a", "X"), ("a", None)]


def test_map_values_with_key_calls_its_mapper_with_both(
    homes: KTable[str, str], drive: Any
) -> None:
    homes.map_values(lambda key, value: key + value, with_key=True).to_stream().to("out")

    assert run(drive, ("a", "x")) == [("a", "ax")]


def test_to_stream_may_choose_another_key(homes: KTable[str, str], drive: Any) -> None:
    homes.to_stream(lambda key, value: f"{key}/{value}").to("out")

    assert run(drive, ("a", "x"), ("a", None)) == [("a/x", "x"), ("a/None", None)]


def test_stream_becomes_a_table_of_its_last_values(builder: StreamsBuilder, drive: Any) -> None:
    table = builder.stream("homes").filter(lambda key, value: value != "y").to_table(name="last")
    table.to_stream().to("out")
    driver = drive()
    source = driver.create_input_topic("homes", STRING, STRING)

    source.pipe_input("a", "x", 1)
    source.pipe_input("a", "y", 2)
    source.pipe_input(None, "z", 3)

    assert list(driver.get_state_store("last").all()) == [("a", ("x", 1))]


def test_stream_whose_key_changed_is_repartitioned_on_its_way_into_a_table(
    builder: StreamsBuilder,
) -> None:
    builder.stream("homes").select_key(lambda key, value: value).to_table(node_name="by-value")

    assert list(builder.build().repartition_topics) == ["by-value-repartition"]


def test_failed_mapper_of_a_table_drops_the_change(
    builder: StreamsBuilder, homes: KTable[str, str], drive: Any
) -> None:
    homes.map_values(int).map_values(str).to_stream().to("out")
    driver = drive(processing_exception_handler="continue")
    source = driver.create_input_topic("homes", STRING, STRING)

    source.pipe_input("a", "no")
    source.pipe_input("a", "1")

    assert driver.create_output_topic("out", STRING, STRING).read_values() == ["1"]
