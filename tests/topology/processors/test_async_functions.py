"""Async functions are refused wherever a function of the user's is taken: nobody awaits them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from pystreams import (
    ConfigError,
    FixedKeyProcessor,
    KafkaStreams,
    KStream,
    Processor,
    ProcessorContext,
    PunctuationType,
    Record,
    StateRestoreListener,
    Stores,
    StreamsBuilder,
    StreamsConfig,
    Topology,
    TopologyError,
    aggregations,
    serdes,
)
from pystreams.backfill import publish, run
from pystreams.testing import TopologyTestDriver

SERDES = {"default.key.serde": "string", "default.value.serde": "string"}
REFUSED = "is async, and nobody would await"
ELSEWHERE = rf"{REFUSED}.*plain function \(def\), in which asyncio\.run\(\.\.\.\) waits"


async def answer_of(*_: Any) -> Any:
    """What a client that is async looks like."""


asked: Any = answer_of


class Asks:
    """An object that is called, and async."""

    async def __call__(self, *_: Any) -> Any:
        """As above."""


async def asked_often(*_: Any) -> AsyncIterator[str]:
    yield "answer"


FORMS: list[Callable[..., Any]] = [asked, Asks(), partial(asked), partial(Asks())]


@pytest.mark.parametrize("function", FORMS)
def test_every_form_of_an_async_function_is_refused(
    builder: StreamsBuilder, function: Callable[..., Any]
) -> None:
    with pytest.raises(
        TopologyError, match=f"map_values: .*{REFUSED}.* let map_values_async await"
    ):
        builder.stream("in").map_values(function)


def test_an_async_generator_is_refused_by_what_it_is_and_where_it_could_be_awaited(
    builder: StreamsBuilder,
) -> None:
    often: Any = asked_often
    is_one = ": asked_often is an async generator"

    with pytest.raises(TopologyError, match=rf"map_values{is_one}.* map_values_async await one"):
        builder.stream("in").map_values(often)
    with pytest.raises(TopologyError, match=rf"map_values_async{is_one}.*`return` one value"):
        builder.stream("in").map_values_async(often, with_key=True)
    with pytest.raises(TopologyError, match=r"map_values_async: .*is an async generator"):
        builder.stream("in").map_values_async(partial(often))


Stream = KStream[Any, Any]

USES: dict[str, Callable[[Stream, StreamsBuilder], object]] = {
    "filter": lambda stream, _: stream.filter(asked),
    "map": lambda stream, _: stream.map(asked),
    "flat_map_values": lambda stream, _: stream.flat_map_values(asked),
    "select_key": lambda stream, _: stream.select_key(asked),
    "foreach": lambda stream, _: stream.foreach(asked),
    "print": lambda stream, _: stream.print(mapper=asked),
    "branch": lambda stream, _: stream.split().branch(asked),
    "topic": lambda stream, _: stream.to(asked),
    "partitioner": lambda stream, _: stream.to("out", partitioner=asked),
    "repartition": lambda stream, _: stream.repartition(partitioner=asked),
    "group_by": lambda stream, _: stream.group_by(asked),
    "reduce": lambda stream, _: stream.group_by_key().reduce(asked),
    "aggregate": lambda stream, _: stream.group_by_key().aggregate(asked, asked),
    "ready aggregation": lambda stream, _: stream.group_by_key().aggregate(aggregations.sum(asked)),
    "distinct": lambda stream, _: stream.distinct(within_ms=1, by=asked),
    "joiner": lambda stream, builder: stream.join(builder.table("table"), asked),
    "timestamp_extractor": lambda _, builder: builder.stream("b", timestamp_extractor=asked),
    "supplier": lambda stream, _: stream.process(asked),
}


@pytest.mark.parametrize("use", USES)
def test_no_operation_takes_an_async_function(builder: StreamsBuilder, use: str) -> None:
    with pytest.raises(TopologyError, match=REFUSED):
        USES[use](builder.stream("in"), builder)


class AsyncProcess(Processor[str, str, str, str]):
    async def process(self, record: Any) -> None:  # type: ignore[override]
        """Forward nothing, ever."""


class AsyncInit(Processor[str, str, str, str]):
    async def init(self, context: Any) -> None:  # type: ignore[override]
        """Be ready, never."""

    def process(self, record: Any) -> None:
        """Take it."""


class AsyncClose(FixedKeyProcessor[str, str, str]):
    def process(self, record: Any) -> None:
        """Take it."""

    async def close(self) -> None:  # type: ignore[override]
        """Let go, never."""


def test_no_method_of_a_processor_may_be_async(builder: StreamsBuilder) -> None:
    stream: KStream[Any, Any] = builder.stream("in")
    with pytest.raises(
        TopologyError, match=rf"'first': AsyncProcess\.process {REFUSED}.* map_values_async"
    ):
        stream.process(AsyncProcess, name="first")
    with pytest.raises(TopologyError, match=rf"AsyncInit\.init {ELSEWHERE}"):
        Topology().add_source("source", "in").add_processor("node", AsyncInit, "source")
    with pytest.raises(TopologyError, match=rf"AsyncClose\.close {ELSEWHERE}"):
        stream.process_values(AsyncClose)


class AsyncPunctuator(Processor[str, str, str, str]):
    def init(self, context: ProcessorContext[Any, Any]) -> None:
        context.schedule(10, PunctuationType.STREAM_TIME, asked)

    def process(self, record: Any) -> None:
        """Take it."""


def test_a_punctuator_may_not_be_async(builder: StreamsBuilder) -> None:
    builder.stream("in").process(AsyncPunctuator, name="node")

    with pytest.raises(TopologyError, match=f"processor 'node': punctuator: answer_of {ELSEWHERE}"):
        TopologyTestDriver(builder.build(), SERDES)


@pytest.mark.parametrize(
    "key",
    [
        "default.timestamp.extractor",
        "deserialization.exception.handler",
        "processing.exception.handler",
        "production.exception.handler",
        "rocksdb.config.setter",
    ],
)
def test_no_function_of_the_configuration_may_be_async(key: str) -> None:
    with pytest.raises(ConfigError, match=rf"{key} = .* {ELSEWHERE}"):
        StreamsConfig.of({"application.id": "a", "bootstrap.servers": "one:9092", key: asked})


CLIENT = {"application.id": "a", "bootstrap.servers": "none:1", **SERDES}


class AsyncListener(StateRestoreListener):
    async def on_restore_end(self, *_: Any) -> None:  # type: ignore[override]
        """Be glad, never."""


CALLBACKS: dict[str, Callable[[KafkaStreams], object]] = {
    "set_state_listener: listener: answer_of": lambda it: it.set_state_listener(asked),
    "set_uncaught_exception_handler: handler: answer_of": (
        lambda it: it.set_uncaught_exception_handler(asked)
    ),
    r"set_global_state_restore_listener: listener: AsyncListener\.on_restore_end": (
        lambda it: it.set_global_state_restore_listener(AsyncListener())
    ),
}


@pytest.mark.parametrize("named", CALLBACKS)
def test_no_callback_of_a_client_may_be_async(builder: StreamsBuilder, named: str) -> None:
    builder.stream("in").to("out")
    streams = KafkaStreams(builder.build(), CLIENT)

    with pytest.raises(TopologyError, match=f"{named} {ELSEWHERE}"):
        CALLBACKS[named](streams)


def test_a_restore_listener_that_is_a_function_is_refused(builder: StreamsBuilder) -> None:
    builder.stream("in").to("out")
    listener: Any = print

    with pytest.raises(TopologyError, match="listener must be a StateRestoreListener, not"):
        KafkaStreams(builder.build(), CLIENT).set_global_state_restore_listener(listener)


def test_what_is_told_of_a_test_or_a_backfill_may_not_be_async(
    builder: StreamsBuilder, tmp_path: Path
) -> None:
    builder.stream("in").to("out")
    topology = builder.build()

    with pytest.raises(TopologyError, match=f"TopologyTestDriver: trace: answer_of {ELSEWHERE}"):
        TopologyTestDriver(topology, SERDES, trace=asked)
    with pytest.raises(TopologyError, match=f"run: progress: answer_of {ELSEWHERE}"):
        run(topology, CLIENT, output=tmp_path, progress=asked)
    with pytest.raises(TopologyError, match=f"publish: progress: answer_of {ELSEWHERE}"):
        publish(topology, CLIENT, output=tmp_path, progress=asked)


class AsyncMethod:
    """A serde that would ask somebody which function it is."""

    async def serializer(self, topic: str) -> Any:
        """Return a function, never."""

    def deserializer(self, topic: str) -> Any:
        return bytes.decode


class AsyncParts:
    """A serde with functions that ask somebody."""

    def __init__(self, serializer: Any, deserializer: Any) -> None:
        self._serializer, self._deserializer = serializer, deserializer

    def serializer(self, topic: str) -> Any:
        return self._serializer

    def deserializer(self, topic: str) -> Any:
        return self._deserializer


def test_no_method_of_a_serde_may_be_async(builder: StreamsBuilder) -> None:
    serde: Any = AsyncMethod()

    with pytest.raises(TopologyError, match=rf"value_serde: AsyncMethod\.serializer {ELSEWHERE}"):
        builder.stream("in", value_serde=serde)
    with pytest.raises(TopologyError, match=rf"key_serde: AsyncMethod\.serializer {ELSEWHERE}"):
        Stores.key_value_store_builder(Stores.in_memory_key_value_store("s"), serde, serdes.LONG)


WRITES, READS = AsyncParts(asked, bytes.decode), AsyncParts(str.encode, asked)
SERDE_USES: dict[str, Callable[[StreamsBuilder], object]] = {
    "source": lambda builder: builder.stream("in", value_serde=READS),
    "source of keys": lambda builder: builder.stream("in", key_serde=READS),
    "sink": lambda builder: builder.stream("in").to("out", value_serde=WRITES),
    "store that is read": lambda builder: (
        builder.stream("in").group_by_key().reduce(lambda _, new: new, value_serde=READS)
    ),
    "store that is written": lambda builder: (
        builder.stream("in").group_by_key().reduce(lambda _, new: new, value_serde=WRITES)
    ),
    "rows of a table that are grouped anew": lambda builder: (
        builder.table("in").group_by(lambda _, value: (value, value), value_serde=WRITES).count()
    ),
    "rows of a table that are read, grouped anew": lambda builder: (
        builder.table("in").group_by(lambda _, value: (value, value), value_serde=READS).count()
    ),
    "state of a ready aggregation": lambda builder: (
        builder.stream("in").group_by_key().aggregate(aggregations.last(serde=WRITES))
    ),
    "state of a ready aggregation that is read": lambda builder: (
        builder.stream("in").group_by_key().aggregate(aggregations.collect(limit=3, serde=READS))
    ),
    "states of several": lambda builder: (
        builder.stream("in")
        .group_by_key()
        .aggregate(aggregations.several(newest=aggregations.last(serde=READS)))
    ),
    "what records are told apart by": lambda builder: builder.stream("in").distinct(
        within_ms=10, by=lambda _, value: value, by_serde=WRITES
    ),
}


@pytest.mark.parametrize("use", SERDE_USES)
def test_a_serde_with_an_async_function_is_refused_before_the_first_record(
    builder: StreamsBuilder, use: str
) -> None:
    SERDE_USES[use](builder)
    topology = builder.build()

    returned = rf"AsyncParts\.(de)?serializer returned answer_of, which {ELSEWHERE}"
    with pytest.raises(TopologyError, match=returned):
        TopologyTestDriver(topology, SERDES)


def test_what_is_async_is_waited_for_in_plain_functions_as_a_refusal_advises(
    builder: StreamsBuilder,
) -> None:
    async def upper(text: str) -> str:
        return text.upper()

    def shout(_topic: str) -> Any:
        return lambda value: asyncio.run(upper(value)).encode()

    class Punctuates(Processor[str, str, str, str]):
        def init(self, context: ProcessorContext[str, str]) -> None:
            def say(time_ms: int) -> None:
                context.forward(Record("k", asyncio.run(upper("due")), time_ms))

            context.schedule(10, PunctuationType.WALL_CLOCK_TIME, say)

        def process(self, record: Any) -> None:
            """Take it."""

    shouting: Any = AsyncParts(shout("out"), bytes.decode)
    builder.stream("in").process(Punctuates).to("out", value_serde=shouting)
    hops: list[str] = []
    with TopologyTestDriver(
        builder.build(), SERDES, trace=lambda _: hops.append(asyncio.run(upper("hop")))
    ) as driver:
        driver.advance_wall_clock_ms(10)
        output = driver.create_output_topic("out", serdes.STRING, serdes.STRING)

        assert output.read_key_values() == [("k", "DUE")]
    assert set(hops) == {"HOP"}
