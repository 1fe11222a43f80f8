"""Mistakes in a topology built by hand are refused at once, with the node and the cure."""

from __future__ import annotations

from typing import Any

import pytest

from pystreams import Processor, Record, Stores, Topology, TopologyError
from pystreams.serdes import STRING
from pystreams.stores.spec_builder import StoreSpecBuilder


class Nothing(Processor[str, str, None, None]):
    """Takes records and keeps them to itself."""

    def process(self, record: Record[str, str]) -> None:
        pass


class Bringing:
    """A supplier that brings stores."""

    def __init__(self, *stores: Any) -> None:
        self._stores = list(stores)

    def __call__(self) -> Nothing:
        return Nothing()

    def stores(self) -> list[Any]:
        return self._stores


class BringingNewOnes(Bringing):
    """A supplier that makes the builder of its store anew each time."""

    def stores(self) -> list[Any]:
        return [kept()]


def kept(name: str = "kept") -> StoreSpecBuilder:
    return Stores.key_value_store_builder(
        Stores.in_memory_key_value_store(name), key_serde=STRING, value_serde=STRING
    )


def reading() -> Topology:
    return Topology().add_source("read", "in")


# ------------------------------------------------------------------ sources and sinks


@pytest.mark.parametrize(
    ("option", "wrong", "message"),
    [
        ("key_serde", "string", "source 'read': key_serde must be a serde.* such as serdes.STRING"),
        ("value_serde", type(STRING), "source 'read': value_serde must be a serde"),
        ("timestamp_extractor", "now", "source 'read': timestamp_extractor must be a function"),
        ("offset_reset", "first", "source 'read': offset_reset 'first' is none of earliest"),
    ],
)
def test_options_of_a_source_are_checked(option: str, wrong: Any, message: str) -> None:
    arguments: dict[str, Any] = {option: wrong}

    with pytest.raises(TopologyError, match=message):
        Topology().add_source("read", "in", **arguments)


@pytest.mark.parametrize("topic", ["two words", "", "..", "x" * 250, None, ["in"]])
def test_names_of_topics_are_checked(topic: Any) -> None:
    with pytest.raises(TopologyError, match="the name of a topic of source 'read': use 1 to 249"):
        Topology().add_source("read", topic)
    with pytest.raises(TopologyError, match="the name of the topic of sink 'write': use 1 to 249"):
        reading().add_sink("write", topic, "read")


@pytest.mark.parametrize(
    ("option", "wrong", "message"),
    [
        ("key_serde", "string", "sink 'write': key_serde must be a serde"),
        ("value_serde", 7, "sink 'write': value_serde must be a serde"),
        ("partitioner", 0, "sink 'write': partitioner must be a function"),
    ],
)
def test_options_of_a_sink_are_checked(option: str, wrong: Any, message: str) -> None:
    arguments: dict[str, Any] = {option: wrong}

    with pytest.raises(TopologyError, match=message):
        reading().add_sink("write", "out", "read", **arguments)


def test_function_that_chooses_topics_is_called_with_key_value_and_record() -> None:
    wrong: Any = lambda value: "out"  # noqa: ARG005, E731 - a function of other parameters

    with pytest.raises(TopologyError, match=r"sink 'write' calls .*\(key, value, record\)"):
        reading().add_sink("write", wrong, "read")


@pytest.mark.parametrize("name", ["", "a b", "..", "line\n", 7])
def test_names_of_nodes_are_checked(name: Any) -> None:
    with pytest.raises(TopologyError, match="can't be the name of a node: use 1 to 249 letters"):
        Topology().add_source(name, "in")


@pytest.mark.parametrize("parent", [["read"], Nothing])
def test_parents_are_names(parent: Any) -> None:
    with pytest.raises(TopologyError, match=r"node 'work': .* is no node's name"):
        reading().add_processor("work", Nothing, parent)


# ------------------------------------------------------------------ processors


def test_processor_in_place_of_its_supplier() -> None:
    wrong: Any = Nothing()

    message = r"processor 'work' takes a supplier .* such as Nothing or lambda: Nothing\(\.\.\.\)"
    with pytest.raises(TopologyError, match=message):
        reading().add_processor("work", wrong, "read")


def test_supplier_with_parameters() -> None:
    wrong: Any = lambda record: Nothing()  # noqa: ARG005, E731 - a function of other parameters

    with pytest.raises(TopologyError, match=r"processor 'work' calls its function with \(\)"):
        reading().add_processor("work", wrong, "read")


def test_supplier_that_returns_one_processor_for_all_tasks() -> None:
    one = Nothing()

    message = "supplier of processor 'work' returned the same object twice.*Make a new processor"
    with pytest.raises(TopologyError, match=message):
        reading().add_processor("work", lambda: one, "read")


def test_supplier_of_something_that_processes_nothing() -> None:
    wrong: Any = dict

    with pytest.raises(TopologyError, match=r"processor 'work': .* has no method process"):
        reading().add_processor("work", wrong, "read")


def test_supplier_that_raises() -> None:
    def supply() -> Nothing:
        raise LookupError("no such service")

    message = r"the supplier of processor 'work' raised LookupError: no such service"
    with pytest.raises(TopologyError, match=message):
        reading().add_processor("work", supply, "read")


# ------------------------------------------------------------------ stores


def test_equal_builders_are_two_stores_all_the_same() -> None:
    topology = reading().add_processor("one", Nothing, "read").add_processor("two", Nothing, "read")
    topology.add_state_store(kept(), "one")

    message = (
        r"two different state stores are named 'kept' \(processors 'one', 'two'\): rename one.*"
        "make one builder, and give that same object"
    )
    with pytest.raises(TopologyError, match=message):
        topology.add_state_store(kept(), "two")


def test_one_builder_is_one_store_however_often_it_is_added() -> None:
    builder = kept()
    topology = reading().add_state_store(builder)
    topology.add_processor("one", Bringing(builder), "read")
    topology.add_processor("two", Bringing(builder), "read").add_state_store(builder, "two")

    assert topology.stores == {"kept": builder}


def test_suppliers_share_a_store_by_sharing_its_builder() -> None:
    topology = reading().add_processor("one", BringingNewOnes(), "read")

    with pytest.raises(TopologyError, match=r"\(processors 'one', 'two'\).*that same object"):
        topology.add_processor("two", BringingNewOnes(), "read")


def test_supplier_may_bring_nothing() -> None:
    nothing: Any = None
    supplier = Bringing()
    supplier.stores = lambda: nothing  # type: ignore[method-assign]

    assert reading().add_processor("one", supplier, "read").stores == {}


@pytest.mark.parametrize("wrong", ["kept", None])
def test_what_is_no_store_builder(wrong: Any) -> None:
    with pytest.raises(TopologyError, match="add_state_store takes a store builder, not"):
        reading().add_state_store(wrong)
    with pytest.raises(TopologyError, match=r"stores\(\) of the supplier of processor 'one' takes"):
        reading().add_processor("one", Bringing(wrong), "read")


def test_stores_are_connected_by_name() -> None:
    wrong: Any = kept()
    topology = reading().add_processor("one", Nothing, "read").add_state_store(wrong)

    with pytest.raises(TopologyError, match=r"processor 'one': .* is no store's name"):
        topology.connect_processor_and_state_stores("one", wrong)
