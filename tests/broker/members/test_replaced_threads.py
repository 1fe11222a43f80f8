"""`set_uncaught_exception_handler`: a thread that an error has ended is replaced."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pystreams import (
    KafkaStreams,
    State,
    StreamsBuilder,
    StreamsError,
    StreamThreadExceptionResponse,
    serdes,
)
from pystreams.errors import InternalError
from tests.broker.conftest import CreateTopic
from tests.broker.reading import produce, read_all, values_by_key
from tests.broker.waiting import wait_until

if TYPE_CHECKING:
    from pystreams.broker import DevelopmentBroker


class Program:
    """A program whose function fails with `bad`, so many times."""

    def __init__(
        self, broker: DevelopmentBroker, create_topic: CreateTopic, name: str, place: Path
    ) -> None:
        self.servers = broker.bootstrap_servers
        self.source, self.output = create_topic("in"), create_topic("out")
        self.fails = 1
        self.error: type[BaseException] = ValueError
        self.errors: list[StreamsError] = []
        builder = StreamsBuilder()
        types: dict[str, Any] = {"key_serde": serdes.STRING, "value_serde": serdes.STRING}
        stream = builder.stream(self.source, **types).map_values(self._checked)
        counts = stream.group_by_key().count(name="counts", caching=False)
        counts.to_stream().to(self.output, value_serde=serdes.LONG)
        self.config = config = {
            "application.id": name,
            "bootstrap.servers": self.servers,
            "state.dir": str(place),
            "commit.interval.ms": 100,
            "processing.guarantee": "exactly_once_v2",
        }
        self.streams = KafkaStreams(builder.build(), config)

    def _checked(self, value: str) -> str:
        if value == "bad" and self.fails:
            self.fails -= 1
            raise self.error("not yet")
        return value

    def write(self, *values: str) -> None:
        produce(self.servers, self.source, [(b"k", value.encode()) for value in values])

    def counts(self) -> list[int]:
        found = values_by_key(read_all(self.servers, self.output))
        return found.get(b"k", [])


@pytest.fixture
def program(
    broker: DevelopmentBroker, create_topic: CreateTopic, unique_name: str, tmp_path: Path
) -> Program:
    return Program(broker, create_topic, unique_name, tmp_path)


def test_a_thread_that_is_replaced_goes_on_from_the_last_commit_as_the_same_member(
    program: Program,
) -> None:
    streams = program.streams

    def replace(error: StreamsError) -> StreamThreadExceptionResponse:
        program.errors.append(error)
        return StreamThreadExceptionResponse.REPLACE_THREAD

    streams.set_uncaught_exception_handler(replace)
    program.write("good", "bad", "good")
    with streams:
        wait_until(lambda: len(program.counts()) == 3, "all counts")
        wait_until(lambda: streams.state is State.RUNNING, "running again")
        values = {name.name: value for name, value in streams.metrics().items()}
        names = [thread.thread_name for thread in streams.metadata_for_local_threads()]

    assert program.counts() == [1, 2, 3]
    assert ["not yet" in str(error) for error in program.errors] == [True]
    assert values["failed-stream-threads"] == 1
    assert values["alive-stream-threads"] == 1
    assert [name.rpartition("-")[2] for name in names] == ["1"]
    assert streams.error is None


@pytest.mark.parametrize("error", [SystemExit, asyncio.CancelledError])
def test_code_that_would_end_the_process_ends_it_with_an_error_and_nothing_is_lost(
    program: Program, error: type[BaseException]
) -> None:
    program.error = error
    program.write("good", "bad", "good")
    program.streams.start()
    wait_until(lambda: program.streams.state is State.ERROR, "the end")
    told = str(program.streams.error)
    program.streams.close()

    assert f"code of the application raised {error.__name__} (not yet)" in told
    assert not isinstance(program.streams.error, InternalError)
    again = KafkaStreams(program.streams.topology, program.config)
    with again:
        wait_until(lambda: len(program.counts()) == 3, "all counts")
    assert program.counts() == [1, 2, 3]


@pytest.mark.parametrize("answer", ["shutdown", "raise", "exit"])
def test_otherwise_the_application_ends_with_the_error(program: Program, answer: str) -> None:
    def handler(_: StreamsError) -> StreamThreadExceptionResponse:
        if answer == "raise":
            raise KeyError("a mistake in the handler")
        if answer == "exit":
            raise SystemExit(3)
        return StreamThreadExceptionResponse.SHUTDOWN_CLIENT

    program.streams.set_uncaught_exception_handler(handler)
    program.write("bad")
    program.streams.start()
    wait_until(lambda: program.streams.state is State.ERROR, "the end")

    assert "not yet" in str(program.streams.error)
    assert program.counts() == []
