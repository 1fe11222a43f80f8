"""Where streams come from, and how they are spread anew."""

# ruff: noqa: ARG005 - a lambda takes what the DSL gives it.

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from pystreams import Consumed, StreamsBuilder, TopologyError, wallclock_timestamp
from pystreams.serdes import INT, JSON, LONG, STRING, json_of
from pystreams.topology.graph.nodes import SinkNode, SourceNode


def sources_of(builder: StreamsBuilder) -> list[SourceNode]:
    nodes = builder.build().nodes.values()
    return [node for node in nodes if isinstance(node, SourceNode)]


def test_stream_reads_several_topics(builder: StreamsBuilder, drive: Any) -> None:
    builder.stream(["east", "west"]).to("out")
    driver = drive()

    driver.create_input_topic("east", STRING, STRING).pipe_input("a", "x")
    driver.create_input_topic("west", STRING, STRING).pipe_input("b", "y")

    assert driver.create_output_topic("out", STRING, STRING).read_values() == ["x", "y"]


@pytest.mark.parametrize("pattern", ["audit-.*", re.compile("audit-.*")])
def test_stream_reads_a_pattern(builder: StreamsBuilder, pattern: Any) -> None:
    builder.stream(pattern=pattern)

    (source,) = sources_of(builder)

    assert source.pattern == re.compile("audit-.*")


def test_options_of_a_stream_reach_its_source(builder: StreamsBuilder) -> None:
    builder.stream(
        "in",
        key_serde=INT,
        value_serde=LONG,
        timestamp_extractor=wallclock_timestamp,
        offset_reset="latest",
        name="read",
    )

    (source,) = sources_of(builder)

    assert source == SourceNode("read", ("in",), None, INT, LONG, wallclock_timestamp, "latest")


def test_options_may_be_given_as_an_object(builder: StreamsBuilder) -> None:
    builder.stream("in", consumed=Consumed(key_serde=INT, name="read"))

    (source,) = sources_of(builder)

    assert (source.name, source.key_serde) == ("read", INT)


def test_two_streams_of_one_topic_share_its_source(builder: StreamsBuilder) -> None:
    builder.stream("in").to("first")
    builder.stream("in").to("second")

    (source,) = sources_of(builder)

    assert len(builder.build().children(source.name)) == 2


def test_two_streams_of_one_pattern_share_its_source(builder: StreamsBuilder) -> None:
    builder.stream(pattern="in-.*")
    builder.stream(pattern="in-.*")

    assert len(sources_of(builder)) == 1


def test_building_twice_gives_the_same_topology(builder: StreamsBuilder) -> None:
    builder.stream("in").to("first")
    builder.stream("in").group_by(lambda key, value: value).count().to_stream().to("second")

    assert str(builder.build().describe()) == str(builder.build().describe())


def test_overlapping_topic_lists_are_refused(builder: StreamsBuilder) -> None:
    builder.stream(["a", "b"])
    builder.stream("a")

    with pytest.raises(TopologyError, match="overlapping but different topics"):
        builder.build()


@pytest.mark.parametrize(
    ("first", "second"), [("earliest", "latest"), ("earliest", None), (None, "latest")]
)
@pytest.mark.parametrize("read", [{"topics": "a"}, {"pattern": "a.*"}], ids=["topic", "pattern"])
def test_different_offset_resets_of_one_topic_are_refused(
    builder: StreamsBuilder, read: Any, first: Any, second: Any
) -> None:
    builder.stream(**read, offset_reset=first)
    builder.stream(**read, offset_reset=second)

    with pytest.raises(TopologyError, match=f"{first} and {second}"):
        builder.build()


@dataclass(frozen=True)
class Read:
    """A model that a topic is read as."""

    text: str


class Own:
    """A serde of the user's, without a name."""

    def serializer(self, topic: str) -> Callable[[str], bytes]:
        return str.encode

    def deserializer(self, topic: str) -> Callable[[bytes], str]:
        return bytes.decode


def own_time(record: Any, partition_time: int) -> int:
    return 77


