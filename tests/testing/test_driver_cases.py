"""The test driver's contract. Source: Kafka's `TopologyTestDriverTest`, `ProcessorTopologyTest`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pystreams import (
    Processor,
    ProcessorContext,
    PunctuationType,
    Record,
    Stores,
    StreamsError,
    Topology,
    TopologyError,
)
from pystreams.serdes import LONG, STRING, Serde, serde_of
from pystreams.testing import TestInputTopic, TopologyTestDriver


class Watched(Processor[str, str, str, str]):
    """Hands records on and notes what happens to it."""

    def __init__(self, seen: list[Any]) -> None:
        self.seen = seen

    def init(self, context: ProcessorContext[str, str]) -> None:
        self.context = context
        self.seen.append("init")

    def process(self, record: Record[str, str]) -> None:
        self.seen.append(self.context.record_metadata())
        self.context.forward(record)

    def close(self) -> None:
        self.seen.append("close")


def through(*inputs: str, config: dict[str, Any] | None = None) -> TopologyTestDriver:
    """Return a driver of strings that go from the topics to "output"."""
    topology = Topology()
    for topic in inputs:
        topology.add_source(f"from-{topic}", topic, key_serde=STRING, value_serde=STRING)
    sources = [f"from-{topic}" for topic in inputs]
    topology.add_sink("sink", "output", *sources, key_serde=STRING, value_serde=STRING)
    return TopologyTestDriver(topology, config)


def strings(driver: TopologyTestDriver, topic: str) -> TestInputTopic[str, str]:
    return driver.create_input_topic(topic, STRING, STRING)


def test_processors_are_initialized_at_once_and_closed_with_the_driver() -> None:
    seen: list[Any] = []
    topology = Topology()
    topology.add_source("source", "input", key_serde=STRING, value_serde=STRING)
    topology.add_processor("watched", lambda: Watched(seen), "source")

    with TopologyTestDriver(topology):
        assert seen == ["init"]

    assert seen == ["init", "close"]


def test_a_processor_sees_where_its_record_came_from() -> None:
    seen: list[Any] = []
    topology = Topology()
    topology.add_source("source", "one", "two", key_serde=STRING, value_serde=STRING)
    topology.add_processor("watched", lambda: Watched(seen), "source")
    with TopologyTestDriver(topology) as driver:
        for topic in ("one", "two", "one"):
            strings(driver, topic).pipe_input("a", "x")

    assert seen[1:-1] == [("one", 0, 0), ("two", 0, 0), ("one", 0, 1)]


def test_records_come_out_with_their_time_and_headers_and_a_topic_that_is_read_empty_says_so() -> (
    None
):
    with through("input") as driver:
        strings(driver, "input").pipe_input("a", "x", timestamp=7, headers=(("h", b"1"),))
        output = driver.create_output_topic("output", STRING, STRING)

        assert driver.produced_topic_names() == {"output"}
        assert output.read_record() == Record("a", "x", 7, (("h", b"1"),))
        with pytest.raises(StreamsError, match="'output' holds no more records"):
            output.read_record()


def test_a_topic_that_nothing_was_written_to_is_none_of_those_produced() -> None:
    with through("input") as driver:
        assert driver.produced_topic_names() == set()
        assert driver.create_output_topic("output", STRING, STRING).is_empty()


def test_each_source_and_sink_uses_its_own_serdes() -> None:
    topics: list[str] = []

    def noting(topic_serde: Serde[Any]) -> Serde[Any]:
        def serialize(value: Any) -> bytes:
            topics.append("written")
            return topic_serde.serializer("t")(value) or b""

        return serde_of(serialize, topic_serde.deserializer("t"))

    topology = Topology()
    topology.add_source("words", "words", key_serde=STRING, value_serde=STRING)
    topology.add_source("numbers", "numbers", key_serde=LONG, value_serde=LONG)
    topology.add_sink("words-out", "words-out", "words", key_serde=STRING, value_serde=STRING)
    topology.add_sink(
        "numbers-out", "numbers-out", "numbers", key_serde=LONG, value_serde=noting(LONG)
    )
    with TopologyTestDriver(topology) as driver:
        strings(driver, "words").pipe_input("a", "x")
        driver.create_input_topic("numbers", LONG, LONG).pipe_input(1, 2)

        words = driver.create_output_topic("words-out", STRING, STRING).read_key_values()
        numbers = driver.create_output_topic("numbers-out", LONG, LONG).read_key_values()

    assert (words, numbers, topics) == ([("a", "x")], [(1, 2)], ["written"])


def test_each_record_goes_to_the_source_whose_pattern_matches_its_topic() -> None:
    topology = Topology()
    for name in ("even", "odd"):
        digits = "[02]" if name == "even" else "[13]"
        topology.add_source(name, pattern=f"in-{digits}", key_serde=STRING, value_serde=STRING)
        topology.add_sink(f"{name}-out", f"{name}-out", name)
    config = {"default.key.serde": "string", "default.value.serde": "string"}
    with TopologyTestDriver(topology, config) as driver:
        for number in range(4):
            strings(driver, f"in-{number}").pipe_input("a", str(number))

        out = {
            name: driver.create_output_topic(f"{name}-out", STRING, STRING).read_values()
            for name in ("even", "odd")
        }

    assert out == {"even": ["0", "2"], "odd": ["1", "3"]}


def test_a_topic_given_by_name_is_no_pattern() -> None:
    with pytest.raises(TopologyError, match="can't be the name of a topic of source 'source'"):
        Topology().add_source("source", r"in-\d")


class Largest(Processor[str, int, str, int]):
    """Keeps each key's largest value and hands all on when a clock says so."""

    def init(self, context: ProcessorContext[str, int]) -> None:
        self.context = context
        self.store = context.get_state_store("largest")
        context.schedule(60_000, PunctuationType.WALL_CLOCK_TIME, self.flush)
        context.schedule(10_000, PunctuationType.STREAM_TIME, self.flush)

    def process(self, record: Record[str, int]) -> None:
        before = self.store.get(record.key)
        if before is None or before < record.value:
            self.store.put(record.key, record.value)

    def flush(self, time_ms: int) -> None:
        for key, value in self.store.all():
            self.context.forward(Record(key, value, time_ms))


