"""Global tables and global stores, and the joins of streams with global tables."""

# ruff: noqa: ARG005 - a lambda takes what the DSL gives it.

from __future__ import annotations

from typing import Any

import pytest

from pystreams import (
    Consumed,
    GlobalKTable,
    KStream,
    Materialized,
    ProcessingError,
    Processor,
    ProcessorContext,
    PunctuationType,
    Record,
    Stores,
    StreamsBuilder,
    Topology,
    TopologyError,
)
from pystreams.errors import StateStoreError
from pystreams.serdes import LONG, STRING
from pystreams.testing import TopologyTestDriver
from pystreams.topology.plan.partition_plan import plan_partitions
from pystreams.topology.plan.topology_plan import TopologyPlan


@pytest.fixture
def orders(builder: StreamsBuilder) -> KStream[str, str]:
    return builder.stream("orders", key_serde=STRING, value_serde=STRING)


@pytest.fixture
def people(builder: StreamsBuilder) -> GlobalKTable[str, str]:
    return builder.global_table("people", key_serde=STRING, value_serde=STRING, name="people-store")


def by_value(key: str | None, value: str) -> str | None:
    """The first word of an order is who it is for; "nobody" is no key."""
    who = value.split(maxsplit=1)[0]
    return None if who == "nobody" else who


def run(drive: Any, *records: tuple[str, str | None, str | None], **config: Any) -> list[Any]:
    """Pipe (topic, key, value) and return what came out at "out"."""
    driver = drive(**config)
    for topic, key, value in records:
        driver.create_input_topic(topic, STRING, STRING).pipe_input(key, value)
    key_values: list[Any] = driver.create_output_topic("out", STRING, STRING).read_key_values()
    return key_values


# ---------------------------------------------------------------------- joins


def test_record_is_joined_with_the_row_that_the_selector_names(
    orders: KStream[str, str], people: GlobalKTable[str, str], drive: Any
) -> None:
    orders.join(people, by_value, lambda order, person: f"{order} {person}").to("out")

    out = run(drive, ("people", "a", "Ava"), ("orders", "1", "a tea"), ("orders", "2", "b tea"))

    assert out == [("1", "a tea Ava")]


def test_left_join_meets_none_where_there_is_no_row_or_no_key(
    orders: KStream[str, str],
    people: GlobalKTable[str, str],
    drive: Any,
    caplog: pytest.LogCaptureFixture,
) -> None:
    orders.left_join(people, by_value, lambda order, person: f"{order} {person}").to("out")

    out = run(
        drive,
        ("people", "a", "Ava"),
        ("orders", "1", "b tea"),
        ("orders", "2", "nobody"),
        ("orders", None, "nobody"),
        ("orders", None, "a tea"),
        ("orders", "3", None),
    )

    assert out == [
        ("1", "b tea None"),
        ("2", "nobody None"),
        (None, "nobody None"),
        (None, "a tea Ava"),
    ]
    assert "reason='null value'" in caplog.text
    assert "key'" not in caplog.text


def test_inner_join_drops_records_without_value_or_join_key_and_keeps_those_without_a_key(
    orders: KStream[str, str],
    people: GlobalKTable[str, str],
    drive: Any,
    caplog: pytest.LogCaptureFixture,
) -> None:
    orders.join(people, by_value, lambda order, person: f"{order} {person}").to("out")

    out = run(
        drive,
        ("people", "a", "Ava"),
        ("orders", None, "a tea"),
        ("orders", "1", "nobody"),
        ("orders", None, "nobody"),
        ("orders", "2", None),
    )

    assert out == [(None, "a tea Ava")]
    assert "reason='null join key'" in caplog.text
    assert "reason='null value'" in caplog.text


def test_joiner_is_given_the_key_of_the_stream_when_it_asks(
    orders: KStream[str, str], people: GlobalKTable[str, str], drive: Any
) -> None:
    orders.join(
        people, key_selector=by_value, joiner=lambda *found: "/".join(found), with_key=True
    ).to("out")

    assert run(drive, ("people", "a", "Ava"), ("orders", "1", "a tea")) == [("1", "1/a tea/Ava")]


