"""Names of nodes, stores and topics: Kafka Streams' rules, number by number."""

# ruff: noqa: ARG005 - a lambda takes what the DSL gives it.

from __future__ import annotations

from typing import Any

import pytest

from pystreams import FixedKeyProcessor, Processor, StreamsBuilder, Topology
from pystreams.serdes import STRING
from pystreams.topology.graph.nodes import SinkNode, SourceNode


def anything(*arguments: Any) -> Any:
    """Stand in for any function."""


def repartition_nodes(topology: Topology) -> list[str]:
    """Names of the nodes around the one repartition topic: filter, sink, source."""
    (topic,) = topology.repartition_topics
    sink = next(
        node
        for node in topology.nodes.values()
        if isinstance(node, SinkNode) and node.topic == topic
    )
    source = next(
        node
        for node in topology.nodes.values()
        if isinstance(node, SourceNode) and topic in node.topics
    )
    return [*sink.parents, sink.name, source.name]


def test_nodes_are_numbered_in_order_of_declaration(builder: StreamsBuilder) -> None:
    stream = builder.stream("in")
    stream.filter(lambda key, value: True).map_values(str).to("out")

    assert list(builder.build().nodes) == [
        "KSTREAM-SOURCE-0000000000",
        "KSTREAM-FILTER-0000000001",
        "KSTREAM-MAPVALUES-0000000002",
        "KSTREAM-SINK-0000000003",
    ]


def test_a_given_name_uses_up_a_number_all_the_same(builder: StreamsBuilder) -> None:
    builder.stream("in", name="read").filter(lambda key, value: True, name="some").to("out")

    assert list(builder.build().nodes) == ["read", "some", "KSTREAM-SINK-0000000002"]


def test_a_given_name_of_a_processor_uses_up_none(builder: StreamsBuilder) -> None:
    """One of the places where Kafka is not like everywhere else."""
    builder.stream("in").process(Processor, name="mine").to("out")

    assert list(builder.build().nodes)[-1] == "KSTREAM-SINK-0000000001"


@pytest.mark.parametrize(
    ("operation", "name"),
    [
        (lambda s: s.filter_not(anything), "KSTREAM-FILTER-0000000001"),
        (lambda s: s.map(anything), "KSTREAM-MAP-0000000001"),
        (lambda s: s.flat_map(anything), "KSTREAM-FLATMAP-0000000001"),
        (lambda s: s.flat_map_values(anything), "KSTREAM-FLATMAPVALUES-0000000001"),
        (lambda s: s.select_key(anything), "KSTREAM-KEY-SELECT-0000000001"),
        (lambda s: s.peek(anything), "KSTREAM-PEEK-0000000001"),
        (lambda s: s.foreach(anything), "KSTREAM-FOREACH-0000000001"),
        (lambda s: s.print(), "KSTREAM-PRINTER-0000000001"),
        (lambda s: s.merge(s), "KSTREAM-MERGE-0000000001"),
        (lambda s: s.split(), "KSTREAM-BRANCH-0000000001"),
        (lambda s: s.to_table(), "KSTREAM-TOTABLE-0000000001"),
        (lambda s: s.process(Processor), "KSTREAM-PROCESSOR-0000000001"),
        (lambda s: s.process_values(FixedKeyProcessor), "KSTREAM-PROCESSVALUES-0000000001"),
        (lambda s: s.repartition(), "KSTREAM-FILTER-0000000003"),
        (lambda s: s.group_by_key().count(), "KSTREAM-AGGREGATE-0000000002"),
        (lambda s: s.group_by_key().count(name="c"), "KSTREAM-AGGREGATE-0000000001"),
        (lambda s: s.group_by_key().count(value_serde=STRING), "KSTREAM-AGGREGATE-0000000003"),
        (lambda s: s.group_by_key().reduce(anything), "KSTREAM-REDUCE-0000000002"),
        (lambda s: s.group_by_key().aggregate(anything, anything), "KSTREAM-AGGREGATE-0000000002"),
        (lambda s: s.to_table().filter(anything), "KTABLE-FILTER-0000000003"),
        (lambda s: s.to_table().filter(anything, key_serde=STRING), "KTABLE-FILTER-0000000004"),
        (lambda s: s.to_table().map_values(anything), "KTABLE-MAPVALUES-0000000003"),
        (lambda s: s.to_table().to_stream(), "KTABLE-TOSTREAM-0000000003"),
        (lambda s: s.to_table().group_by(anything), "KTABLE-SELECT-0000000003"),
    ],
)
def test_each_operation_has_its_prefix_and_takes_its_numbers(
    builder: StreamsBuilder, operation: Any, name: str
) -> None:
    operation(builder.stream("in"))

    assert name in builder.build().nodes


def test_table_is_two_nodes_and_its_store_is_named_after_the_topic(
    builder: StreamsBuilder,
) -> None:
    table = builder.table("customers")
    builder.stream("orders").join(table, lambda order, customer: order)

    topology = builder.build()

    assert list(topology.nodes)[:2] == ["KSTREAM-SOURCE-0000000001", "KTABLE-SOURCE-0000000002"]
    assert list(topology.stores) == ["customers-STATE-STORE-0000000000"]


