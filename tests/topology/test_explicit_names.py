"""`ensure.explicit.internal.resource.naming`: generated names of what keeps state are refused."""

from __future__ import annotations

import pytest

from pystreams import JoinWindows, KafkaStreams, StreamsBuilder, Topology, TopologyError, serdes

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


def test_each_generated_name_is_told_with_the_users_line() -> None:
    with pytest.raises(TopologyError) as refused:
        KafkaStreams(joined(named=False), NAMED)

    lines = [line for line in str(refused.value).splitlines() if line.startswith("  ")]
    assert [line.split(" (")[0].strip() for line in lines] == [
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