def test_update_joins_nothing_by_itself_and_a_null_value_deletes(
    orders: KStream[str, str], people: GlobalKTable[str, str], drive: Any
) -> None:
    orders.join(people, by_value, lambda order, person: f"{order} {person}").to("out")

    out = run(
        drive,
        ("people", "a", "Ava"),
        ("people", "a", "Eva"),
        ("orders", "1", "a tea"),
        ("people", "a", None),
        ("orders", "2", "a tea"),
    )

    assert out == [("1", "a tea Eva")]


def test_selector_that_raises_goes_to_the_processing_handler(
    orders: KStream[str, str], people: GlobalKTable[str, str], drive: Any
) -> None:
    orders.join(people, lambda key, value: {"x": key}[value], lambda o, p: o).to("out")

    with pytest.raises(ProcessingError, match="KSTREAM-LEFTJOIN-0000000003' raised KeyError"):
        run(drive, ("orders", "1", "y"))


# ---------------------------------------------------------------------- the topology


def test_description_names_global_stores_as_kafka_streams_does(builder: StreamsBuilder) -> None:
    table = builder.global_table("people")
    orders: KStream[str, str] = builder.stream("orders")
    orders.join(table, by_value, lambda order, person: order).to("out")

    assert str(builder.build().describe()) == (
        "Topologies:\n"
        "   Sub-topology: 0 for global store (will not generate tasks)\n"
        "    Source: KSTREAM-SOURCE-0000000001 (topics: [people])\n"
        "      --> KTABLE-SOURCE-0000000002\n"
        "    Processor: KTABLE-SOURCE-0000000002 (stores: [people-STATE-STORE-0000000000])\n"
        "      --> none\n"
        "      <-- KSTREAM-SOURCE-0000000001\n"
        "  Sub-topology: 1\n"
        "    Source: KSTREAM-SOURCE-0000000003 (topics: [orders])\n"
        "      --> KSTREAM-LEFTJOIN-0000000004\n"
        "    Processor: KSTREAM-LEFTJOIN-0000000004 (stores: [])\n"
        "      --> KSTREAM-SINK-0000000005\n"
        "      <-- KSTREAM-SOURCE-0000000003\n"
        "    Sink: KSTREAM-SINK-0000000005 (topic: out)\n"
        "      <-- KSTREAM-LEFTJOIN-0000000004\n\n"
    )


OF_KAFKA_STREAMS = """\
Topologies:
   Sub-topology: 0 for global store (will not generate tasks)
    Source: KSTREAM-SOURCE-0000000001 (topics: [g1])
      --> KTABLE-SOURCE-0000000002
    Processor: KTABLE-SOURCE-0000000002 (stores: [g1-STATE-STORE-0000000000])
      --> none
      <-- KSTREAM-SOURCE-0000000001
  Sub-topology: 1
    Source: KSTREAM-SOURCE-0000000003 (topics: [in])
      --> KSTREAM-LEFTJOIN-0000000017, KSTREAM-KEY-SELECT-0000000008
    Processor: KSTREAM-KEY-SELECT-0000000008 (stores: [])
      --> KSTREAM-LEFTJOIN-0000000009
      <-- KSTREAM-SOURCE-0000000003
    Processor: KSTREAM-LEFTJOIN-0000000009 (stores: [])
      --> lj
      <-- KSTREAM-KEY-SELECT-0000000008
    Processor: lj (stores: [])
      --> counts-repartition-filter
      <-- KSTREAM-LEFTJOIN-0000000009
    Processor: KSTREAM-LEFTJOIN-0000000017 (stores: [])
      --> KSTREAM-SINK-0000000018
      <-- KSTREAM-SOURCE-0000000003
    Processor: counts-repartition-filter (stores: [])
      --> counts-repartition-sink
      <-- lj
    Sink: KSTREAM-SINK-0000000018 (topic: out2)
      <-- KSTREAM-LEFTJOIN-0000000017
    Sink: counts-repartition-sink (topic: counts-repartition)
      <-- counts-repartition-filter

  Sub-topology: 2 for global store (will not generate tasks)
    Source: named-source (topics: [g2])
      --> named
    Processor: named (stores: [g2store])
      --> none
      <-- named-source
  Sub-topology: 3 for global store (will not generate tasks)
    Source: KSTREAM-SOURCE-0000000006 (topics: [g3])
      --> KTABLE-SOURCE-0000000007
    Processor: KTABLE-SOURCE-0000000007 (stores: [st])
      --> none
      <-- KSTREAM-SOURCE-0000000006
  Sub-topology: 4
    Source: counts-repartition-source (topics: [counts-repartition])
      --> KSTREAM-AGGREGATE-0000000011
    Processor: KSTREAM-AGGREGATE-0000000011 (stores: [counts])
      --> KTABLE-TOSTREAM-0000000015
      <-- counts-repartition-source
    Processor: KTABLE-TOSTREAM-0000000015 (stores: [])
      --> KSTREAM-SINK-0000000016
      <-- KSTREAM-AGGREGATE-0000000011
    Sink: KSTREAM-SINK-0000000016 (topic: out)
      <-- KTABLE-TOSTREAM-0000000015
"""
"""What Kafka Streams 4.3.1 prints of the topology below."""


