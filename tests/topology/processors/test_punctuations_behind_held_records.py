"""A punctuation on stream time comes behind the record that makes it due, where that has waited."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from pystreams import (
    BufferConfig,
    KStream,
    Processor,
    ProcessorContext,
    PunctuationType,
    Record,
    Retry,
    Stores,
    StreamsBuilder,
    Suppressed,
    serdes,
)
from pystreams.stores.kinds.suppress import store as suppression_buffer
from tests.runtime.running_task import RunningTask
from tests.topology.conftest import Drive

STRINGS: dict[str, Any] = {"key_serde": serdes.STRING, "value_serde": serdes.STRING}
Stream = KStream[str, str]
Tick = tuple[str, str, int]
CLOCK = PunctuationType.STREAM_TIME


class Ticking(Processor[str, str, str, str]):
    """Forwards records as they are, and a tick every 10 ms."""

    def __init__(self, tick: str = "tick", kind: PunctuationType = CLOCK) -> None:
        self._tick, self._kind = tick, kind

    def init(self, context: ProcessorContext[str, str]) -> None:
        self._context = context
        self._schedule = context.schedule(10, self._kind, self.tick)

    def process(self, record: Record[str, str]) -> None:
        self._context.forward(record)

    def tick(self, time_ms: int) -> None:
        self._context.forward(Record("-", self._tick, time_ms))


class TickingUntilC(Ticking):
    """Ends its ticks with the record C."""

    def process(self, record: Record[str, str]) -> None:
        super().process(record)
        if record.value == "C":
            self._schedule.cancel()


class TickingFromTheFirstRecordOn(Ticking):
    """Schedules its ticks as the first record comes."""

    def init(self, context: ProcessorContext[str, str]) -> None:
        self._context, self._begun = context, False

    def process(self, record: Record[str, str]) -> None:
        super().process(record)
        if not self._begun:
            self._begun = True
            self._context.schedule(10, self._kind, self.tick)


class Greeting(Processor[str, str, str, str]):
    """Forwards a record as it starts, and those that come."""

    def init(self, context: ProcessorContext[str, str]) -> None:
        self._context = context
        context.forward(Record("-", "hello", 0))

    def process(self, record: Record[str, str]) -> None:
        self._context.forward(record)


async def upper(value: str) -> str:
    await asyncio.sleep(0.005)
    return value.upper()


def asked(stream: Stream) -> Stream:
    return stream.map_values_async(upper)


def asked_out_of_order(stream: Stream) -> Stream:
    return stream.map_values_async(upper, ordered=False)


def asked_twice(stream: Stream) -> Stream:
    return asked(asked(stream).map_values_batch(list))


def ticking(calls: Callable[[Stream], Stream], processor: Any = Ticking) -> RunningTask:
    """A task of which every second call is answered only when it is waited for."""
    builder = StreamsBuilder()
    calls(builder.stream("in", **STRINGS)).process(processor).to("out", **STRINGS)
    return RunningTask(builder.build())


def written(running: RunningTask) -> list[Tick]:
    deserialize = serdes.STRING.deserializer("out")
    outputs = [output for output in running.task.outputs() if output.topic == "out"]
    return [
        (deserialize(key or b""), deserialize(value or b""), timestamp)
        for output in outputs
        for key, value, timestamp, _ in output.records
    ]


def turn(running: RunningTask) -> int:
    """Process one run, and fire what is due, as a thread does; return how many records it had."""
    assert running.task.ready(0)
    run = running.task.next_run(1000)
    assert run is not None
    processed = running.task.process(run)
    running.task.punctuate_stream_time()
    return processed


@pytest.mark.parametrize("calls", [asked, asked_out_of_order, asked_twice])
def test_a_record_that_waits_for_its_answer_comes_before_the_punctuation_it_makes_due(
    builder: StreamsBuilder, drive: Drive, calls: Callable[[Stream], Stream]
) -> None:
    calls(builder.stream("in")).process(Ticking).to("out")
    driver = drive()
    topic = driver.create_input_topic("in", serdes.STRING, serdes.STRING)
    for value, timestamp in (("a", 0), ("b", 5), ("c", 10)):
        topic.pipe_input("k", value, timestamp=timestamp)

    out = driver.create_output_topic("out", serdes.STRING, serdes.STRING)
    records = [(record.value, record.timestamp) for record in out.read_records()]
    assert records == [("A", 0), ("tick", 0), ("B", 5), ("C", 10), ("tick", 10)]


def test_a_record_that_is_tried_again_comes_before_the_punctuation_it_makes_due(
    builder: StreamsBuilder, drive: Drive
) -> None:
    failures = [TimeoutError("no answer"), TimeoutError("no answer")]

    def ask(value: str) -> str:
        if failures:
            raise failures.pop()
        return value.upper()

    builder.stream("in").map_values(ask, retry=Retry(on=TimeoutError)).process(Ticking).to("out")
    driver = drive()
    topic = driver.create_input_topic("in", serdes.STRING, serdes.STRING)
    out = driver.create_output_topic("out", serdes.STRING, serdes.STRING)

    topic.pipe_input("k", "a", timestamp=0)
    topic.pipe_input("k", "b", timestamp=10)
    driver.advance_wall_clock_ms(100)
    assert out.is_empty()
    driver.advance_wall_clock_ms(200)

    assert out.read_values() == ["A", "tick", "B", "tick"]


def test_a_task_that_waits_for_the_records_of_another_topic_fires_meanwhile(
    builder: StreamsBuilder, drive: Drive
) -> None:
    failures = [TimeoutError("no answer")]

    def ask(value: str) -> str:
        if failures:
            raise failures.pop()
        return value.upper()

    both = builder.stream("in").merge(builder.stream("other"))
    both.map_values(ask, retry=Retry(on=TimeoutError)).process(Ticking).to("out")
    driver = drive(max_task_idle_ms=1000)
    driver.create_input_topic("in", serdes.STRING, serdes.STRING).pipe_input("k", "a", timestamp=0)
    other = driver.create_input_topic("other", serdes.STRING, serdes.STRING)
    other.pipe_input("k", "b", timestamp=5)
    out = driver.create_output_topic("out", serdes.STRING, serdes.STRING)

    driver.advance_wall_clock_ms(100)
    assert out.read_values() == ["A", "tick"]
    driver.advance_wall_clock_ms(1000)
    assert out.read_values() == ["B"]


def test_what_a_record_lets_go_in_portions_comes_before_the_punctuation_it_makes_due(
    builder: StreamsBuilder, drive: Drive, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(suppression_buffer, "PORTION_BYTES", 64)
    failures: dict[str, list[Exception]] = {"last": [TimeoutError("no answer")]}

    def ask(value: str) -> str:
        if failures.get(value):
            raise failures[value].pop()
        return value

    table = builder.stream("in").map_values(ask, retry=Retry(on=TimeoutError)).to_table()
    waiting = table.suppress(Suppressed.until_time_limit(900, BufferConfig.unbounded()))
    waiting.to_stream().process(Ticking).to("out")
    driver = drive(statestore_cache_max_bytes=0)
    topic = driver.create_input_topic("in", serdes.STRING, serdes.STRING)
    for number in range(9):
        topic.pipe_input(f"k{number}", "v", timestamp=number)
    topic.pipe_input("k", "last", timestamp=1000)

    driver.advance_wall_clock_ms(100)

    out = driver.create_output_topic("out", serdes.STRING, serdes.STRING)
    assert out.read_values() == ["tick", *["v"] * 9, "tick"]


@pytest.mark.parametrize("calls", [asked, asked_out_of_order])
def test_nothing_is_processed_between_a_record_and_the_punctuation_it_makes_due(
    calls: Callable[[Stream], Stream],
) -> None:
    running = ticking(calls)
    running.read(*((key, key, time) for key, time in (("a", 0), ("b", 10), ("c", 15), ("d", 19))))

    assert turn(running) == 1
    assert written(running) == [("a", "A", 0), ("-", "tick", 0)]
    assert turn(running) == 1
    assert not running.task.ready(0)
    assert running.task.at_rest

    running.task.held.settle()

    assert turn(running) == 0
    assert written(running)[2:] == [("b", "B", 10), ("-", "tick", 10)]
    assert turn(running) == 2


def test_a_commit_brings_the_punctuation_that_has_waited() -> None:
    running = ticking(asked)
    running.read(("a", "a", 0), ("b", "b", 10))
    turn(running)
    turn(running)

    running.task.settle()

    assert written(running)[2:] == [("b", "B", 10), ("-", "tick", 10)]
    assert running.task.at_rest


def test_a_punctuation_above_the_calls_does_not_wait_for_them() -> None:
    builder = StreamsBuilder()
    processed = builder.stream("in", **STRINGS).process(Ticking)
    processed.to("above", **STRINGS)
    asked(processed).to("out", **STRINGS)
    running = RunningTask(builder.build())
    running.read(("a", "a", 0), ("b", "b", 10), ("c", "c", 20))

    assert [turn(running) for _ in range(3)] == [1, 1, 1]
    assert len(running.task.held)
    [above] = [output for output in running.task.outputs() if output.topic == "above"]
    assert [record[1] for record in above.records] == [b"a", b"tick", b"b", b"tick", b"c", b"tick"]


def test_what_one_punctuation_sends_comes_before_the_next_one(
    builder: StreamsBuilder, drive: Drive
) -> None:
    above = builder.stream("in").process(lambda: Ticking("above"))
    asked(above).process(lambda: Ticking("below")).to("out")
    driver = drive()
    topic = driver.create_input_topic("in", serdes.STRING, serdes.STRING)
    topic.pipe_input("k", "a", timestamp=0)

    out = driver.create_output_topic("out", serdes.STRING, serdes.STRING)
    assert out.read_values() == ["A", "ABOVE", "below"]


def test_a_record_that_has_waited_is_followed_by_the_punctuation_it_schedules(
    builder: StreamsBuilder, drive: Drive
) -> None:
    asked(builder.stream("in")).process(TickingFromTheFirstRecordOn).to("out")
    driver = drive()
    topic = driver.create_input_topic("in", serdes.STRING, serdes.STRING)
    topic.pipe_input("k", "a", timestamp=3)
    topic.pipe_input("k", "b", timestamp=4)

    out = driver.create_output_topic("out", serdes.STRING, serdes.STRING)
    records = [(record.value, record.timestamp) for record in out.read_records()]
    assert records == [("A", 3), ("tick", 3), ("B", 4)]


def test_without_any_record_there_is_no_stream_time_that_makes_one_due() -> None:
    """Though it is scheduled as a record goes on: one that a processor forwarded at its start."""
    running = ticking(lambda stream: asked(stream.process(Greeting)), TickingFromTheFirstRecordOn)
    running.task.settle()

    assert turn(running) == 0
    assert running.task.at_rest
    assert written(running) == [("-", "HELLO", 0)]
    running.read(("a", "a", 7))
    turn(running)
    running.task.settle()
    assert written(running)[1:] == [("a", "A", 7), ("-", "tick", 7)]


def test_a_punctuation_on_the_wall_clock_waits_for_nothing() -> None:
    running = ticking(asked, lambda: Ticking(kind=PunctuationType.WALL_CLOCK_TIME))
    running.read(("a", "a", 0), ("b", "b", 0))
    turn(running)
    assert len(running.task.held)

    assert running.task.punctuate_wall_clock(10) == 1
    assert written(running) == [("a", "A", 0), ("-", "tick", 10)]


def test_a_record_may_cancel_the_punctuation_that_waits_for_it() -> None:
    running = ticking(asked, TickingUntilC)
    running.read(("a", "a", 0), ("b", "b", 5), ("b", "b", 6), ("c", "c", 10), ("d", "d", 20))
    turn(running)
    assert turn(running) == 3
    running.task.held.settle()

    assert turn(running) == 0
    assert turn(running) == 1
    assert [value for _, value, _ in written(running)] == ["A", "tick", "B", "B", "C", "D"]


class Keeping(Processor[str, str, None, None]):
    """Keeps all values in a store."""

    def init(self, context: ProcessorContext[None, None]) -> None:
        self._store: Any = context.get_state_store("kept")

    def process(self, record: Record[str, str]) -> None:
        self._store.put(record.value, record.value)


class Telling(Processor[str, str, str, str]):
    """Tells every 10 ms what another processor has kept."""

    def init(self, context: ProcessorContext[str, str]) -> None:
        self._context = context
        self._store: Any = context.get_state_store("kept")
        context.schedule(10, PunctuationType.STREAM_TIME, self.tell)

    def process(self, record: Record[str, str]) -> None: ...

    def tell(self, time_ms: int) -> None:
        kept = " ".join(key for key, _ in self._store.all())
        self._context.forward(Record("-", kept, time_ms))


def test_a_punctuation_finds_in_a_store_what_the_record_that_makes_it_due_has_left_there(
    builder: StreamsBuilder, drive: Drive
) -> None:
    supplied = Stores.in_memory_key_value_store("kept")
    builder.add_state_store(Stores.key_value_store_builder(supplied, serdes.STRING, serdes.STRING))
    stream = builder.stream("in")
    asked(stream).process(Keeping, stores=["kept"])
    stream.process(Telling, stores=["kept"]).to("out")
    driver = drive()
    topic = driver.create_input_topic("in", serdes.STRING, serdes.STRING)
    topic.pipe_input("k", "a", timestamp=0)
    topic.pipe_input("k", "b", timestamp=10)

    out = driver.create_output_topic("out", serdes.STRING, serdes.STRING)
    assert out.read_values() == ["A", "A B"]


def test_a_task_that_starts_again_does_not_wait_for_what_it_has_dropped() -> None:
    running = ticking(asked)
    running.read(("a", "a", 0), ("b", "b", 10))
    turn(running)
    turn(running)
    assert not running.task.ready(0)

    running.restart(committed=None)
    running.read(("c", "c", 20))

    assert turn(running) == 1
    assert [value for _, value, _ in written(running)] == ["C", "tick"]
