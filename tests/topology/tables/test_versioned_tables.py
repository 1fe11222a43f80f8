"""Tables that keep the history of their rows: late updates, and joins as of a record's time."""

# ruff: noqa: ARG005 - a lambda takes what the DSL gives it.

from __future__ import annotations

from typing import Any

import pytest

from pystreams import (
    KTable,
    Materialized,
    StoreEngine,
    Stores,
    StreamsBuilder,
    TopologyError,
    VersionedRecord,
)
from pystreams.serdes import JSON, LONG, STRING
from pystreams.stores.kinds.versioned.kind import VERSIONED

RETENTION_MS = 100
Input = tuple[str, str | None, str | None, int]


def kept(name: str, **options: Any) -> Materialized[Any, Any]:
    return Materialized(name=name, history_retention_ms=RETENTION_MS, **options)


@pytest.fixture
def prices(builder: StreamsBuilder) -> KTable[str, str]:
    return builder.table(
        "prices", key_serde=STRING, value_serde=STRING, materialized=kept("prices-store")
    )


def start(drive: Any, *records: Input) -> Any:
    """Pipe (topic, key, value, timestamp); return the driver."""
    driver = drive()
    for topic, key, value, timestamp in records:
        driver.create_input_topic(topic, STRING, STRING).pipe_input(key, value, timestamp)
    return driver


def out(driver: Any, value_serde: Any = STRING) -> list[Any]:
    records = driver.create_output_topic("out", STRING, value_serde).read_records()
    return [(record.key, record.value, record.timestamp) for record in records]


LATE = (("prices", "a", "10", 10), ("prices", "a", "30", 30), ("prices", "a", "20", 20))
"""A third update that is older than the second."""


def test_late_update_goes_into_the_history(prices: KTable[str, str], drive: Any) -> None:
    store = start(drive, *LATE).get_state_store("prices-store")

    assert store.get("a") == VersionedRecord("30", 30)
    assert list(store.get_range("a")) == [
        VersionedRecord("10", 10, 20),
        VersionedRecord("20", 20, 30),
        VersionedRecord("30", 30),
    ]


def test_every_update_that_is_taken_reaches_the_stream(
    prices: KTable[str, str], drive: Any
) -> None:
    prices.to_stream().to("out")

    driver = start(drive, *LATE, ("prices", "a", "late tombstone", 5), ("prices", "a", None, 40))

    assert [timestamp for _, _, timestamp in out(driver)] == [10, 30, 20, 5, 40]


def test_update_that_is_too_late_is_dropped(prices: KTable[str, str], drive: Any) -> None:
    prices.to_stream().to("out")

    driver = start(drive, ("prices", "a", "new", RETENTION_MS + 10), ("prices", "a", "old", 9))

    assert out(driver) == [("a", "new", RETENTION_MS + 10)]
    assert driver.get_state_store("prices-store").get("a", 9) is None


def test_late_update_does_not_change_the_present_groups(
    prices: KTable[str, str], drive: Any
) -> None:
    grouped = prices.group_by(lambda key, price: (price, key), key_serde=STRING, value_serde=STRING)
    grouped.count().to_stream().to("out")

    driver = start(drive, *LATE)

    assert out(driver, LONG) == [("10", 1, 10), ("10", 0, 30), ("30", 1, 30)]


def test_tables_on_the_fly_pass_on_that_an_update_is_late(
    prices: KTable[str, str], drive: Any
) -> None:
    dear = prices.filter(lambda key, price: price != "0").map_values(lambda price: price + " EUR")
    grouped = dear.group_by(lambda key, price: (price, key), key_serde=STRING, value_serde=STRING)
    grouped.count().to_stream().to("out")

    driver = start(drive, *LATE)

    assert out(driver, LONG) == [("10 EUR", 1, 10), ("10 EUR", 0, 30), ("30 EUR", 1, 30)]


@pytest.mark.parametrize("operation", ["filter", "map_values"])
def test_derived_table_keeps_a_history_of_its_own(
    prices: KTable[str, str], drive: Any, operation: str
) -> None:
    if operation == "filter":
        prices.filter(lambda key, price: price != "0", materialized=kept("derived"))
    else:
        prices.map_values(lambda price: price, materialized=kept("derived", value_serde=STRING))

    store = start(drive, *LATE).get_state_store("derived")

    assert [(version.value, version.timestamp) for version in store.get_range("a")] == [
        ("10", 10),
        ("20", 20),
        ("30", 30),
    ]


def test_filter_of_a_versioned_table_forwards_every_deletion(
    prices: KTable[str, str], drive: Any
) -> None:
    """A second one in a row says until when a late row is valid."""
    dear = prices.filter(lambda key, price: price != "0", materialized=kept("dear"))
    dear.to_stream().to("out")

    driver = start(
        drive,
        ("prices", "a", "0", 10),
        ("prices", "a", "0", 20),
        ("prices", "a", "late", 15),
    )

    assert out(driver) == [("a", None, 10), ("a", None, 20), ("a", "late", 15)]
    assert driver.get_state_store("dear").get("a", 15) == VersionedRecord("late", 15, 20)


