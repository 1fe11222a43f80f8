"""Aggregations of regrouped tables: old rows are subtracted, new ones added."""

# ruff: noqa: ARG005 - a lambda takes what the DSL gives it.

from __future__ import annotations

from typing import Any

import pytest

from pystreams import KGroupedTable, KTable, Serde, StreamsBuilder, serde_of
from pystreams.serdes import JSON, LONG, STRING

REPARTITION = "app-residents-repartition"


@pytest.fixture
def by_city(builder: StreamsBuilder) -> KGroupedTable[str, str]:
    """Homes by city; the group of a home without a city is None."""
    homes = builder.table("homes", key_serde=STRING, value_serde=STRING)

    def city_of(key: str, city: str) -> Any:
        return (None if city == "nowhere" else city), key

    return homes.group_by(city_of, key_serde=STRING, value_serde=STRING)


def run(drive: Any, *records: tuple[str, str | None, int]) -> Any:
    """Pipe records into "homes" and return the driver."""
    driver = drive()
    source = driver.create_input_topic("homes", STRING, STRING)
    for key, value, timestamp in records:
        source.pipe_input(key, value, timestamp)
    return driver


def out(driver: Any) -> list[Any]:
    key_values: list[Any] = driver.create_output_topic("out", STRING, JSON).read_key_values()
    return key_values


def to_out(table: KTable[str, Any]) -> None:
    table.to_stream().to("out", value_serde=JSON)


def test_row_is_counted_in_its_group(by_city: KGroupedTable[str, str], drive: Any) -> None:
    to_out(by_city.count())

    assert out(run(drive, ("a", "Oslo", 1), ("b", "Oslo", 2))) == [("Oslo", 1), ("Oslo", 2)]


def test_row_that_moves_is_taken_out_of_its_old_group_first(
    by_city: KGroupedTable[str, str], drive: Any
) -> None:
    to_out(by_city.count())

    driver = run(drive, ("a", "Oslo", 1), ("a", "Bergen", 2))

    assert out(driver) == [("Oslo", 1), ("Oslo", 0), ("Bergen", 1)]


def test_deleted_row_is_taken_out_of_its_group(
    by_city: KGroupedTable[str, str], drive: Any
) -> None:
    to_out(by_city.count())

    assert out(run(drive, ("a", "Oslo", 1), ("a", None, 2))) == [("Oslo", 1), ("Oslo", 0)]


def test_row_without_a_group_is_nowhere(by_city: KGroupedTable[str, str], drive: Any) -> None:
    to_out(by_city.count())

    driver = run(drive, ("a", "nowhere", 1), ("a", "Oslo", 2), ("a", "nowhere", 3))

    assert out(driver) == [("Oslo", 1), ("Oslo", 0)]


def test_change_within_a_group_travels_as_one_record(
    by_city: KGroupedTable[str, str], drive: Any
) -> None:
    by_city.count(name="residents")

    driver = run(drive, ("a", "Oslo", 1), ("a", "Oslo", 2))

    values = [value for _, value, *_ in driver.produced_raw(REPARTITION)]
    assert values == [b"a\x01", b"\x02aa\x02"]


def test_change_between_groups_travels_as_two_records_the_old_one_first(
    by_city: KGroupedTable[str, str], drive: Any
) -> None:
    by_city.count(name="residents")

    driver = run(drive, ("a", "Oslo", 1), ("a", "Bergen", 2))

    records = [record[:2] for record in driver.produced_raw(REPARTITION)]
    assert records[1:] == [(b"Oslo", b"a\x00"), (b"Bergen", b"a\x01")]


def test_reduce_subtracts_and_adds(builder: StreamsBuilder, drive: Any) -> None:
    homes = builder.table("homes", key_serde=STRING, value_serde=STRING)
    grouped = homes.group_by(
        lambda key, value: ("all", int(value)), key_serde=STRING, value_serde=LONG
    )
    to_out(grouped.reduce(lambda total, new: total + new, lambda total, old: total - old))

    driver = run(drive, ("a", "10", 1), ("b", "5", 2), ("a", "7", 3), ("b", None, 4))

    assert out(driver) == [("all", 10), ("all", 15), ("all", 12), ("all", 7)]


def test_aggregate_subtracts_before_it_adds(by_city: KGroupedTable[str, str], drive: Any) -> None:
    table = by_city.aggregate(
        str,
        lambda city, name, so_far: f"{so_far}+{name}",
        lambda city, name, so_far: f"{so_far}-{name}",
        value_serde=STRING,
    )
    to_out(table)

    driver = run(drive, ("a", "Oslo", 1), ("a", "Oslo", 2), ("a", "Bergen", 3))

    assert out(driver)[1:] == [("Oslo", "+a-a+a"), ("Oslo", "+a-a+a-a"), ("Bergen", "+a")]


def test_group_carries_the_highest_timestamp_of_its_changes(
    by_city: KGroupedTable[str, str], drive: Any
) -> None:
    to_out(by_city.count())

    driver = run(drive, ("a", "Oslo", 9), ("b", "Oslo", 4))

    records = driver.create_output_topic("out", STRING, JSON).read_records()
    assert [record.timestamp for record in records] == [9, 9]


@pytest.mark.parametrize("caching", [True, False])
def test_aggregation_of_an_aggregation_moves_its_rows(
    builder: StreamsBuilder, drive: Any, caching: bool
) -> None:
    """How many users have how many homes: each new home moves its user on."""
    homes = builder.stream("homes", key_serde=STRING, value_serde=STRING).group_by_key()
    counts = homes.count(name="counts", caching=caching)
    grouped = counts.group_by(
        lambda key, count: (str(count), key), key_serde=STRING, value_serde=STRING
    )
    to_out(grouped.count())

    driver = run(drive, ("a", "x", 1), ("b", "x", 2), ("a", "y", 3))

    assert out(driver)[-2:] == [("1", 1), ("2", 1)]


class Place:
    """A key that is equal to itself alone."""

    def __init__(self, name: str) -> None:
        self.name = name


PLACE: Serde[Place] = serde_of(lambda place: place.name.encode(), lambda data: Place(data.decode()))


def test_a_change_within_a_group_whose_key_knows_no_equality_travels_as_two_records(
    builder: StreamsBuilder, drive: Any
) -> None:
    homes = builder.table("homes", key_serde=STRING, value_serde=STRING)
    homes.group_by(
        lambda name, city: (Place(city), name), key_serde=PLACE, value_serde=STRING
    ).count(name="residents")

    driver = run(drive, ("a", "Oslo", 1), ("a", "Oslo", 2))

    values = [value for _, value, *_ in driver.produced_raw(REPARTITION)]
    assert values == [b"a\x01", b"a\x00", b"a\x01"]