def test_global_stores_are_numbered_among_sub_topologies_as_in_kafka_streams(
    builder: StreamsBuilder,
) -> None:
    text: Any = {"key_serde": STRING, "value_serde": STRING}
    first = builder.global_table("g1", **text)
    stream: KStream[str, str] = builder.stream("in", **text)
    second = builder.global_table(
        "g2", consumed=Consumed(STRING, STRING, name="named"), materialized=Materialized("g2store")
    )
    store = Stores.key_value_store_builder(Stores.persistent_key_value_store("st"), STRING, STRING)
    builder.add_global_store(store, "g3", KeepLength, **text)
    joined = stream.select_key(lambda key, value: value).join(
        first, lambda key, value: key, lambda value, row: value + row
    )
    again = joined.left_join(
        second, lambda key, value: value[0], lambda value, row: value, name="lj"
    )
    again.group_by_key(**text).count(name="counts").to_stream().to("out", value_serde=LONG)
    stream.left_join(first, by_value, lambda value, row: value).to("out2", **text)

    assert str(builder.build().describe()).strip() == OF_KAFKA_STREAMS.strip()


def test_global_topic_makes_no_tasks_and_need_not_be_co_partitioned(
    builder: StreamsBuilder, orders: KStream[str, str], people: GlobalKTable[str, str]
) -> None:
    orders.join(people, by_value, lambda order, person: order).to("out")
    plan = TopologyPlan(builder.build(), "app")

    partitions = plan_partitions(plan, {"orders": 2, "people": 7, "out": 1})

    assert [str(task) for task in partitions.task_ids()] == ["0_0", "0_1"]
    assert plan.source_topics() == ["orders"]
    assert plan.global_topics() == ["people"]


def test_join_needs_no_repartition_after_a_new_key(
    builder: StreamsBuilder, orders: KStream[str, str], people: GlobalKTable[str, str]
) -> None:
    orders.select_key(lambda key, value: value).join(people, by_value, lambda o, p: o).to("out")

    assert not builder.build().repartition_topics


@pytest.mark.parametrize("way", ["stream", "table", "global_table", "pattern"])
def test_topic_of_a_global_table_is_not_read_otherwise(
    builder: StreamsBuilder, people: GlobalKTable[str, str], way: str
) -> None:
    if way == "pattern":
        builder.stream(pattern="peop.*")
    elif way == "global_table":
        builder.global_table("people")
    elif way == "table":
        builder.table("people")
    else:
        builder.stream("people")

    with pytest.raises(TopologyError, match="use the global store twice, or read a copy"):
        builder.build()