class Running:
    """The largest values of keys, "a" having 21 before anything comes."""

    def __init__(self, directory: Path | None = None, *, caching: bool = False) -> None:
        supplier = Stores.persistent_key_value_store("largest")
        builder = Stores.key_value_store_builder(supplier, STRING, LONG)
        topology = Topology()
        topology.add_source("source", "input", key_serde=STRING, value_serde=LONG)
        topology.add_processor("largest", Largest, "source")
        topology.add_state_store(builder.with_caching_enabled() if caching else builder, "largest")
        topology.add_sink("sink", "output", "largest", key_serde=STRING, value_serde=LONG)
        self.driver = TopologyTestDriver(topology, state_directory=directory)
        self.store = self.driver.get_key_value_store("largest")
        self.store.put("a", 21)
        self.input = self.driver.create_input_topic("input", STRING, LONG)
        self.output = self.driver.create_output_topic("output", STRING, LONG)


@pytest.mark.parametrize("caching", [False, True], ids=["", "cached"])
def test_a_store_can_be_filled_before_anything_comes_and_read_after(caching: bool) -> None:
    run = Running(caching=caching)

    for key, value in (("a", 1), ("a", 42), ("b", 5)):
        run.input.pipe_input(key, value, timestamp=9_999)

    assert dict(run.store.all()) == {"a": 42, "b": 5}
    run.driver.close()


class Prepared(Watched):
    """Puts a row into its store before anything comes."""

    def init(self, context: ProcessorContext[str, str]) -> None:
        super().init(context)
        context.get_state_store("rows").put("key1", "value1")


def test_a_processor_may_fill_its_store_when_it_is_initialized() -> None:
    rows = Stores.key_value_store_builder(Stores.in_memory_key_value_store("rows"), STRING, STRING)
    topology = Topology()
    topology.add_source("source", "input", key_serde=STRING, value_serde=STRING)
    topology.add_processor("prepared", lambda: Prepared([]), "source")
    topology.add_state_store(rows, "prepared")

    with TopologyTestDriver(topology) as driver:
        store = driver.get_key_value_store("rows")
        assert list(store.prefix_scan(b"key")) == [("key1", "value1")]


