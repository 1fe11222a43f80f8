"""Small topologies at random do what they do in Kafka Streams; a golden file has them as data."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from pystreams import (
    JoinWindows,
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
    serdes,
)
from pystreams.testing import TopologyTestDriver

pytestmark = pytest.mark.parity

STRING = serdes.STRING
GOLDEN: dict[str, list[dict[str, Any]]] = json.loads(
    (Path(__file__).parent / "golden" / "random_topologies.json").read_text()
)
STRINGS: Mapping[str, Any] = {"default.key.serde": "string", "default.value.serde": "string"}


class Telling(Processor[str, str, str, str]):
    """Tells when it begins, punctuates and ends."""

    def __init__(self, name: str, told: list[str], stream_ms: int, wall_ms: int) -> None:
        self.name, self.told = name, told
        self.intervals = {
            ("stream", PunctuationType.STREAM_TIME): stream_ms,
            ("wall", PunctuationType.WALL_CLOCK_TIME): wall_ms,
        }

    def init(self, context: ProcessorContext[str, str]) -> None:
        self.told.append(f"init {self.name}")
        for (clock, kind), interval_ms in self.intervals.items():
            if interval_ms > 0:
                context.schedule(interval_ms, kind, self.tell(clock))

    def tell(self, clock: str) -> Any:
        return lambda time: self.told.append(f"{clock} {self.name} {time}")

    def process(self, record: Record[str, str]) -> None:
        pass

    def close(self) -> None:
        self.told.append(f"close {self.name}")


class Stamping(Processor[str, str, str, str]):
    def __init__(self, timestamp: int) -> None:
        self.timestamp = timestamp

    def init(self, context: ProcessorContext[str, str]) -> None:
        self.context = context

    def process(self, record: Record[str, str]) -> None:
        self.context.forward(record.with_timestamp(self.timestamp))


def driven(topology: Topology, **config: Any) -> TopologyTestDriver:
    settings = {key.replace("_", "."): value for key, value in config.items()}
    return TopologyTestDriver(topology, {**STRINGS, **settings})


def pipe(driver: TopologyTestDriver, topic: str, value: str, time: int, key: str = "k") -> None:
    driver.create_input_topic(topic, STRING, STRING).pipe_input(key, value, timestamp=time)


def numbered(cases: list[dict[str, Any]]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("case", cases, ids=range(len(cases)))


@numbered(GOLDEN["orders"])
def test_processors_begin_punctuate_and_end_in_kafkas_order(case: dict[str, Any]) -> None:
    topology = Topology()
    told: list[str] = []
    for name, *rest in case["nodes"]:
        if not rest:
            topology.add_source(name, f"topic-{name}")
            continue
        parents, stream_ms, wall_ms = rest

        def supplier(name: str = name, stream: int = stream_ms, wall: int = wall_ms) -> Telling:
            return Telling(name, told, stream, wall)

        topology.add_processor(name, supplier, *parents)
    with driven(topology) as driver:
        for topic, time in case["steps"]:
            if topic:
                pipe(driver, topic, "v", time)
            else:
                driver.advance_wall_clock_ms(time)
            told.append("step")
    assert told == case["told"]


@numbered(GOLDEN["descriptions"])
def test_joins_of_any_name_are_described_as_in_kafka(case: dict[str, Any]) -> None:
    builder = StreamsBuilder()
    for number, join in enumerate(case["joins"]):
        stream: KStream[str, str] = builder.stream(f"in-{number}")
        if join["rekeyed"]:
            stream = stream.select_key(lambda _, value: value)
        joined(builder, stream, join, number).to(f"out-{number}")
    assert str(builder.build().describe()) == case["description"]


def joined(
    builder: StreamsBuilder, stream: KStream[str, str], join: dict[str, Any], number: int
) -> KStream[str, str]:
    if join["kind"] in {"inner", "left", "outer"}:
        method = {"inner": stream.join, "left": stream.left_join, "outer": stream.outer_join}
        windows = JoinWindows.of_time_difference_with_no_grace(7)
        other: KStream[str, str] = builder.stream(f"other-{number}")
        names = {"name": join["join"], "store_name": join["store"]}
        return method[join["kind"]](other, both, windows, **names)  # type: ignore[operator, no-any-return]
    options: dict[str, Any] = {"name": join["join"]}
    store = join["store"]
    if join["kind"] == "grace":
        options["grace_period_ms"] = 5
        supplier = Stores.persistent_versioned_key_value_store(
            store or f"versions-{number}", 300_000
        )
        table = builder.table(f"t-{number}", materialized=Materialized(supplier=supplier))
    else:
        table = builder.table(f"t-{number}", **({} if store is None else {"name": store}))
    return (stream.left_join if join["left"] else stream.join)(table, both, **options)


def both(left: str | None, right: str | None) -> str:
    return ("null" if left is None else left) + ("null" if right is None else right)


@numbered(GOLDEN["windows"])
def test_uneven_windows_near_the_beginning_of_time_find_what_they_find_in_kafka(
    case: dict[str, Any],
) -> None:
    builder = StreamsBuilder()
    left: KStream[str, str] = builder.stream("left")
    right: KStream[str, str] = builder.stream("right")
    windows = JoinWindows(case["before_ms"], case["after_ms"], case["grace_ms"])
    method = {"inner": left.join, "left": left.left_join, "outer": left.outer_join}[case["kind"]]
    method(right, both, windows).to("out")  # type: ignore[operator]
    with driven(builder.build()) as driver:
        output = driver.create_output_topic("out", STRING, STRING)
        for (topic, key, value, time), expected in zip(
            case["records"], case["results"], strict=True
        ):
            pipe(driver, topic, value, time, key)
            found = [
                [record.key, record.value, record.timestamp] for record in output.read_records()
            ]
            assert found == expected, (topic, key, value, time)


@numbered(GOLDEN["idle"])
def test_a_task_waits_for_empty_topics_as_in_kafka(case: dict[str, Any]) -> None:
    topology = Topology()
    sources = [f"source-{number}" for number in range(case["topics"])]
    for number, source in enumerate(sources):
        topology.add_source(source, f"in-{number}")
    topology.add_sink("sink", "out", *sources)
    with driven(topology, max_task_idle_ms=case["max_task_idle_ms"]) as driver:
        output = driver.create_output_topic("out", STRING, STRING)
        for (topic, value, time), expected in zip(case["steps"], case["results"], strict=True):
            if topic:
                pipe(driver, topic, value, time)
            else:
                driver.advance_wall_clock_ms(time)
            assert output.read_values() == expected


@numbered(GOLDEN["timestamps"])
def test_negative_timestamps_are_refused_as_in_kafka(case: dict[str, Any]) -> None:
    topology = Topology().add_source("source", "in")
    topology.add_processor("stamp", lambda: Stamping(case["timestamp"]), "source")
    topology.add_sink("sink", "out", "stamp")
    with driven(topology) as driver:
        if case["answer"] == "taken":
            pipe(driver, "in", "v", 5)
        else:
            with pytest.raises(ProcessingError, match=f"{case['timestamp']}"):
                pipe(driver, "in", "v", 5)