@pytest.mark.parametrize("read", [{"topics": "a"}, {"pattern": "a.*"}], ids=["topic", "pattern"])
@pytest.mark.parametrize(
    ("first", "second", "told"),
    [
        ({"key_serde": STRING}, {"key_serde": LONG}, "key_serde (serdes.STRING and serdes.LONG)"),
        ({"value_serde": STRING}, {"value_serde": JSON}, "value_serde (serdes.STRING and serdes."),
        ({"value_serde": json_of(Read)}, {"value_serde": Own()}, "value_serde (serdes.json_of(Re"),
        (
            {"timestamp_extractor": own_time},
            {"timestamp_extractor": wallclock_timestamp},
            "timestamp_extractor (own_time and wallclock_timestamp)",
        ),
    ],
)
def test_what_only_the_first_read_of_a_topic_would_have_is_refused(
    builder: StreamsBuilder, read: Any, first: Any, second: Any, told: str
) -> None:
    builder.stream(**read, **first)
    builder.stream(**read, **second)

    with pytest.raises(TopologyError, match=rf"read 'a.*' with different {re.escape(told)}"):
        builder.build()


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({"value_serde": STRING}, {"value_serde": STRING}),
        ({"value_serde": STRING}, {}),
        ({}, {"value_serde": JSON}),
        ({"value_serde": json_of(Read)}, {"value_serde": json_of(Read)}),
        ({"key_serde": Own()}, {"key_serde": Own()}),
        ({"timestamp_extractor": own_time}, {"timestamp_extractor": own_time}),
        ({"timestamp_extractor": own_time}, {}),
        ({}, {"timestamp_extractor": own_time}),
    ],
)
def test_a_topic_may_be_read_again_in_the_same_way(
    builder: StreamsBuilder, first: Any, second: Any
) -> None:
    builder.stream("in", **first)
    builder.stream("in", **second)

    assert len(sources_of(builder)) == 1


def test_repartition_spreads_by_the_present_key(builder: StreamsBuilder, drive: Any) -> None:
    builder.stream("in").select_key(lambda key, value: value).repartition(name="spread").to("out")
    driver = drive()

    driver.create_input_topic("in", STRING, STRING).pipe_input("a", "x", 5)

    assert driver.produced_raw("app-spread-repartition") == [(b"x", b"x", 5, ())]
    assert driver.create_output_topic("out", STRING, STRING).read_key_values() == [("x", "x")]


def test_repartition_drops_records_without_a_key(builder: StreamsBuilder, drive: Any) -> None:
    builder.stream("in").repartition(name="spread").to("out")
    driver = drive()

    driver.create_input_topic("in", STRING, STRING).pipe_input(None, "x")

    assert driver.produced_topic_names() == set()


def test_number_of_partitions_reaches_the_topic(builder: StreamsBuilder) -> None:
    builder.stream("in").repartition(name="spread", num_partitions=7)

    (topic,) = builder.build().repartition_topics.values()

    assert (topic.name, topic.num_partitions) == ("spread-repartition", 7)


def test_grouping_after_a_repartition_needs_no_other(builder: StreamsBuilder) -> None:
    stream = builder.stream("in").select_key(lambda key, value: value).repartition(name="spread")
    stream.group_by_key().count()

    assert list(builder.build().repartition_topics) == ["spread-repartition"]


def test_grouping_of_an_unchanged_key_needs_no_repartition(builder: StreamsBuilder) -> None:
    stream = builder.stream("in").filter(lambda key, value: True).map_values(str).peek(print)
    stream.group_by_key().count()

    assert builder.build().repartition_topics == {}


def test_partitioner_reaches_the_sinks(builder: StreamsBuilder) -> None:
    def first(topic: str, key: Any, value: Any, count: int) -> int:
        return 0

    stream = builder.stream("in").repartition(name="spread", partitioner=first)
    stream.to("out", partitioner=first)

    sinks = [node for node in builder.build().nodes.values() if isinstance(node, SinkNode)]
    assert [sink.partitioner for sink in sinks] == [first, first]


def test_serdes_are_inherited_until_an_operation_changes_the_type(
    builder: StreamsBuilder,
) -> None:
    stream = builder.stream("in", key_serde=INT, value_serde=JSON)
    stream.filter(lambda key, value: True).to("same")
    stream.map_values(str).to("new-value")
    stream.select_key(lambda key, value: value).to("new-key")
    stream.map(lambda key, value: (value, key)).to("new-both")

    sinks = [node for node in builder.build().nodes.values() if isinstance(node, SinkNode)]
    assert [(sink.topic, sink.key_serde, sink.value_serde) for sink in sinks] == [
        ("same", INT, JSON),
        ("new-value", INT, None),
        ("new-key", None, JSON),
        ("new-both", None, None),
    ]


def test_grouping_inherits_the_serdes_it_is_not_given(builder: StreamsBuilder) -> None:
    stream = builder.stream("in", key_serde=INT, value_serde=JSON)
    stream.group_by(lambda key, value: "all", key_serde=STRING).count(name="counts")

    nodes = builder.build().nodes
    sink = nodes["counts-repartition-sink"]
    assert isinstance(sink, SinkNode)
    assert (sink.key_serde, sink.value_serde) == (STRING, JSON)
