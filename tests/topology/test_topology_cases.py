"""Topologies of the Processor API: what is refused, and how nodes fall into sub-topologies.

Source: Kafka's `TopologyTest`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from pystreams import Processor, ProcessorContext, Record, Stores, Topology, TopologyError
from pystreams.serdes import STRING
from pystreams.testing import TopologyTestDriver


class Idle(Processor[Any, Any, Any, Any]):
    def process(self, record: Record[Any, Any]) -> None:
        """Do nothing."""


def store(name: str = "store") -> Any:
    return Stores.key_value_store_builder(Stores.in_memory_key_value_store(name), STRING, STRING)


def small() -> Topology:
    """Return a source, a processor and a sink."""
    topology = Topology()
    topology.add_source("source", "topic")
    topology.add_processor("processor", Idle, "source")
    return topology.add_sink("sink", "out", "processor")


MISTAKES: dict[str, Callable[[Topology], object]] = {
    "a source of a name that is taken": lambda it: it.add_source("source", "other"),
    "a processor of a name that is taken": lambda it: it.add_processor("source", Idle, "source"),
    "a sink of a name that is taken": lambda it: it.add_sink("source", "other", "source"),
    "a source without topics": lambda it: it.add_source("new"),
    "a topic that is read already": lambda it: it.add_source("new", "topic"),
    "a topic twice in a pattern": lambda it: it.add_source("new", pattern="top.*"),
    "a processor without parents": lambda it: it.add_processor("new", Idle),
    "a sink without parents": lambda it: it.add_sink("new", "other"),
    "a processor below what is not there": lambda it: it.add_processor("new", Idle, "nobody"),
    "a sink below what is not there": lambda it: it.add_sink("new", "other", "nobody"),
    "a processor below itself": lambda it: it.add_processor("new", Idle, "new"),
    "a sink below itself": lambda it: it.add_sink("new", "other", "new"),
    "a processor below a sink": lambda it: it.add_processor("new", Idle, "sink"),
    "a sink below a sink": lambda it: it.add_sink("new", "other", "sink"),
    "a store of a processor that is not there": lambda it: it.add_state_store(store(), "nobody"),
    "a store of a source": lambda it: it.add_state_store(store(), "source"),
    "a store of a sink": lambda it: it.add_state_store(store(), "sink"),
    "another store of one name": lambda it: it.add_state_store(
        store(), "processor"
    ).add_state_store(store(), "processor"),
    "a store to connect that is not there": lambda it: it.connect_processor_and_state_stores(
        "processor", "nothing"
    ),
    "a global store whose source is called as its processor": lambda it: it.add_global_store(
        store(), "same", "all", "same", Idle
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_it_is_refused_at_once(mistake: str) -> None:
    topology = small()

    with pytest.raises(TopologyError):
        MISTAKES[mistake](topology)


def test_one_builder_is_one_store_of_several_processors() -> None:
    topology = small().add_processor("second", Idle, "source")
    shared = store()

    topology.add_state_store(shared, "processor").add_state_store(shared, "second")

    assert list(topology.stores) == ["store"]


def test_a_processor_that_asks_for_a_store_it_is_not_connected_to_fails_when_it_begins() -> None:
    class Asking(Idle):
        def init(self, context: ProcessorContext[Any, Any]) -> None:
            context.get_state_store("store")

    topology = small().add_state_store(store(), "processor")
    topology.add_processor("asking", Asking, "source")
    config = {"default.key.serde": "string", "default.value.serde": "string"}

    with pytest.raises(TopologyError, match=r"asking.*store"):
        TopologyTestDriver(topology, config)


# ---------------------------------------------------------------------- descriptions


def parts(topology: Topology) -> list[set[str]]:
    """Return the names of the nodes of each sub-topology, global ones too, as described."""
    _, *described = re.split(r"Sub-topology: ", str(topology.describe()))
    return [
        set(re.findall(r"^ +(?:Source|Processor|Sink): (\S+)", part, re.MULTILINE))
        for part in described
    ]


def sources(*names: str) -> Topology:
    topology = Topology()
    for name in names:
        topology.add_source(name, f"topic-{name}")
    return topology


def test_an_empty_topology_is_described_as_such() -> None:
    assert str(Topology().describe()) == "Topologies:\n "


def test_one_source_is_one_sub_topology() -> None:
    assert parts(Topology().add_source("source", "a", "b", "c")) == [{"source"}]
    assert parts(Topology().add_source("source", pattern="topic-.*")) == [{"source"}]


def test_sources_with_nothing_in_common_are_a_sub_topology_each() -> None:
    assert parts(sources("a", "b", "c")) == [{"a"}, {"b"}, {"c"}]


def test_what_reads_one_source_is_in_one_sub_topology() -> None:
    topology = sources("a").add_processor("p", Idle, "a").add_processor("q", Idle, "a")

    assert parts(topology) == [{"a", "p", "q"}]


def test_a_processor_joins_its_sources_into_one_sub_topology() -> None:
    assert parts(sources("a", "b").add_processor("p", Idle, "a", "b")) == [{"a", "b", "p"}]


def test_each_source_with_a_processor_and_a_sink_of_its_own_is_a_sub_topology() -> None:
    topology = sources("a", "b", "c")
    for name in "abc":
        topology.add_processor(f"p-{name}", Idle, name).add_sink(f"s-{name}", "out", f"p-{name}")

    assert parts(topology) == [{name, f"p-{name}", f"s-{name}"} for name in "abc"]


def test_one_sink_joins_its_processors_into_one_sub_topology() -> None:
    topology = sources("a", "b")
    for name in "ab":
        topology.add_processor(f"p-{name}", Idle, name)
    topology.add_sink("sink", "out", "p-a", "p-b")

    assert parts(topology) == [{"a", "b", "p-a", "p-b", "sink"}]


def test_one_store_joins_its_processors_into_one_sub_topology() -> None:
    topology = sources("a", "b", "c")
    for name in "abc":
        topology.add_processor(f"p-{name}", Idle, name)
    topology.add_state_store(store(), "p-a", "p-b", "p-c")

    assert parts(topology) == [{"a", "b", "c", "p-a", "p-b", "p-c"}]
    assert str(topology.describe()).count("(stores: [store])") == 3


def test_stores_of_a_processor_are_described_with_it_in_order_of_names() -> None:
    topology = sources("a").add_processor("p", Idle, "a")
    topology.add_state_store(store("two"), "p").add_state_store(store("one"), "p")

    assert "Processor: p (stores: [one, two])" in str(topology.describe())


def test_global_stores_are_described_one_by_one() -> None:
    topology = small()
    for name in ("x", "y"):
        topology.add_global_store(store(name), f"from-{name}", f"all-{name}", f"fill-{name}", Idle)

    assert parts(topology) == [
        {"source", "processor", "sink"},
        {"from-x", "fill-x"},
        {"from-y", "fill-y"},
    ]
    assert str(topology.describe()).count("for global store") == 2


def test_a_sink_whose_topic_is_chosen_by_a_function_is_described_as_such() -> None:
    def chosen(_key: Any, _value: Any, _record: Any) -> str:
        return "out"

    described = str(sources("a").add_sink("sink", chosen, "a").describe())

    assert "Sink: sink (extractor class: function)" in described
