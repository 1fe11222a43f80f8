"""What `topology.optimization` leaves as it is declared, and how it is asked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pystreams import (
    ConfigError,
    FixedKeyProcessor,
    JoinWindows,
    KStream,
    Processor,
    ProcessorContext,
    Record,
    StreamsBuilder,
    StreamsConfig,
    Topology,
    TopologyError,
    serdes,
)
from pystreams.testing import TopologyTestDriver

ALL = {"topology.optimization": "all"}
TEN_MS = JoinWindows.of_time_difference_with_no_grace(10)
LATER = JoinWindows.of_time_difference_and_grace(10, 100).before(-5)
STRINGS: Any = {"key_serde": serdes.STRING, "value_serde": serdes.STRING}
Declare = Callable[[KStream[Any, Any], StreamsBuilder], KStream[Any, Any]]


class Nothing(Processor[Any, Any, Any, Any]):
    """Forwards nothing."""

    def process(self, record: Any) -> None:
        pass


def merged_with_another(stream: KStream[Any, Any], builder: StreamsBuilder) -> KStream[Any, Any]:
    other: KStream[Any, Any] = builder.stream("other")
    return stream.merge(other)


@pytest.mark.parametrize(
    "between",
    [
        lambda stream, _: stream.process(Nothing),
        lambda stream, _: stream.process_values(Nothing),
        lambda stream, _: stream.map_values(str),
        merged_with_another,
    ],
)
def test_repartitions_of_other_records_than_those_with_the_new_key_are_not_merged(
    between: Declare,
) -> None:
    """Else results would have keys that are elsewhere, or values that no serde fits."""
    builder = StreamsBuilder()
    keyed: KStream[Any, Any] = builder.stream("in").select_key(lambda _, value: value)
    keyed.group_by_key(name="first").count()
    keyed.group_by_key(name="second").count()
    between(keyed, builder).group_by_key(name="third").count()

    topics = builder.build(ALL).repartition_topics
    assert set(topics) == {"first-repartition", "third-repartition"}


class Lengths(FixedKeyProcessor[str, str, int]):
    """Makes each value its length."""

    def init(self, context: ProcessorContext[str, int]) -> None:
        self.context = context

    def process(self, record: Record[str, str]) -> None:
        self.context.forward(record.with_value(len(record.value)))


@pytest.mark.parametrize("config", [{}, ALL])
def test_a_value_is_written_to_the_repartition_topic_as_what_it_has_become(
    config: dict[str, str],
) -> None:
    builder = StreamsBuilder()
    upper = builder.stream("in", **STRINGS).map(lambda key, value: (key.upper(), value))
    grouped = upper.process_values(Lengths).group_by_key(
        key_serde=serdes.STRING, value_serde=serdes.LONG
    )
    grouped.reduce(lambda before, length: before + length).to_stream().to("out")

    with TopologyTestDriver(builder.build(config), config) as driver:
        topic = driver.create_input_topic("in", serdes.STRING, serdes.STRING)
        for key, value in (("a", "one"), ("A", "three"), ("b", "four")):
            topic.pipe_input(key, value)
        out = driver.create_output_topic("out", serdes.STRING, serdes.LONG)
        assert out.read_key_values() == [("A", 3), ("A", 8), ("B", 4)]


def test_repartitions_behind_one_operation_are_merged() -> None:
    builder = StreamsBuilder()
    keyed: KStream[Any, Any] = builder.stream("in").select_key(lambda _, value: value)
    kept = keyed.filter(lambda _key, _value: True)
    kept.group_by_key(name="first").count()
    kept.group_by_key(name="second").count()

    assert set(builder.build(ALL).repartition_topics) == {"first-repartition"}
    assert len(builder.build().repartition_topics) == 2


@pytest.mark.parametrize("config", [{}, ALL])
def test_a_table_that_is_made_of_a_repartition_topic_has_a_changelog_of_its_own(
    config: dict[str, str],
) -> None:
    builder = StreamsBuilder()
    builder.stream("in", **STRINGS).repartition(name="spread").to_table(name="store")

    with TopologyTestDriver(builder.build(config), {"application.id": "app", **config}) as driver:
        driver.create_input_topic("in", serdes.STRING, serdes.STRING).pipe_input("a", "x")
        topics = driver.produced_topic_names()
    assert topics == {"app-spread-repartition", "app-store-changelog"}


def joined(kind: str, windows: JoinWindows) -> StreamsBuilder:
    builder = StreamsBuilder()
    stream = builder.stream("in", **STRINGS)
    getattr(stream, kind)(stream, lambda left, right: f"{left}{right}", windows=windows).to(
        "out", **STRINGS
    )
    return builder


@pytest.mark.parametrize(
    ("kind", "windows"),
    [("left_join", TEN_MS), ("outer_join", TEN_MS), ("join", LATER)],
)
def test_self_joins_that_one_store_would_change_have_two(kind: str, windows: JoinWindows) -> None:
    """A record without a key is joined with None; one that is never its own partner is not."""
    builder = joined(kind, windows)
    records = {}
    for name, config in {"as declared": {}, "optimized": ALL}.items():
        with TopologyTestDriver(builder.build(config), config) as driver:
            topic = driver.create_input_topic("in", serdes.STRING, serdes.STRING)
            for key, value, time in (("a", "1", 100), (None, "2", 101), ("a", "3", 107)):
                topic.pipe_input(key, value, time)
            found = driver.create_output_topic("out", serdes.STRING, serdes.STRING).read_records()
        records[name] = [(record.key, record.value, record.timestamp) for record in found]

    assert records["optimized"] == records["as declared"] != []


def test_a_topology_that_was_built_without_what_is_configured_is_refused() -> None:
    builder = joined("join", TEN_MS)

    with pytest.raises(TopologyError, match=r"give the configuration to builder\.build\(config\)"):
        TopologyTestDriver(builder.build(), ALL)
    for config in (
        ALL,
        {"topology_optimization": "all"},
        {"topology": {"optimization": "all"}},
        StreamsConfig.of({**ALL, "application.id": "a", "bootstrap.servers": "b:1"}),
    ):
        TopologyTestDriver(builder.build(config), ALL).close()
    TopologyTestDriver(builder.build(ALL)).close()


def test_a_topology_made_by_hand_is_what_it_is() -> None:
    topology = (
        Topology()
        .add_source("source", "in", **STRINGS)
        .add_sink("sink", "out", "source", **STRINGS)
    )

    TopologyTestDriver(topology, ALL).close()


def test_what_is_no_configuration_is_refused() -> None:
    wrong: Any = "topology.optimization"
    with pytest.raises(ConfigError, match="a configuration is a mapping of names to values"):
        StreamsBuilder().build(wrong)


def test_an_unknown_optimization_is_refused() -> None:
    with pytest.raises(ConfigError, match="none, all, or some of reuse"):
        StreamsBuilder().build({"topology.optimization": "most"})
