"""Stores that are restored from a topic of others: only what fills them from there writes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pystreams import (
    Processor,
    ProcessorContext,
    Record,
    StateStoreError,
    Stores,
    StreamsBuilder,
    Topology,
    ValueAndTimestamp,
    serdes,
)
from pystreams.testing import TopologyTestDriver

TEXT: dict[str, Any] = {"key_serde": serdes.STRING, "value_serde": serdes.STRING}
OPTIMIZED = {"topology.optimization": "all"}


class Keeps(Processor[str, str, str, str]):
    """Puts each record into the store."""

    def init(self, context: ProcessorContext[str, str]) -> None:
        self.context = context
        self.store: Any = context.get_state_store("rows")

    def process(self, record: Record[str, str]) -> None:
        self.store.put(record.key, record.value)


class Reads(Keeps):
    """Forwards what the store has."""

    def process(self, record: Record[str, str]) -> None:
        self.context.forward(record.with_value(self.store.get(record.key)))


class Rows(Keeps):
    """Forwards the value of what a table's store has."""

    def process(self, record: Record[str, str]) -> None:
        found = self.store.get(record.key)
        self.context.forward(record.with_value(found and found.value))


class KeepsRows(Keeps):
    """Puts each record into a table's store."""

    def process(self, record: Record[str, str]) -> None:
        self.store.put(record.key, ValueAndTimestamp(record.value, record.timestamp))


class Deletes(Keeps):
    def process(self, record: Record[str, str]) -> None:
        self.store.delete(record.key)


def topology(other: Callable[[], Processor[Any, Any, Any, Any]]) -> Topology:
    """Return one in which a processor fills the store, and another one is connected to it."""
    made = Topology()
    rows = Stores.key_value_store_builder(
        Stores.persistent_key_value_store("rows"), serdes.STRING, serdes.STRING
    )
    made.add_read_only_state_store(rows, "read-rows", "rows", "keep-rows", Keeps, **TEXT)
    made.add_source("read", "in", **TEXT)
    made.add_processor("other", other, "read")
    made.connect_processor_and_state_stores("other", "rows")
    made.add_sink("write", "out", "other", **TEXT)
    return made


def test_another_processor_reads_what_the_one_that_fills_it_has_put() -> None:
    with TopologyTestDriver(topology(Reads)) as driver:
        driver.create_input_topic("rows", serdes.STRING, serdes.STRING).pipe_input("a", "row")
        driver.create_input_topic("in", serdes.STRING, serdes.STRING).pipe_input("a", "?")
        out = driver.create_output_topic("out", serdes.STRING, serdes.STRING)
        assert out.read_key_values() == [("a", "row")]


@pytest.mark.parametrize("other", [Keeps, Deletes])
def test_a_write_by_another_processor_is_refused_with_store_processor_and_topic(
    other: Callable[[], Processor[Any, Any, Any, Any]],
) -> None:
    with TopologyTestDriver(topology(other)) as driver:
        rows_in = driver.create_input_topic("in", serdes.STRING, serdes.STRING)
        message = r"state store 'rows': it is restored from topic 'rows', .* not processor 'other'"
        with pytest.raises(StateStoreError, match=message):
            rows_in.pipe_input("a", "b")


def joined(other: Callable[[], Processor[str, str, str, str]]) -> StreamsBuilder:
    builder = StreamsBuilder()
    builder.table("rows", name="rows", **TEXT)
    builder.stream("in", **TEXT).process(other, stores=["rows"], name="other").to("out", **TEXT)
    return builder


def test_a_table_that_is_restored_from_its_topic_is_read_by_processors_and_not_written() -> None:
    with TopologyTestDriver(joined(Rows).build(OPTIMIZED), OPTIMIZED) as driver:
        driver.create_input_topic("rows", serdes.STRING, serdes.STRING).pipe_input("a", "row")
        driver.create_input_topic("in", serdes.STRING, serdes.STRING).pipe_input("a", "?")
        out = driver.create_output_topic("out", serdes.STRING, serdes.STRING)
        assert out.read_key_values() == [("a", "row")]

    with TopologyTestDriver(joined(KeepsRows).build(OPTIMIZED), OPTIMIZED) as driver:
        rows_in = driver.create_input_topic("in", serdes.STRING, serdes.STRING)
        with pytest.raises(StateStoreError, match="'rows': it is restored from topic 'rows'"):
            rows_in.pipe_input("a", "b")


def test_a_table_with_a_changelog_may_be_written_by_processors() -> None:
    with TopologyTestDriver(joined(KeepsRows).build()) as driver:
        driver.create_input_topic("in", serdes.STRING, serdes.STRING).pipe_input("a", "b")
        assert driver.get_key_value_store("rows").get("a") == "b"


def test_a_global_store_that_is_written_names_the_processor() -> None:
    builder = StreamsBuilder()
    builder.global_table("rows", name="rows", **TEXT)
    builder.stream("in", **TEXT).process(Keeps, name="other")

    with TopologyTestDriver(builder.build()) as driver:
        rows_in = driver.create_input_topic("in", serdes.STRING, serdes.STRING)
        message = (
            "'rows': it is a global store, and only the processor that fills it .* not 'other'"
        )
        with pytest.raises(StateStoreError, match=message):
            rows_in.pipe_input("a", "b")