def test_a_clock_that_stands_still_fires_nothing_and_one_that_is_moved_fires_once() -> None:
    run = Running()

    run.input.pipe_input("a", 1, timestamp=9_999)
    first = run.output.read_key_values()
    run.input.pipe_input("a", 1, timestamp=9_999)
    assert run.output.is_empty()
    run.input.pipe_input("a", 1, timestamp=10_000)
    by_stream_time = run.output.read_key_values()
    run.driver.advance_wall_clock_ms(59_999)
    assert run.output.is_empty()
    run.driver.advance_wall_clock_ms(1)

    assert first == by_stream_time == run.output.read_key_values() == [("a", 21)]
    run.driver.close()


class Ticking(Watched):
    """Notes at what times it is called."""

    def __init__(self, seen: list[int], kind: PunctuationType) -> None:
        super().__init__([])
        self.times, self.kind = seen, kind

    def init(self, context: ProcessorContext[str, str]) -> None:
        super().init(context)
        context.schedule(10, self.kind, self.times.append)


def ticking(seen: list[int], kind: PunctuationType) -> TopologyTestDriver:
    topology = Topology()
    topology.add_source("source", "input", key_serde=STRING, value_serde=STRING)
    topology.add_processor("ticking", lambda: Ticking(seen, kind), "source")
    return TopologyTestDriver(topology)


def test_stream_time_fires_with_the_record_that_passes_a_multiple_of_the_interval() -> None:
    seen: list[int] = []
    with ticking(seen, PunctuationType.STREAM_TIME) as driver:
        topic = strings(driver, "input")
        for timestamp in (42, 42, 51, 52, 61, 65, 71, 72, 95, 101, 102):
            topic.pipe_input("a", "x", timestamp)

    assert seen == [42, 51, 61, 71, 95, 101]


def test_the_wall_clock_fires_when_it_is_moved_past_a_multiple_of_the_interval() -> None:
    seen: list[int] = []
    with ticking(seen, PunctuationType.WALL_CLOCK_TIME) as driver:
        for step_ms in (5, 9, 1, 20, 5):
            driver.advance_wall_clock_ms(step_ms)

    assert seen == [14, 35, 40]


def test_a_topology_without_stores_leaves_a_directory_without_files(tmp_path: Path) -> None:
    stateless, stateful = tmp_path / "stateless", tmp_path / "stateful"
    topology = Topology()
    topology.add_source("source", "input", key_serde=STRING, value_serde=STRING)
    topology.add_sink("sink", "output", "source", key_serde=STRING, value_serde=STRING)
    with TopologyTestDriver(topology, state_directory=stateless) as driver:
        strings(driver, "input").pipe_input("a", "x")
    run = Running(stateful)
    run.input.pipe_input("a", 1)
    run.driver.close()

    assert [path for path in stateless.rglob("*") if path.is_file()] == []
    assert [path for path in stateful.rglob("*") if path.is_file()] != []


def test_what_a_topology_writes_to_its_own_input_comes_after_what_it_writes_elsewhere() -> None:
    class Again(Processor[str, str, str, str]):
        def init(self, context: ProcessorContext[str, str]) -> None:
            self.context = context

        def process(self, record: Record[str, str]) -> None:
            if not record.value.startswith("again-"):
                self.context.forward(record.with_value(f"again-{record.value}"), "back")
            self.context.forward(record, "sink")

    topology = Topology()
    topology.add_source("source", "input", key_serde=STRING, value_serde=STRING)
    topology.add_processor("again", Again, "source")
    topology.add_sink("back", "input", "again", key_serde=STRING, value_serde=STRING)
    topology.add_sink("sink", "output", "again", key_serde=STRING, value_serde=STRING)
    with TopologyTestDriver(topology) as driver:
        strings(driver, "input").pipe_input("b", "beta")

        out = driver.create_output_topic("output", STRING, STRING).read_key_values()

    assert out == [("b", "beta"), ("b", "again-beta")]


def test_records_wait_for_the_other_topic_of_their_task_as_long_as_they_are_told_to() -> None:
    with through("one", "two", config={"max.task.idle.ms": 1_000}) as driver:
        out = driver.create_output_topic("output", STRING, STRING)

        strings(driver, "one").pipe_input("a", "alpha", timestamp=1)
        driver.advance_wall_clock_ms(1)
        assert out.is_empty()
        strings(driver, "two").pipe_input("b", "beta", timestamp=2)
        assert out.read_key_values() == [("a", "alpha")]
        driver.advance_wall_clock_ms(1_000)
        assert out.read_key_values() == [("b", "beta")]