def test_named_table_names_its_store(builder: StreamsBuilder) -> None:
    table = builder.table("customers", name="by-id")

    topology = builder.build()

    assert table.queryable_store_name == "by-id"
    assert list(topology.stores) == ["by-id"]
    assert list(topology.nodes) == ["KSTREAM-SOURCE-0000000000", "KTABLE-SOURCE-0000000001"]


def test_repartition_after_an_unnamed_aggregation_is_named_after_the_store(
    builder: StreamsBuilder,
) -> None:
    builder.stream("in").group_by(lambda key, value: value).count()

    topology = builder.build()

    assert list(topology.repartition_topics) == [
        "KSTREAM-AGGREGATE-STATE-STORE-0000000002-repartition"
    ]
    assert repartition_nodes(topology) == [
        "KSTREAM-FILTER-0000000005",
        "KSTREAM-SINK-0000000004",
        "KSTREAM-SOURCE-0000000006",
    ]


def test_repartition_of_a_named_aggregation_is_named_after_it(builder: StreamsBuilder) -> None:
    builder.stream("in").group_by(lambda key, value: value).count(name="counts")

    assert repartition_nodes(builder.build()) == [
        "counts-repartition-filter",
        "counts-repartition-sink",
        "counts-repartition-source",
    ]


def test_repartition_of_a_named_grouping_is_named_after_that(builder: StreamsBuilder) -> None:
    builder.stream("in").group_by(lambda key, value: value, name="by-value").count(name="counts")

    topology = builder.build()

    assert list(topology.repartition_topics) == ["by-value-repartition"]
    assert "by-value" in topology.nodes


def test_repartition_before_a_join_is_named_after_the_stream(builder: StreamsBuilder) -> None:
    table = builder.table("customers")
    builder.stream("orders").select_key(lambda key, value: value).join(table, lambda a, b: a)

    assert list(builder.build().repartition_topics) == ["KSTREAM-KEY-SELECT-0000000004-repartition"]


def test_two_aggregations_of_one_named_grouping_share_its_topic(builder: StreamsBuilder) -> None:
    grouped = builder.stream("in").group_by(lambda key, value: value, name="by-value")
    grouped.count()
    grouped.reduce(max)

    topology = builder.build()

    assert list(topology.repartition_topics) == ["by-value-repartition"]
    assert len(topology.children("by-value-repartition-source")) == 2


def test_two_aggregations_of_one_unnamed_grouping_have_a_topic_each(
    builder: StreamsBuilder,
) -> None:
    grouped = builder.stream("in").group_by(lambda key, value: value)
    grouped.count()
    grouped.reduce(max)

    assert len(builder.build().repartition_topics) == 2


def test_two_joins_of_one_stream_share_its_repartition(builder: StreamsBuilder) -> None:
    table = builder.table("customers")
    stream = builder.stream("orders").select_key(lambda key, value: value)
    stream.join(table, lambda a, b: a)
    stream.left_join(table, lambda a, b: a)

    assert len(builder.build().repartition_topics) == 1


def test_regrouped_table_names_sink_and_source_by_number(builder: StreamsBuilder) -> None:
    builder.table("homes").group_by(lambda key, value: (value, key)).count()

    assert list(builder.build().nodes)[-4:] == [
        "KTABLE-SELECT-0000000003",
        "KSTREAM-SINK-0000000005",
        "KSTREAM-SOURCE-0000000006",
        "KTABLE-AGGREGATE-0000000007",
    ]


def test_branches_are_named_after_the_split(builder: StreamsBuilder) -> None:
    split = builder.stream("in").split(name="size-").branch(lambda key, value: True)

    branches = split.branch(lambda key, value: True, name="big").default_branch()

    assert list(branches) == ["size-1", "size-big", "size-0"]


def test_split_without_a_name_begins_its_branches_with_its_own(builder: StreamsBuilder) -> None:
    branches = builder.stream("in").split().branch(lambda key, value: True).default_branch()

    assert list(branches) == ["KSTREAM-BRANCH-00000000011", "KSTREAM-BRANCH-00000000010"]


def test_description_is_kafka_streams_text(builder: StreamsBuilder) -> None:
    builder.stream("in").group_by_key().count(name="counts").to_stream().to("out")

    assert str(builder.build().describe()) == (
        "Topologies:\n"
        "   Sub-topology: 0\n"
        "    Source: KSTREAM-SOURCE-0000000000 (topics: [in])\n"
        "      --> KSTREAM-AGGREGATE-0000000001\n"
        "    Processor: KSTREAM-AGGREGATE-0000000001 (stores: [counts])\n"
        "      --> KTABLE-TOSTREAM-0000000002\n"
        "      <-- KSTREAM-SOURCE-0000000000\n"
        "    Processor: KTABLE-TOSTREAM-0000000002 (stores: [])\n"
        "      --> KSTREAM-SINK-0000000003\n"
        "      <-- KSTREAM-AGGREGATE-0000000001\n"
        "    Sink: KSTREAM-SINK-0000000003 (topic: out)\n"
        "      <-- KTABLE-TOSTREAM-0000000002\n\n"
    )