def test_option_that_means_nothing_for_a_global_table_is_refused(builder: StreamsBuilder) -> None:
    with pytest.raises(TopologyError, match="leave timestamp_extractor out"):
        builder.global_table("a", timestamp_extractor=lambda record, time: 0)
    with pytest.raises(TopologyError, match="leave offset_reset='latest' out"):
        builder.global_table("a", offset_reset="latest")
    with pytest.raises(TopologyError, match="keeps no history"):
        builder.global_table("a", materialized=Materialized(name="history", history_retention_ms=1))
    history = Stores.persistent_versioned_key_value_store("history", 1)
    with pytest.raises(TopologyError, match="keeps no history"):
        builder.global_table("a", materialized=Materialized(supplier=history))


def test_call_that_does_not_fit_a_global_table_is_refused(
    orders: KStream[str, str], people: GlobalKTable[str, str]
) -> None:
    join: Any = orders.join
    with pytest.raises(TopologyError, match="needs a key_selector before the joiner"):
        join(people, joiner=lambda order, person: order)
    with pytest.raises(TopologyError, match="takes a joiner"):
        join(people, by_value)
    with pytest.raises(TopologyError, match="takes key_selector and joiner"):
        join(people, by_value, lambda order, person: order, None)
    with pytest.raises(TopologyError, match="leave key_serde out"):
        join(people, by_value, lambda order, person: order, key_serde=STRING)
    with pytest.raises(TopologyError, match="key_selector"):
        join(people, lambda key: key, lambda order, person: order)
    outer: Any = orders.outer_join
    with pytest.raises(TopologyError, match="a stream is joined with a KStream here"):
        outer(people, by_value, lambda order, person: order)


@pytest.mark.parametrize("declare", ["table", "global_table"])
def test_a_topic_is_read_with_the_serdes_its_table_is_kept_with(
    builder: StreamsBuilder, drive: Any, declare: str
) -> None:
    kept = Materialized(name="rows", key_serde=LONG, value_serde=STRING)
    getattr(builder, declare)("rows", materialized=kept)
    driver = drive()
    topic = driver.create_input_topic("rows", LONG, STRING)

    for key, value in ((1, "one"), (2, "two")):
        topic.pipe_input(key, value)

    assert list(driver.get_key_value_store("rows").all()) == [(1, "one"), (2, "two")]


def test_queryable_name_is_the_one_that_was_given(
    builder: StreamsBuilder, people: GlobalKTable[str, str]
) -> None:
    assert people.queryable_store_name == "people-store"
    assert builder.global_table("other").queryable_store_name is None


# ---------------------------------------------------------------------- global stores


class KeepLength(Processor[str, str, Any, Any]):
    """Keeps the length of each value in a store."""

    def init(self, context: ProcessorContext[Any, Any]) -> None:
        self.store = context.get_state_store("lengths")

    def process(self, record: Record[str, str]) -> None:
        self.store.put(record.key, len(record.value))


class AddLength(Processor[str, str, str, int]):
    """Forwards the length that the global store has of the value."""

    def init(self, context: ProcessorContext[str, int]) -> None:
        self.context = context
        self.store = context.get_state_store("lengths")

    def process(self, record: Record[str, str]) -> None:
        self.context.forward(record.with_value(self.store.get(record.value)))


def lengths() -> Any:
    return Stores.key_value_store_builder(
        Stores.persistent_key_value_store("lengths"), STRING, LONG
    )


def test_global_store_is_filled_by_its_processor_and_read_by_others(
    builder: StreamsBuilder, drive: Any
) -> None:
    builder.add_global_store(lengths(), "words", KeepLength, key_serde=STRING)
    builder.stream("orders").process(AddLength).to("out", value_serde=LONG)
    driver = drive()
    driver.create_input_topic("words", STRING, STRING).pipe_input("a", "four")
    driver.create_input_topic("orders", STRING, STRING).pipe_input("1", "a")

    assert driver.create_output_topic("out", STRING, LONG).read_key_values() == [("1", 4)]
    assert driver.get_key_value_store("lengths").get("a") == 4


