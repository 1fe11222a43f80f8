"""The user's own processors inside a stream."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from pystreams import (
    FixedKeyProcessor,
    ProcessingError,
    Processor,
    ProcessorContext,
    Record,
    Stores,
    StreamsBuilder,
    TopologyError,
)
from pystreams.serdes import LONG, STRING
from pystreams.stores.spec_builder import StoreSpecBuilder
from pystreams.topology.plan.topology_plan import TopologyPlan


def counts_store(name: str = "counts") -> StoreSpecBuilder:
    return Stores.key_value_store_builder(
        Stores.in_memory_key_value_store(name), key_serde=STRING, value_serde=LONG
    )


class Numbering(Processor[str, str, str, str]):
    """Numbers the values of each key."""

    def init(self, context: ProcessorContext[str, str]) -> None:
        self.context = context
        self.counts = context.get_state_store("counts")

    def process(self, record: Record[str, str]) -> None:
        number = (self.counts.get(record.key) or 0) + 1
        self.counts.put(record.key, number)
        self.context.forward(record.with_value(f"{number}. {record.value}"))


class Shout(FixedKeyProcessor[str, str, str]):
    """Forwards the value in capitals, under another key when it is told to."""

    def init(self, context: ProcessorContext[str, str]) -> None:
        self.context = context

    def process(self, record: Record[str, str]) -> None:
        new = record.with_value(record.value.upper())
        self.context.forward(new.with_key("other") if record.value == "cheat" else new)


class NumberingSupplier:
    """Brings the store along."""

    def __call__(self) -> Numbering:
        return Numbering()

    def stores(self) -> list[Any]:
        return [counts_store()]


def pipe(drive: Any, *values: str) -> list[Any]:
    driver = drive()
    for value in values:
        driver.create_input_topic("in", STRING, STRING).pipe_input("a", value)
    out: list[Any] = driver.create_output_topic("out", STRING, STRING).read_key_values()
    return out


def test_processor_uses_a_store_that_it_names(builder: StreamsBuilder, drive: Any) -> None:
    builder.add_state_store(counts_store())
    builder.stream("in").process(Numbering, stores=["counts"]).to("out")

    assert pipe(drive, "x", "y") == [("a", "1. x"), ("a", "2. y")]


def test_processor_uses_a_store_that_its_supplier_brings(
    builder: StreamsBuilder, drive: Any
) -> None:
    builder.stream("in").process(NumberingSupplier()).to("out")

    assert pipe(drive, "x", "y") == [("a", "1. x"), ("a", "2. y")]


def test_process_values_keeps_the_key(builder: StreamsBuilder, drive: Any) -> None:
    builder.stream("in").process_values(Shout).to("out")

    assert pipe(drive, "x") == [("a", "X")]


def test_process_values_refuses_another_key(builder: StreamsBuilder, drive: Any) -> None:
    builder.stream("in").process_values(Shout, name="shout").to("out")

    with pytest.raises(TopologyError, match="'shout' forwarded key 'other' for input key 'a'"):
        pipe(drive, "cheat")


class Forwarding(Processor[str, str, str, str]):
    """Forwards what it makes of a record."""

    def __init__(self, make: Any) -> None:
        self.make = make

    def init(self, context: ProcessorContext[str, str]) -> None:
        self.context = context

    def process(self, record: Record[str, str]) -> None:
        self.context.forward(self.make(record))


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda _record: None, "forward takes a Record, as in record.with_value(...)"),
        (lambda record: (record.key, record.value), "not ('a', 'x')"),
        (lambda record: replace(record, timestamp=None), "a number of ms, a whole one"),
        (lambda record: record.with_timestamp(1.5), "not 1.5"),
        (lambda record: record.with_timestamp(1 << 63), "9223372036854775807 at most"),
        (lambda record: record.with_headers({"trace": b"1"}), "headers of a record it forwards"),
        (lambda record: record.with_headers((("trace", "1"),)), "pairs of a name and bytes"),
        (lambda record: record.with_headers(None), "not None"),
    ],
)
def test_what_is_forwarded_that_is_no_record_is_told_with_the_processor_and_the_record(
    builder: StreamsBuilder, drive: Any, make: Any, told: str
) -> None:
    builder.stream("in").process(lambda: Forwarding(make), name="wrong").to("out")

    with pytest.raises(ProcessingError, match=r"'wrong'.* on the record at in-0 ") as caught:
        pipe(drive, "x")
    assert told in str(caught.value)


def test_headers_may_be_forwarded_in_a_list(builder: StreamsBuilder, drive: Any) -> None:
    make = lambda record: record.with_headers([["trace", b"1"]])  # noqa: E731
    builder.stream("in").process(lambda: Forwarding(make)).to("out")
    driver = drive()
    driver.create_input_topic("in", STRING, STRING).pipe_input("a", "x")

    [record] = driver.create_output_topic("out", STRING, STRING).read_records()
    assert record.headers == (("trace", b"1"),)


def test_grouping_after_process_is_repartitioned(builder: StreamsBuilder) -> None:
    builder.stream("in").process(NumberingSupplier()).group_by_key().count(name="n")

    assert list(builder.build().repartition_topics) == ["n-repartition"]


def test_grouping_after_process_values_is_not(builder: StreamsBuilder) -> None:
    builder.stream("in").process_values(Shout).group_by_key().count(name="n")

    assert builder.build().repartition_topics == {}


def test_unknown_store_is_refused_with_its_cure(builder: StreamsBuilder) -> None:
    builder.stream("in").process(Numbering, stores=["counts"], name="number")

    with pytest.raises(TopologyError, match=r"'number' uses state store 'counts'.*add_state_store"):
        builder.build()


def test_store_that_no_processor_uses_is_refused(builder: StreamsBuilder) -> None:
    builder.add_state_store(counts_store())
    builder.stream("in").to("out")

    with pytest.raises(TopologyError, match="'counts' is connected to no processor"):
        TopologyPlan(builder.build(), "app")


def test_stores_must_be_names(builder: StreamsBuilder) -> None:
    wrong: Any = [counts_store()]

    with pytest.raises(TopologyError, match="stores must be a list of names"):
        builder.stream("in").process(Numbering, stores=wrong)


def test_one_string_is_no_list_of_names(builder: StreamsBuilder) -> None:
    with pytest.raises(TopologyError, match="stores must be a list of names"):
        builder.stream("in").process(Numbering, stores="counts")


def test_processor_may_use_the_store_of_an_aggregation(builder: StreamsBuilder, drive: Any) -> None:
    class Ask(Processor[str, str, str, str]):
        def init(self, context: ProcessorContext[str, str]) -> None:
            self.context = context
            self.counts = context.get_state_store("counts")

        def process(self, record: Record[str, str]) -> None:
            self.context.forward(record.with_value(str(self.counts.get(record.key).value)))

    stream = builder.stream("in", key_serde=STRING, value_serde=STRING)
    stream.group_by_key().count(name="counts")
    stream.process(Ask, stores=["counts"]).to("out")

    assert pipe(drive, "x", "y") == [("a", "1"), ("a", "2")]


class NumberingValues(FixedKeyProcessor[str, str, str]):
    """Numbers the values of each key."""

    def init(self, context: ProcessorContext[str, str]) -> None:
        self.context = context
        self.counts = context.get_state_store("counts")

    def process(self, record: Record[str, str]) -> None:
        number = (self.counts.get(record.key) or 0) + 1
        self.counts.put(record.key, number)
        self.context.forward(record.with_value(f"{number}. {record.value}"))


class SharingSupplier:
    """Brings the same store each time it is asked."""

    counts = counts_store()

    def __call__(self) -> NumberingValues:
        return NumberingValues()

    def stores(self) -> list[Any]:
        return [self.counts]


def test_process_values_uses_a_store_that_it_names(builder: StreamsBuilder, drive: Any) -> None:
    builder.add_state_store(counts_store())
    builder.stream("in").process_values(NumberingValues, stores=["counts"]).to("out")

    assert pipe(drive, "x", "y") == [("a", "1. x"), ("a", "2. y")]


def test_two_processors_share_the_store_that_both_their_suppliers_bring(
    builder: StreamsBuilder, drive: Any
) -> None:
    once = builder.stream("in").process_values(SharingSupplier())
    once.process_values(SharingSupplier()).to("out")

    assert pipe(drive, "x", "y") == [("a", "2. 1. x"), ("a", "4. 3. y")]


def test_suppliers_that_bring_two_stores_of_one_name_are_refused(builder: StreamsBuilder) -> None:
    once = builder.stream("in").process(NumberingSupplier(), name="first")
    once.process(NumberingSupplier(), name="second")

    with pytest.raises(TopologyError, match="counts"):
        builder.build()


def test_the_key_that_a_table_becomes_a_stream_with_is_chosen_by_a_node_of_its_own(
    builder: StreamsBuilder,
) -> None:
    builder.table("in").to_stream(lambda key, _: key, name="changes").to("out")

    assert list(builder.build().nodes) == [
        "KSTREAM-SOURCE-0000000001",
        "KTABLE-SOURCE-0000000002",
        "changes",
        "KSTREAM-KEY-SELECT-0000000004",
        "KSTREAM-SINK-0000000005",
    ]