def test_table_with_a_plain_store_takes_late_updates_as_the_latest(
    prices: KTable[str, str], drive: Any
) -> None:
    latest = prices.map_values(lambda price: price, name="plain", value_serde=STRING)
    latest.group_by(
        lambda key, price: (price, key), key_serde=STRING, value_serde=STRING
    ).count().to_stream().to("out")

    driver = start(drive, *LATE)

    assert out(driver, LONG)[-1] == ("20", 1, 20)
    assert driver.get_state_store("plain").get("a") == ("20", 20)


def test_filter_with_options_but_without_a_name_stays_versioned(
    prices: KTable[str, str], drive: Any
) -> None:
    """Nothing is kept, so that nothing forgets which update is the latest."""
    dear = prices.filter(lambda key, price: price != "0", key_serde=STRING)
    dear.group_by(
        lambda key, price: (price, key), key_serde=STRING, value_serde=STRING
    ).count().to_stream().to("out")

    driver = start(drive, *LATE)

    assert out(driver, LONG) == [("10", 1, 10), ("10", 0, 30), ("30", 1, 30)]


def test_record_joins_the_row_as_it_was_at_its_time(
    builder: StreamsBuilder, prices: KTable[str, str], drive: Any
) -> None:
    orders = builder.stream("orders", key_serde=STRING, value_serde=STRING)
    orders.join(prices, lambda order, price: f"{order} at {price}").to("out")

    driver = start(
        drive,
        *LATE,
        ("orders", "a", "tea", 25),
        ("orders", "a", "tea", 9),
        ("orders", "a", "tea", 99),
        ("orders", "a", "tea", 10),
    )

    assert out(driver) == [
        ("a", "tea at 20", 25),
        ("a", "tea at 30", 99),
        ("a", "tea at 10", 10),
    ]


def test_left_join_of_a_time_without_a_row_joins_none(
    builder: StreamsBuilder, prices: KTable[str, str], drive: Any
) -> None:
    orders = builder.stream("orders", key_serde=STRING, value_serde=STRING)
    orders.left_join(prices, lambda order, price: f"{order} at {price}").to("out")

    driver = start(
        drive,
        ("prices", "a", "10", 10),
        ("prices", "a", None, 20),
        ("prices", "a", "30", 30),
        ("orders", "a", "tea", 9),
        ("orders", "a", "tea", 25),
        ("orders", "a", "tea", 15),
    )

    assert [value for _, value, _ in out(driver)] == ["tea at None", "tea at None", "tea at 10"]


def test_record_before_the_history_joins_nothing(
    builder: StreamsBuilder, prices: KTable[str, str], drive: Any
) -> None:
    orders = builder.stream("orders", key_serde=STRING, value_serde=STRING)
    orders.join(prices, lambda order, price: f"{order} at {price}").to("out")

    driver = start(
        drive,
        ("prices", "a", "10", 10),
        ("prices", "a", "20", 20),
        ("prices", "b", "other", RETENTION_MS + 16),
        ("orders", "a", "tea", 15),
        ("orders", "a", "tea", 16),
    )

    assert out(driver) == [("a", "tea at 10", 16)]


def test_record_joins_a_table_on_the_fly_as_of_its_time(
    builder: StreamsBuilder, prices: KTable[str, str], drive: Any
) -> None:
    dear = prices.filter(lambda key, price: price != "20").map_values(lambda price: price + " EUR")
    orders = builder.stream("orders", key_serde=STRING, value_serde=STRING)
    orders.left_join(dear, lambda order, price: f"{order} at {price}").to("out")

    driver = start(
        drive,
        *LATE,
        ("orders", "a", "tea", 15),
        ("orders", "a", "tea", 25),
        ("orders", "a", "x", 5),
    )

    assert [value for _, value, _ in out(driver)] == [
        "tea at 10 EUR",
        "tea at None",
        "x at None",
    ]


def test_stream_is_read_as_a_versioned_table(builder: StreamsBuilder, drive: Any) -> None:
    stream = builder.stream("prices", key_serde=STRING, value_serde=STRING)
    stream.to_table(materialized=kept("table")).to_stream().to("out")

    driver = start(drive, *LATE)

    assert driver.get_state_store("table").get("a", 25) == VersionedRecord("20", 20, 30)
    assert len(out(driver)) == 3


def test_aggregation_keeps_its_history(builder: StreamsBuilder, drive: Any) -> None:
    stream = builder.stream("prices", key_serde=STRING, value_serde=STRING)
    stream.group_by_key().count(materialized=kept("counts")).to_stream().to("out")

    driver = start(drive, *LATE)

    # A result has the highest timestamp of its inputs, so that it is the latest.
    assert out(driver, LONG) == [("a", 1, 10), ("a", 2, 30), ("a", 3, 30)]
    assert [record.value for record in driver.get_state_store("counts").get_range("a")] == [1, 3]