def test_global_store_of_a_topology_has_the_names_it_was_given() -> None:
    topology = Topology()
    topology.add_global_store(lengths(), "read", "words", "keep", KeepLength)
    topology.add_source("in", "orders").add_processor("add", AddLength, "in")
    topology.add_sink("put", "out", "add", value_serde=LONG)
    config = {"default.key.serde": "string", "default.value.serde": "string"}

    with TopologyTestDriver(topology, config) as driver:
        driver.create_input_topic("words", STRING, STRING).pipe_input("a", "four")
        driver.create_input_topic("orders", STRING, STRING).pipe_input("1", "a")
        out = driver.create_output_topic("out", STRING, LONG).read_key_values()

    assert out == [("1", 4)]
    assert "Source: read (topics: [words])\n      --> keep" in str(topology.describe())


def test_write_into_a_global_store_by_another_processor_is_refused(
    builder: StreamsBuilder, drive: Any
) -> None:
    class Write(Processor[str, str, Any, Any]):
        def init(self, context: ProcessorContext[Any, Any]) -> None:
            self.store = context.get_state_store("people-store")

        def process(self, record: Record[str, str]) -> None:
            self.store.put(record.key, record.value)

    builder.global_table("people", name="people-store")
    builder.stream("orders").process(Write)
    driver = drive()

    with pytest.raises(StateStoreError, match="only the processor that fills it"):
        driver.create_input_topic("orders", STRING, STRING).pipe_input("1", "a")


def test_connecting_a_global_store_is_refused() -> None:
    topology = Topology()
    topology.add_global_store(lengths(), "read", "words", "keep", KeepLength)
    topology.add_source("in", "orders").add_processor("add", AddLength, "in")

    with pytest.raises(TopologyError, match="every processor can read without being connected"):
        topology.connect_processor_and_state_stores("add", "lengths")
    with pytest.raises(TopologyError, match="two different state stores are named 'lengths'"):
        topology.add_state_store(lengths(), "add")


def test_what_comes_to_a_global_store_goes_no_further() -> None:
    topology = Topology()
    topology.add_global_store(lengths(), "read", "words", "keep", KeepLength)

    for parent in ("read", "keep"):
        with pytest.raises(TopologyError, match="goes no further"):
            topology.add_processor("more", KeepLength, parent)


def test_processor_of_a_global_store_can_not_schedule(builder: StreamsBuilder, drive: Any) -> None:
    class Schedule(KeepLength):
        def init(self, context: ProcessorContext[Any, Any]) -> None:
            context.schedule(1, PunctuationType.WALL_CLOCK_TIME, lambda time: None)

    builder.add_global_store(lengths(), "words", Schedule)

    with pytest.raises(TopologyError, match="can't schedule punctuations"):
        drive()


def test_what_fails_in_a_global_store_goes_to_the_processing_handler_only_if_that_is_enabled(
    builder: StreamsBuilder, drive: Any
) -> None:
    builder.add_global_store(lengths(), "words", KeepLength, key_serde=STRING)
    asking = drive(
        processing_exception_handler="continue", processing_exception_handler_global_enabled=True
    )
    failing = drive(processing_exception_handler="continue")

    asking.create_input_topic("words", STRING, STRING).pipe_input("a", None)
    with pytest.raises(
        ProcessingError, match=r"handler\.global\.enabled=true to skip such records"
    ):
        failing.create_input_topic("words", STRING, STRING).pipe_input("a", None)


def test_what_the_application_writes_to_a_global_topic_is_in_the_store(
    builder: StreamsBuilder,
    orders: KStream[str, str],
    people: GlobalKTable[str, str],
    drive: Any,
) -> None:
    builder.stream("changes").to("people")
    orders.join(people, by_value, lambda order, person: f"{order} {person}").to("out")

    out = run(drive, ("changes", "a", "Ava"), ("orders", "1", "a tea"))

    assert out == [("1", "a tea Ava")]
