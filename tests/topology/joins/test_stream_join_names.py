"""Names of what a join of two streams consists of: Kafka Streams' rules, number by number."""

# ruff: noqa: ARG005 - a lambda takes what the DSL gives it.

from __future__ import annotations

from typing import Any

import pytest

from pystreams import JoinWindows, KStream, Stores, StreamsBuilder, TopologyError
from pystreams.serdes import STRING
from pystreams.topology.plan.partition_plan import plan_partitions
from pystreams.topology.plan.topology_plan import TopologyPlan
from tests.topology.joins.joined_streams import Kind

AROUND = JoinWindows.of_time_difference_with_no_grace(100)


@pytest.fixture
def left(builder: StreamsBuilder) -> KStream[str, str]:
    return builder.stream("left", key_serde=STRING, value_serde=STRING)


@pytest.fixture
def right(builder: StreamsBuilder, left: KStream[str, str]) -> KStream[str, str]:
    return builder.stream("right", key_serde=STRING, value_serde=STRING)


def join(kind: Kind, one: KStream[str, str], other: KStream[str, str], **options: Any) -> Any:
    return getattr(one, kind)(other, lambda a, b: f"{a}{b}", AROUND, **options)


GENERATED = {
    "join": ("JOINTHIS", "JOINOTHER"),
    "left_join": ("JOINTHIS", "OUTEROTHER"),
    "outer_join": ("OUTERTHIS", "OUTEROTHER"),
}
SUFFIXES = {
    "join": ("-this-join", "-other-join"),
    "left_join": ("-this-join", "-outer-other-join"),
    "outer_join": ("-outer-this-join", "-outer-other-join"),
}


@pytest.mark.parametrize("kind", GENERATED)
def test_five_numbers_are_used_up_and_stores_are_named_after_the_joins(
    kind: Kind, builder: StreamsBuilder, left: KStream[str, str], right: KStream[str, str]
) -> None:
    join(kind, left, right).to("out")
    topology = builder.build()

    this, other = (f"KSTREAM-{name}-000000000{n}" for n, name in enumerate(GENERATED[kind], 4))
    assert list(topology.nodes)[2:] == [
        "KSTREAM-WINDOWED-0000000002",
        "KSTREAM-WINDOWED-0000000003",
        this,
        other,
        "KSTREAM-MERGE-0000000006",
        "KSTREAM-SINK-0000000007",
    ]
    shared = [] if kind == "join" else ["KSTREAM-OUTERSHARED-0000000004-store"]
    assert list(topology.stores) == [f"{this}-store", f"{other}-store", *shared]


@pytest.mark.parametrize("kind", GENERATED)
def test_a_name_is_the_nodes_and_a_store_name_the_stores(
    kind: Kind, builder: StreamsBuilder, left: KStream[str, str], right: KStream[str, str]
) -> None:
    join(kind, left, right, name="pairs", store_name="kept").to("out")
    topology = builder.build()

    this, other = SUFFIXES[kind]
    assert list(topology.nodes)[2:] == [
        "pairs-this-windowed",
        "pairs-other-windowed",
        f"pairs{this}",
        f"pairs{other}",
        "pairs-merge",
        "KSTREAM-SINK-0000000007",
    ]
    shared = {
        "join": [],
        "left_join": ["kept-left-shared-join-store"],
        "outer_join": ["kept-outer-shared-join-store"],
    }
    assert list(topology.stores) == [f"kept{this}-store", f"kept{other}-store", *shared[kind]]


def test_a_name_without_a_store_name_leaves_the_stores_their_generated_ones(
    builder: StreamsBuilder, left: KStream[str, str], right: KStream[str, str]
) -> None:
    join("left_join", left, right, name="pairs")

    assert list(builder.build().stores) == [
        "KSTREAM-JOINTHIS-0000000004-store",
        "KSTREAM-OUTEROTHER-0000000005-store",
        "KSTREAM-OUTERSHARED-0000000004-store",
    ]


def test_a_supplier_s_name_comes_before_a_store_name(
    builder: StreamsBuilder, left: KStream[str, str], right: KStream[str, str]
) -> None:
    supplier = Stores.in_memory_window_store("mine", 200, 200, retain_duplicates=True)
    join("outer_join", left, right, store_name="kept", this_store_supplier=supplier)

    assert list(builder.build().stores) == [
        "mine",
        "kept-outer-other-join-store",
        "mine-outer-shared-join-store",
    ]


def test_a_stream_whose_key_was_changed_repartitions_once_for_all_joins_without_a_name(
    builder: StreamsBuilder, left: KStream[str, str], right: KStream[str, str]
) -> None:
    mapped = left.map(lambda key, value: (value, key))
    join("join", mapped, right)
    join("left_join", mapped, right)

    assert list(builder.build().repartition_topics) == ["KSTREAM-MAP-0000000002-repartition"]


def test_named_joins_repartition_each_for_itself(
    builder: StreamsBuilder, left: KStream[str, str], right: KStream[str, str]
) -> None:
    one, other = (stream.map(lambda key, value: (value, key)) for stream in (left, right))
    join("join", one, other, name="first")
    join("join", one, other, name="second")

    assert list(builder.build().repartition_topics) == [
        "first-left-repartition",
        "first-right-repartition",
        "second-left-repartition",
        "second-right-repartition",
    ]


@pytest.mark.parametrize(("kind", "dropped"), [("join", True), ("left_join", False)])
def test_null_keys_are_kept_by_a_repartition_before_a_join_that_wants_them(
    kind: Kind,
    dropped: bool,
    builder: StreamsBuilder,
    left: KStream[str, str],
    right: KStream[str, str],
    drive: Any,
) -> None:
    keyless: KStream[Any, str] = left.select_key(lambda key, value: None)
    join(kind, keyless, right, key_serde=STRING).to("out", value_serde=STRING)
    driver = drive()
    driver.create_input_topic("left", STRING, STRING).pipe_input("k", "A")

    values = driver.create_output_topic("out", STRING, STRING).read_values()
    assert values == ([] if dropped else ["ANone"])


def test_topics_of_both_streams_have_equal_numbers_of_partitions(
    builder: StreamsBuilder, left: KStream[str, str], right: KStream[str, str]
) -> None:
    join("outer_join", left, right)

    sources = {"KSTREAM-SOURCE-0000000000", "KSTREAM-SOURCE-0000000001"}
    (group,) = builder.build().copartition_groups
    assert group.sources == sources


def test_a_join_is_one_sub_topology_of_both_streams(
    builder: StreamsBuilder, left: KStream[str, str], right: KStream[str, str]
) -> None:
    join("outer_join", left, right).to("out")

    [part] = TopologyPlan(builder.build(), "app").subtopologies
    assert len(part.nodes) == 8
    assert len(part.stores) == 3


def test_topics_with_other_numbers_of_partitions_are_refused_with_the_joins_name(
    builder: StreamsBuilder, left: KStream[str, str], right: KStream[str, str]
) -> None:
    join("join", left, right, name="pairs")
    plan = TopologyPlan(builder.build(), "app")

    with pytest.raises(TopologyError, match=r"'pairs-merge' \(join at .*can't join .*'left' has 3"):
        plan_partitions(plan, {"left": 3, "right": 2})
