"""Wrappers around the user's processors. Spec: KIP-1112."""

from __future__ import annotations

from typing import Any

import pytest

from pystreams import (
    FixedKeyProcessor,
    Processor,
    ProcessorContext,
    ProcessorWrapper,
    Record,
    Stores,
    StreamsBuilder,
    Topology,
    TopologyError,
)
from pystreams.serdes import LONG, STRING
from pystreams.testing import TopologyTestDriver

STRINGS = {"default.key.serde": "string", "default.value.serde": "string"}


class Forwarding(Processor[Any, Any, Any, Any]):
    """Hands records on."""

    def init(self, context: ProcessorContext[Any, Any]) -> None:
        self.context = context

    def process(self, record: Record[Any, Any]) -> None:
        self.context.forward(record)


class Keeping(FixedKeyProcessor[Any, Any, Any]):
    """Hands records on."""

    def init(self, context: ProcessorContext[Any, Any]) -> None:
        self.context = context

    def process(self, record: Record[Any, Any]) -> None:
        self.context.forward(record)


class Counting:
    """Brings its store along."""

    def __init__(self) -> None:
        self.store = Stores.key_value_store_builder(
            Stores.in_memory_key_value_store("counts"), key_serde=STRING, value_serde=LONG
        )

    def __call__(self) -> Processor[Any, Any, Any, Any]:
        return Forwarding()

    def stores(self) -> list[Any]:
        return [self.store]


class Around:
    """A processor that notes what goes through another one."""

    def __init__(self, inner: Any, name: str, seen: list[tuple[str, Any]]) -> None:
        self.inner, self.name, self.seen = inner, name, seen
        self.init, self.close = inner.init, inner.close

    def process(self, record: Record[Any, Any]) -> None:
        self.seen.append((self.name, record.value))
        self.inner.process(record)


class Noting(ProcessorWrapper):
    """Puts `Around` around all processors."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, Any]] = []
        self.fixed_key: list[str] = []

    def wrap_processor_supplier(self, processor_name: str, processor_supplier: Any) -> Any:
        return lambda: Around(processor_supplier(), processor_name, self.seen)

    def wrap_fixed_key_processor_supplier(
        self, processor_name: str, processor_supplier: Any
    ) -> Any:
        self.fixed_key.append(processor_name)
        return lambda: Around(processor_supplier(), processor_name, self.seen)


def piped(topology: Topology) -> list[Any]:
    with TopologyTestDriver(topology, STRINGS) as driver:
        driver.create_input_topic("in", STRING, STRING).pipe_input("k", "v")
        values: list[Any] = driver.create_output_topic("out", STRING, STRING).read_values()
        return values


def test_processors_of_the_dsl_are_wrapped_under_their_names() -> None:
    wrapper = Noting()
    builder = StreamsBuilder(processor_wrapper=wrapper)
    stream = builder.stream("in").process(Forwarding, name="first")
    stream.process_values(Keeping, name="second").to("out")

    assert piped(builder.build()) == ["v"]
    assert wrapper.seen == [("first", "v"), ("second", "v")]
    assert wrapper.fixed_key == ["second"]


def test_processors_of_a_topology_are_wrapped() -> None:
    wrapper = Noting()
    topology = Topology(processor_wrapper=wrapper).add_source("source", "in")
    topology.add_processor("free", Forwarding, "source")
    topology.add_processor("fixed", Keeping, "free", fixed_key=True).add_sink("out", "out", "fixed")

    assert piped(topology) == ["v"]
    assert wrapper.seen == [("free", "v"), ("fixed", "v")]


def test_operations_of_the_dsl_are_not_wrapped() -> None:
    wrapper = Noting()
    builder = StreamsBuilder(processor_wrapper=wrapper)
    builder.stream("in").filter(lambda *_: True).map_values(str).to("out")

    assert piped(builder.build()) == ["v"]
    assert wrapper.seen == []


def test_stores_that_a_wrapped_supplier_brings_are_connected_all_the_same() -> None:
    builder = StreamsBuilder(processor_wrapper=Noting())
    builder.stream("in").process(Counting(), name="p").to("out")

    assert list(builder.build().stores) == ["counts"]
    assert builder.build().nodes["p"].stores == ("counts",)


def test_wrapped_processors_may_share_a_store() -> None:
    counting = Counting()
    wrapper = Noting()
    builder = StreamsBuilder(processor_wrapper=wrapper)
    first = builder.stream("in").process(counting, name="first")
    first.process(counting, name="second").process_values(Keeping, name="third").to("out")
    topology = builder.build()

    assert piped(topology) == ["v"]
    assert [name for name, _ in wrapper.seen] == ["first", "second", "third"]
    assert list(topology.stores) == ["counts"]
    assert topology.nodes["first"].stores == topology.nodes["second"].stores == ("counts",)


def test_a_wrapper_that_overrides_nothing_changes_nothing() -> None:
    builder = StreamsBuilder(processor_wrapper=ProcessorWrapper())
    builder.stream("in").process(Forwarding).process_values(Keeping).to("out")

    assert piped(builder.build()) == ["v"]


def test_a_wrapper_must_return_a_supplier() -> None:
    class Wrong(ProcessorWrapper):
        def wrap_processor_supplier(self, processor_name: str, processor_supplier: Any) -> Any:
            return processor_supplier()

    topology = Topology(processor_wrapper=Wrong()).add_source("source", "in")
    with pytest.raises(TopologyError, match="'p' takes a supplier that makes a processor for each"):
        topology.add_processor("p", Forwarding, "source")
