"""`map_values_async`: many calls under way, results in the order of the records."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from structlog.testing import capture_logs

from pystreams import (
    ConfigError,
    ProcessingError,
    Processor,
    ProcessorContext,
    Record,
    StoreEngine,
    StreamsBuilder,
    TopologyError,
    serdes,
)
from pystreams.testing import TopologyTestDriver
from tests.runtime.running_task import RunningTask
from tests.topology.conftest import Drive

STRINGS: dict[str, Any] = {"key_serde": serdes.STRING, "value_serde": serdes.STRING}


async def upper(value: str) -> str:
    await asyncio.sleep(0)
    return value.upper()


def asking(mapper: Any, **options: Any) -> RunningTask:
    builder = StreamsBuilder()
    builder.stream("in", **STRINGS).map_values_async(mapper, **options).to("out", **STRINGS)
    return RunningTask(builder.build())


def written(running: RunningTask) -> list[tuple[Any, ...]]:
    outputs = [output for output in running.task.outputs() if output.topic == "out"]
    return [record[:3] for output in outputs for record in output.records]


def test_answers_go_on_as_the_records_they_are_of(builder: StreamsBuilder, drive: Drive) -> None:
    builder.stream("in").map_values_async(upper).to("out")
    driver = drive()
    topic = driver.create_input_topic("in", serdes.STRING, serdes.STRING)
    topic.pipe_input("k", "a", timestamp=7)
    record = driver.create_output_topic("out", serdes.STRING, serdes.STRING).read_record()

    assert (record.key, record.value, record.timestamp) == ("k", "A", 7)


def test_before_a_commit_all_answers_have_come() -> None:
    running = asking(upper)
    running.run(*((str(n), f"v{n}", n) for n in range(10)))
    assert len(running.task.held)

    running.task.settle()

    assert written(running) == [(str(n).encode(), f"V{n}".encode(), n) for n in range(10)]
    assert not len(running.task.held)


def counting_what_was_asked(*, cached_above: bool) -> RunningTask:
    """A task that asks three times for each record, and counts the answers behind a cache.

    Every second call is answered only when it is waited for.
    """
    builder = StreamsBuilder()
    stream = builder.stream("in", **STRINGS)
    if cached_above:
        table = stream.to_table(name="above", store_type=StoreEngine.IN_MEMORY, caching=True)
        stream = table.to_stream()
    asked = stream.flat_map_values(lambda value: [value] * 3).map_values_async(upper)
    counts = asked.group_by_key(**STRINGS).count(
        name="counts", store_type=StoreEngine.IN_MEMORY, caching=True
    )
    counts.to_stream().to("out", key_serde=serdes.STRING, value_serde=serdes.LONG)
    return RunningTask(builder.build(), cache_enabled=True)


@pytest.mark.parametrize("cached_above", [False, True])
def test_a_row_of_a_cached_table_goes_on_once_a_commit_however_late_answers_come(
    *, cached_above: bool
) -> None:
    running = counting_what_was_asked(cached_above=cached_above)
    running.run(("k", "v", 0))

    running.task.settle()

    [(_, count, _)] = written(running)
    assert serdes.LONG.deserializer("out")(count) == 3


def test_no_more_calls_are_under_way_than_may_be() -> None:
    """Of the calls made here every second one is answered at once."""
    running = asking(upper, max_in_flight=3)
    running.read(*(("k", f"v{n}", n) for n in range(10)))

    def process() -> int:
        run = running.task.next_run(1000)
        assert run is not None
        return running.task.process(run)

    assert process() == 3
    assert len(running.task.held) == 2
    assert process() == 1
    assert not running.task.ready(0)
    assert running.task.at_rest

    running.task.settle()
    assert running.task.ready(0)


def test_records_of_one_that_is_many_are_all_called_few_at_a_time() -> None:
    most = under_way = 0

    async def noting(value: str) -> str:
        nonlocal most, under_way
        under_way += 1
        most = max(most, under_way)
        await asyncio.sleep(0.001)
        under_way -= 1
        return value

    builder = StreamsBuilder()
    many = builder.stream("in", **STRINGS).flat_map_values(lambda value: [value] * 20)
    many.map_values_async(noting, max_in_flight=4).to("out", **STRINGS)
    with TopologyTestDriver(builder.build()) as driver:
        driver.create_input_topic("in", serdes.STRING, serdes.STRING).pipe_input("k", "v")
        out = driver.create_output_topic("out", serdes.STRING, serdes.STRING)

        assert out.read_values() == ["v"] * 20
    assert 1 < most <= 4


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 3)), max_size=12),
    st.booleans(),
    st.none() | st.tuples(st.integers(1, 5), st.integers(1, 5)),
)
def test_results_of_a_key_keep_their_order_however_long_calls_take(
    records: list[tuple[str, int]], ordered: bool, batches: tuple[int, int] | None
) -> None:
    """Between two batches too."""

    async def slow(value: str) -> str:
        await asyncio.sleep(int(value.split()[1]) / 1000)
        return value

    builder = StreamsBuilder()
    many = builder.stream("in", **STRINGS).flat_map(
        lambda _, __: [(key, f"{number} {ms}") for number, (key, ms) in enumerate(records)]
    )
    if batches is not None:
        many = many.map_values_batch(list, max_batch=batches[0])
    called = many.map_values_async(slow, ordered=ordered, max_in_flight=5)
    if batches is not None:
        called = called.map_values_batch(list, max_batch=batches[1])
    called.to("out", **STRINGS)
    with TopologyTestDriver(builder.build()) as driver:
        driver.create_input_topic("in", serdes.STRING, serdes.STRING).pipe_input("k", "v")
        out = driver.create_output_topic("out", serdes.STRING, serdes.STRING).read_key_values()

    given_pairs = [(key, f"{number} {ms}") for number, (key, ms) in enumerate(records)]
    assert sorted(out) == sorted(given_pairs)
    if ordered:
        assert out == given_pairs
    for key in "abc":
        of_key = [value for other, value in out if other == key]
        assert of_key == [value for other, value in given_pairs if other == key]


class Plain:
    """A key that equals nothing but itself, as classes do that say nothing else."""

    def __init__(self, text: str) -> None:
        self.text = text


@pytest.mark.parametrize(
    "make_key", [Plain, lambda _: float("nan"), lambda text: [text], lambda _: None]
)
def test_keys_that_cannot_be_told_apart_keep_the_order_of_all(make_key: Any) -> None:
    async def sooner_and_sooner(value: int) -> int:
        await asyncio.sleep((5 - value) / 1000)
        return value

    answers: list[int] = []
    builder = StreamsBuilder()
    many = builder.stream("in", **STRINGS).flat_map(
        lambda _, __: [(make_key("same"), number) for number in range(5)]
    )
    called = many.map_values_async(sooner_and_sooner, ordered=False)
    called.foreach(lambda _, value: answers.append(value))
    with TopologyTestDriver(builder.build()) as driver:
        driver.create_input_topic("in", serdes.STRING, serdes.STRING).pipe_input("k", "v")

    assert answers == [0, 1, 2, 3, 4]


def test_a_call_that_fails_is_tried_again(builder: StreamsBuilder, drive: Drive) -> None:
    tries = 0

    async def second_time(value: str) -> str:
        nonlocal tries
        tries += 1
        if tries < 3:
            raise ConnectionError("not yet")
        return value

    builder.stream("in").map_values_async(second_time, retries=2, retry_backoff_ms=1).to("out")
    driver = drive()
    with capture_logs() as lines:
        driver.create_input_topic("in", serdes.STRING, serdes.STRING).pipe_input("k", "v")

    assert tries == 3
    assert [line["calls"] for line in lines if "called again" in line["event"]] == [2]
    out = driver.create_output_topic("out", serdes.STRING, serdes.STRING)
    assert out.read_values() == ["v"]


async def never(value: str) -> str:
    await asyncio.sleep(3600)
    return value


def not_async(value: str) -> Any:
    return value


async def parts_of(value: str) -> AsyncIterator[str]:
    yield value


def gives_an_async_generator(value: str) -> Any:
    return parts_of(value)


def gives_a_generator(value: str) -> Any:
    return (part for part in value)


async def ends(_: str) -> str:
    raise SystemExit(3)


@pytest.mark.parametrize(
    ("mapper", "told"),
    [
        (never, "TimeoutError.*offset 0.*no answer within 20 ms"),
        (not_async, "returned 'v', which can't be awaited: make it `async def`, or use map_values"),
        (gives_an_async_generator, "returned <async_generator .*let it `return` one value"),
        (gives_a_generator, "returned <generator .*let it `return` one value"),
        (ends, "SystemExit"),
    ],
)
def test_what_goes_wrong_in_a_call_is_told_with_its_record(
    builder: StreamsBuilder, drive: Drive, mapper: Any, told: str
) -> None:
    builder.stream("in").map_values_async(mapper, timeout_ms=20).to("out")
    topic = drive().create_input_topic("in", serdes.STRING, serdes.STRING)
    with pytest.raises(ProcessingError, match=told):
        topic.pipe_input("k", "v")


def test_a_handler_may_skip_the_records_whose_calls_fail(
    builder: StreamsBuilder, drive: Drive
) -> None:
    async def choosy(value: str) -> str:
        if value == "bad":
            raise ValueError(value)
        return value

    builder.stream("in").map_values_async(choosy).to("out")
    driver = drive(processing_exception_handler="continue")
    topic = driver.create_input_topic("in", serdes.STRING, serdes.STRING)
    for value in ("a", "bad", "b"):
        topic.pipe_input("k", value)

    out = driver.create_output_topic("out", serdes.STRING, serdes.STRING)
    assert out.read_values() == ["a", "b"]


def test_a_call_that_may_outlast_the_brokers_patience_is_refused(
    builder: StreamsBuilder, drive: Drive
) -> None:
    builder.stream("in").map_values_async(upper, timeout_ms=20_000, retries=1).to("out")
    with pytest.raises(
        ConfigError, match=r"40100 ms.*producer\.transaction\.timeout\.ms is 10000 ms"
    ):
        drive(processing_guarantee="exactly_once_v2")


class Greeting(Processor[str, str, str, str]):
    def init(self, context: ProcessorContext[str, str]) -> None:
        context.forward(Record("k", "hello", 1))

    def process(self, record: Record[str, str]) -> None: ...


@pytest.mark.parametrize("operation", ["map_values_async", "map_values_batch"])
def test_what_a_processor_forwards_at_its_start_is_to_be_committed(operation: str) -> None:
    builder = StreamsBuilder()
    greeted = builder.stream("in", **STRINGS).process(Greeting)
    mapper = upper if operation == "map_values_async" else list
    getattr(greeted, operation)(mapper).to("out", **STRINGS)
    running = RunningTask(builder.build())

    assert running.task.needs_commit()


def test_tables_downstream_hold_what_was_answered(builder: StreamsBuilder, drive: Drive) -> None:
    answered = builder.stream("in").map_values_async(upper)
    answered.group_by(lambda _, value: value, **STRINGS).count(name="counts")
    driver = drive()
    topic = driver.create_input_topic("in", serdes.STRING, serdes.STRING)
    for value in ("a", "b", "a"):
        topic.pipe_input("k", value)

    store = driver.get_key_value_store("counts")
    assert dict(store.all()) == {"A": 2, "B": 1}


def test_calls_take_the_time_of_one(builder: StreamsBuilder, drive: Drive) -> None:
    """Two hundred that each wait for all others could not end one by one."""
    arrived: list[asyncio.Event] = []

    async def all_there(value: str) -> str:
        event = asyncio.Event()
        arrived.append(event)
        if len(arrived) == 200:
            for other in arrived:
                other.set()
        await event.wait()
        return value

    many = builder.stream("in").flat_map_values(lambda value: [value] * 200)
    many.map_values_async(all_there, max_in_flight=200).to("out")
    driver = drive()
    driver.create_input_topic("in", serdes.STRING, serdes.STRING).pipe_input("k", "v")

    out = driver.create_output_topic("out", serdes.STRING, serdes.STRING)
    assert len(out.read_values()) == 200


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"max_in_flight": 0}, "max_in_flight is a whole number from 1"),
        ({"timeout_ms": "5"}, "timeout_ms is a whole number from 1"),
        ({"retries": -1}, "retries is a whole number from 0"),
        ({"retry": 1}, "unknown option 'retry'"),
    ],
)
def test_wrong_options_are_refused(
    builder: StreamsBuilder, options: dict[str, Any], told: str
) -> None:
    with pytest.raises(TopologyError, match=told):
        builder.stream("in").map_values_async(upper, **options)
