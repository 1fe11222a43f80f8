"""Functions with a `yield` where a call is to do something: nothing of them would run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

from pystreams import (
    KStream,
    Processor,
    ProcessorContext,
    PunctuationType,
    StreamsBuilder,
    TimeWindows,
    Topology,
    TopologyError,
)
from pystreams.serdes import STRING
from pystreams.testing import TopologyTestDriver

Stream = KStream[Any, Any]
SERDES = {"default.key.serde": "string", "default.value.serde": "string"}
REFUSED = "has a yield, so that a call runs nothing of it"


def yielding(*given: Any) -> Iterator[Any]:
    yield from given


class Yields:
    """An object that is called, and yields."""

    def __call__(self, *given: Any) -> Iterator[Any]:
        yield from given


generator: Any = yielding
WINDOWS = TimeWindows.of_size_with_no_grace(10)

USES: dict[str, Callable[[Stream, StreamsBuilder], object]] = {
    "filter": lambda stream, _: stream.filter(generator),
    "filter_not": lambda stream, _: stream.filter_not(generator),
    "peek": lambda stream, _: stream.peek(generator),
    "foreach": lambda stream, _: stream.foreach(generator),
    "branch": lambda stream, _: stream.split().branch(generator),
    "late": lambda stream, _: stream.group_by_key().windowed_by(WINDOWS, late=generator),
    "filter of a table": lambda _, builder: builder.table("table").filter(generator),
    "filter_not of a table": lambda _, builder: builder.table("table").filter_not(generator),
}


@pytest.mark.parametrize("use", USES)
def test_an_operation_that_goes_over_no_result_takes_no_generator(
    builder: StreamsBuilder, use: str
) -> None:
    with pytest.raises(TopologyError, match=f": yielding {REFUSED}"):
        USES[use](builder.stream("in"), builder)


@pytest.mark.parametrize("function", [partial(yielding), Yields(), partial(Yields())])
def test_every_form_of_a_generator_is_refused(
    builder: StreamsBuilder, function: Callable[..., Any]
) -> None:
    with pytest.raises(TopologyError, match=REFUSED):
        builder.stream("in").foreach(function)


class YieldsFromProcess(Processor[str, str, str, str]):
    def process(self, record: Any) -> Iterator[Any]:  # type: ignore[override]
        yield record


class YieldsFromInit(Processor[str, str, str, str]):
    def init(self, context: Any) -> Iterator[Any]:  # type: ignore[override]
        yield context

    def process(self, record: Any) -> None:
        """Take it."""


def test_no_method_of_a_processor_may_be_a_generator(builder: StreamsBuilder) -> None:
    with pytest.raises(TopologyError, match=rf"'node': YieldsFromProcess\.process {REFUSED}"):
        builder.stream("in").process(YieldsFromProcess, name="node")
    with pytest.raises(TopologyError, match=rf"YieldsFromInit\.init {REFUSED}"):
        Topology().add_source("source", "in").add_processor("node", YieldsFromInit, "source")


class YieldsFromPunctuator(Processor[str, str, str, str]):
    def init(self, context: ProcessorContext[Any, Any]) -> None:
        context.schedule(10, PunctuationType.STREAM_TIME, generator)

    def process(self, record: Any) -> None:
        """Take it."""


def test_a_punctuator_may_not_be_a_generator(builder: StreamsBuilder) -> None:
    builder.stream("in").process(YieldsFromPunctuator, name="node")

    with pytest.raises(TopologyError, match=f"processor 'node': punctuator: yielding {REFUSED}"):
        TopologyTestDriver(builder.build(), SERDES)


def test_what_goes_over_results_takes_generators(builder: StreamsBuilder, drive: Any) -> None:
    twice: Stream = builder.stream("in").flat_map_values(yielding)
    twice.map_values_batch(lambda values: (value for value in values)).to("out")

    driver = drive()
    driver.create_input_topic("in", STRING, STRING).pipe_input("a", "x")

    assert driver.create_output_topic("out", STRING, STRING).read_values() == ["x"]