def test_aggregation_that_is_too_old_is_not_forwarded(builder: StreamsBuilder, drive: Any) -> None:
    stream = builder.stream("prices", key_serde=STRING, value_serde=STRING)
    for number, table in enumerate(
        (
            stream.group_by_key().reduce(lambda old, new: new, materialized=kept("reduced")),
            stream.group_by_key().aggregate(
                str, lambda key, new, old: new, materialized=kept("folded", value_serde=STRING)
            ),
        )
    ):
        table.to_stream(name=f"node-{number}").to("out")

    driver = start(drive, ("prices", "a", "new", RETENTION_MS + 10), ("prices", "b", "old", 9))

    assert out(driver) == [("a", "new", RETENTION_MS + 10)] * 2


def test_aggregation_behind_a_deletion_is_late(builder: StreamsBuilder, drive: Any) -> None:
    stream = builder.stream("prices", key_serde=STRING, value_serde=STRING)
    table = stream.group_by_key().aggregate(
        str,
        lambda key, new, old: None if new == "delete" else old + new,
        materialized=kept("folded", value_serde=STRING),
    )
    table.group_by(
        lambda key, value: (value, key), key_serde=STRING, value_serde=STRING
    ).count().to_stream().to("out")

    driver = start(drive, ("prices", "a", "delete", 30), ("prices", "a", "x", 20))

    assert out(driver, LONG) == []
    assert driver.get_state_store("folded").get("a", 25) == VersionedRecord("x", 20, 30)


def test_aggregated_groups_keep_their_history(builder: StreamsBuilder, drive: Any) -> None:
    homes = builder.table("prices", key_serde=STRING, value_serde=STRING)
    homes.group_by(lambda key, city: (city, key), key_serde=STRING, value_serde=STRING).aggregate(
        list,
        lambda group, row, rows: [*rows, row],
        lambda group, row, rows: [kept for kept in rows if kept != row],
        materialized=kept("groups", value_serde=JSON),
    )

    driver = start(
        drive, ("prices", "a", "x", 10), ("prices", "b", "x", 20), ("prices", "a", "y", 30)
    )

    history = driver.get_state_store("groups").get_range("x")
    assert [(version.value, version.timestamp) for version in history] == [
        (["a"], 10),
        (["a", "b"], 20),
        (["b"], 30),
    ]


def test_supplier_says_what_kind_of_store_a_table_has(builder: StreamsBuilder, drive: Any) -> None:
    versioned = Stores.in_memory_versioned_key_value_store("versioned", RETENTION_MS)
    plain = Stores.persistent_timestamped_key_value_store("plain")
    table = builder.table("prices", materialized=Materialized(supplier=versioned))
    table.map_values(lambda price: price, supplier=plain, value_serde=STRING)

    assert table.queryable_store_name == "versioned"
    driver = start(drive, *LATE)
    assert driver.get_state_store("versioned").get("a", 25) == VersionedRecord("20", 20, 30)
    assert driver.get_state_store("plain").get("a") == ("20", 20)


def test_store_of_a_versioned_table_is_versioned_and_not_cached(builder: StreamsBuilder) -> None:
    builder.table("prices", materialized=kept("store", store_type=StoreEngine.IN_MEMORY))

    spec: Any = builder.build().stores["store"].spec

    assert (spec.kind, spec.engine, spec.caching) == (
        VERSIONED,
        StoreEngine.IN_MEMORY,
        False,
    )
    assert spec.retention.segment_interval_ms == 2_000


def test_history_needs_a_name() -> None:
    with pytest.raises(TopologyError, match="give it a name="):
        Materialized(history_retention_ms=1)


def test_segments_need_a_history() -> None:
    with pytest.raises(TopologyError, match="goes with history_retention_ms"):
        Materialized(name="s", segment_interval_ms=1)


def test_history_that_makes_no_sense_is_refused() -> None:
    with pytest.raises(TopologyError, match="history_retention_ms must be 0 or more, not -1"):
        Materialized(name="s", history_retention_ms=-1)


@pytest.mark.parametrize(
    "option",
    [{"name": "s"}, {"store_type": StoreEngine.ROCKSDB}, {"history_retention_ms": 1}],
)
def test_supplier_stands_alone(option: dict[str, Any]) -> None:
    supplier = Stores.persistent_versioned_key_value_store("s", 1)

    with pytest.raises(TopologyError, match="leave one of them out"):
        Materialized(supplier=supplier, **option)


def test_supplier_must_be_one() -> None:
    with pytest.raises(TopologyError, match="made with Stores"):
        Materialized(supplier="prices")  # type: ignore[arg-type]
