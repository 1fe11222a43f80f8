"""`ensure.explicit.internal.resource.naming`: generated names of what keeps state are refused.

Source of the cases: Kafka's `StreamsBuilderTest`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from pystreams import (
    BufferConfig,
    JoinWindows,
    KafkaStreams,
    Materialized,
    Stores,
    StreamsBuilder,
    Suppressed,
    TimeWindows,
    Topology,
    TopologyError,
    serdes,
)

CONFIG = {
    "application.id": "app",
    "bootstrap.servers": "none:1",
    "default.key.serde": "string",
    "default.value.serde": "string",
}
NAMED = {**CONFIG, "ensure.explicit.internal.resource.naming": True}


def joined(*, named: bool) -> Topology:
    builder = StreamsBuilder()
    left, right = (builder.stream(topic) for topic in ("left", "right"))
    name = "pairs" if named else None
    pairs = left.select_key(lambda _, value: value, key_serde=serdes.STRING).join(
        right,
        lambda a, b: a + b,
        JoinWindows.of_time_difference_with_no_grace(1000),
        name=name,
        store_name=name,
    )
    grouped = pairs.group_by(lambda _, value: value, key_serde=serdes.STRING)
    if named:
        grouped = pairs.group_by(lambda _, value: value, key_serde=serdes.STRING, name="by-value")
    grouped.count(name="counts" if named else None)
    return builder.build()


def refused(topology: Topology) -> list[str]:
    """Return the lines that tell of generated names; none when the topology is taken."""
    try:
        KafkaStreams(topology, NAMED)
    except TopologyError as error:
        lines = str(error).splitlines()
        return [line.strip() for line in lines if line.startswith("  ")]
    return []


def test_each_generated_name_is_told_with_the_users_line() -> None:
    lines = refused(joined(named=False))

    assert [line.split(" (")[0] for line in lines] == [
        "store and changelog KSTREAM-JOINTHIS-0000000008-store",
        "store and changelog KSTREAM-JOINOTHER-0000000009-store",
        "store and changelog KSTREAM-AGGREGATE-STATE-STORE-0000000013",
        "repartition topic KSTREAM-KEY-SELECT-0000000002-repartition",
        "repartition topic KSTREAM-AGGREGATE-STATE-STORE-0000000013-repartition",
    ]
    assert all("test_explicit_names.py:" in line for line in lines)


def test_a_topology_whose_user_named_all_that_keeps_state_runs() -> None:
    KafkaStreams(joined(named=True), NAMED)


def test_generated_names_are_allowed_unless_asked_for() -> None:
    KafkaStreams(joined(named=False), CONFIG)


def test_a_table_that_is_never_kept_needs_no_name() -> None:
    builder = StreamsBuilder()
    builder.table("rows").to_stream().to("out")

    KafkaStreams(builder.build(), NAMED)


# ---------------------------------------------------------------------- operation by operation


Given = Mapping[str, Any]
HOUR_MS = 3_600_000
STRING = serdes.STRING


def grouped_by_value(builder: StreamsBuilder, before: Given, kept: Given) -> None:
    grouped = builder.stream("one").group_by(lambda _, value: value, key_serde=STRING, **before)
    grouped.count(materialized=Materialized(**kept))


def grouped_by_key(builder: StreamsBuilder, before: Given, kept: Given) -> None:
    keyed = builder.stream("one").select_key(lambda _, value: value, key_serde=STRING)
    keyed.group_by_key(**before).count(materialized=Materialized(**kept))


def cogrouped(builder: StreamsBuilder, before: Given, kept: Given) -> None:
    one = builder.stream("one").group_by(lambda _, value: value, key_serde=STRING, **before)
    two = builder.stream("two").group_by_key()
    both = one.cogroup(lambda _, value, known: known + value)
    both.cogroup(two, lambda _, value, known: known + value).aggregate(str, **kept)


def left_joined(builder: StreamsBuilder, before: Given, kept: Given) -> None:
    streams = [builder.stream(topic) for topic in ("one", "two")]
    one, two = (each.select_key(lambda _, value: value, key_serde=STRING) for each in streams)
    windows = JoinWindows.of_time_difference_with_no_grace(HOUR_MS)
    one.left_join(two, lambda left, _: left, windows, **before, **kept)


def joined_with_a_table(builder: StreamsBuilder, before: Given, kept: Given) -> None:
    one, table = builder.stream("one"), builder.table("two", materialized=Materialized(**kept))
    keyed = one.select_key(lambda _, value: value, key_serde=STRING)
    keyed.join(table, lambda left, _: left, **before)


def joined_as_of_its_time(builder: StreamsBuilder, before: Given, kept: Given) -> None:
    history: Materialized[str, str] = Materialized("rows", history_retention_ms=24 * HOUR_MS)
    one, table = builder.stream("one"), builder.table("two", materialized=history)
    keyed = one.select_key(lambda _, value: value, key_serde=STRING)
    keyed.join(table, lambda left, _: left, grace_period_ms=HOUR_MS, **before, **kept)


def joined_with_a_global_table(builder: StreamsBuilder, before: Given, kept: Given) -> None:
    one, table = (
        builder.stream("one"),
        builder.global_table("two", materialized=Materialized(**kept)),
    )
    keyed = one.select_key(lambda _, value: value, key_serde=STRING)
    keyed.join(table, lambda key, _: key, lambda left, _: left)


def repartitioned(builder: StreamsBuilder, before: Given, kept: Given) -> None:
    builder.stream("one").repartition(**before)


def suppressed(builder: StreamsBuilder, before: Given, kept: Given) -> None:
    windows = TimeWindows.of_size_with_no_grace(HOUR_MS)
    counts = builder.stream("one").group_by_key().windowed_by(windows).count(name="counts")
    buffer = BufferConfig.unbounded()
    if not kept.get("logging", True):
        buffer = buffer.with_logging_disabled()
    held = Suppressed.until_window_closes(buffer)
    counts.suppress(held.with_name(kept["name"]) if "name" in kept else held)


AGGREGATE = "KSTREAM-AGGREGATE-STATE-STORE-0000000003"
COGROUP = "COGROUPKSTREAM-AGGREGATE-STATE-STORE-0000000003"
JOIN_STORES = (
    "KSTREAM-JOINTHIS-0000000012-store",
    "KSTREAM-OUTEROTHER-0000000013-store",
    "KSTREAM-OUTERSHARED-0000000012-store",
)
SUPPRESS = "KTABLE-SUPPRESS-STATE-STORE-0000000003"
TABLE = "two-STATE-STORE-0000000001"
UNNAMED: Given = {}
NAME: Given = {"name": "given"}
STORE_NAME: Given = {"store_name": "given-stores"}
UNLOGGED: Given = {"logging": False}


def logged(*stores: str) -> list[str]:
    return [f"store and changelog {store}" for store in stores]


def unlogged(*stores: str) -> list[str]:
    return [f"store {store}" for store in stores]


def repartition(*names: str) -> list[str]:
    return [f"repartition topic {name}-repartition" for name in names]


@pytest.mark.parametrize(
    ("declare", "before", "kept", "told"),
    [
        (grouped_by_value, NAME, UNNAMED, logged(AGGREGATE)),
        (grouped_by_value, NAME, UNLOGGED, unlogged(AGGREGATE)),
        (grouped_by_value, UNNAMED, NAME, []),
        (grouped_by_value, NAME, NAME, []),
        (grouped_by_value, UNNAMED, UNNAMED, logged(AGGREGATE) + repartition(AGGREGATE)),
        (grouped_by_key, NAME, UNNAMED, logged(AGGREGATE)),
        (grouped_by_key, NAME, UNLOGGED, unlogged(AGGREGATE)),
        (grouped_by_key, UNNAMED, NAME, []),
        (grouped_by_key, NAME, NAME, []),
        (grouped_by_key, UNNAMED, UNNAMED, logged(AGGREGATE) + repartition(AGGREGATE)),
        (cogrouped, NAME, UNNAMED, logged(COGROUP)),
        (cogrouped, NAME, UNLOGGED, unlogged(COGROUP)),
        (cogrouped, UNNAMED, NAME, []),
        (cogrouped, NAME, NAME, []),
        (cogrouped, UNNAMED, UNNAMED, logged(COGROUP) + repartition(COGROUP)),
        (left_joined, NAME, UNNAMED, logged(*JOIN_STORES)),
        (left_joined, NAME, UNLOGGED, unlogged(*JOIN_STORES)),
        (
            left_joined,
            UNNAMED,
            STORE_NAME,
            repartition("KSTREAM-KEY-SELECT-0000000002", "KSTREAM-KEY-SELECT-0000000003"),
        ),
        (left_joined, NAME, STORE_NAME, []),
        (
            left_joined,
            UNNAMED,
            UNNAMED,
            logged(*JOIN_STORES)
            + repartition("KSTREAM-KEY-SELECT-0000000002", "KSTREAM-KEY-SELECT-0000000003"),
        ),
        (joined_with_a_table, NAME, UNNAMED, logged(TABLE)),
        (joined_with_a_table, NAME, UNLOGGED, unlogged(TABLE)),
        (joined_with_a_table, UNNAMED, NAME, repartition("KSTREAM-KEY-SELECT-0000000003")),
        (joined_with_a_table, NAME, NAME, []),
        (
            joined_with_a_table,
            UNNAMED,
            UNNAMED,
            logged(TABLE) + repartition("KSTREAM-KEY-SELECT-0000000004"),
        ),
        (joined_as_of_its_time, NAME, UNNAMED, []),
        (
            joined_as_of_its_time,
            UNNAMED,
            UNNAMED,
            logged("KSTREAM-JOIN-0000000007-Buffer") + repartition("KSTREAM-KEY-SELECT-0000000003"),
        ),
        (joined_with_a_global_table, UNNAMED, NAME, []),
        (joined_with_a_global_table, UNNAMED, UNNAMED, unlogged(TABLE)),
        (repartitioned, NAME, UNNAMED, []),
        (repartitioned, UNNAMED, UNNAMED, repartition("KSTREAM-REPARTITION-0000000001")),
        (suppressed, UNNAMED, NAME, []),
        (suppressed, UNNAMED, UNNAMED, logged(SUPPRESS)),
    ],
)
def test_what_was_not_named_is_told_and_nothing_else(
    declare: Callable[[StreamsBuilder, Given, Given], None],
    before: Given,
    kept: Given,
    told: list[str],
) -> None:
    builder = StreamsBuilder()
    declare(builder, before, kept)

    assert [line.split(" (")[0] for line in refused(builder.build())] == told


def test_a_suppression_without_a_changelog_needs_a_name_for_what_is_on_disk() -> None:
    builder = StreamsBuilder()
    suppressed(builder, UNNAMED, UNLOGGED)

    assert [line.split(" (")[0] for line in refused(builder.build())] == unlogged(SUPPRESS)


def as_generated(name: str) -> Given:
    """Name an operation as it would be named without."""
    return {"name": name}


@pytest.mark.parametrize(
    ("declare", "before", "kept"),
    [
        (grouped_by_value, UNNAMED, as_generated(AGGREGATE)),
        (grouped_by_value, as_generated(AGGREGATE), NAME),
        (grouped_by_key, UNNAMED, as_generated(AGGREGATE)),
        (cogrouped, UNNAMED, as_generated(COGROUP)),
        (left_joined, NAME, {"store_name": "KSTREAM-JOINTHIS-0000000012"}),
        (left_joined, as_generated("KSTREAM-KEY-SELECT-0000000002"), STORE_NAME),
        (joined_with_a_table, NAME, as_generated(TABLE)),
        (joined_with_a_global_table, UNNAMED, as_generated(TABLE)),
        (joined_as_of_its_time, as_generated("KSTREAM-JOIN-0000000007"), UNNAMED),
        (repartitioned, as_generated("KSTREAM-REPARTITION-0000000001"), UNNAMED),
        (suppressed, UNNAMED, as_generated("KTABLE-SUPPRESS-STATE-STORE-0000000003")),
    ],
)
def test_a_name_that_the_user_has_given_may_look_like_a_generated_one(
    declare: Callable[[StreamsBuilder, Given, Given], None], before: Given, kept: Given
) -> None:
    builder = StreamsBuilder()
    declare(builder, before, kept)

    assert refused(builder.build()) == []


def test_stores_of_a_join_that_bring_their_names_may_look_generated() -> None:
    builder = StreamsBuilder()
    left, right = (builder.stream(topic) for topic in ("one", "two"))
    this, other = (
        Stores.persistent_window_store(name, 2 * HOUR_MS, 2 * HOUR_MS, retain_duplicates=True)
        for name in ("KSTREAM-JOINTHIS-0000000004-store", "KSTREAM-JOINOTHER-0000000005-store")
    )
    windows = JoinWindows.of_time_difference_with_no_grace(HOUR_MS)
    left.join(
        right, lambda a, b: a + b, windows, this_store_supplier=this, other_store_supplier=other
    )

    assert refused(builder.build()) == []


def test_a_store_that_the_user_has_built_has_the_users_name() -> None:
    builder = StreamsBuilder()
    supplier = Stores.persistent_key_value_store(AGGREGATE)
    builder.add_state_store(Stores.key_value_store_builder(supplier, STRING, STRING))

    assert refused(builder.build()) == []
