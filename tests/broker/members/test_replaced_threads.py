"""`set_uncaught_exception_handler`: a thread that an error has ended is replaced."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from structlog.testing import capture_logs

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
from tests.broker.reading import group_members, produce, read_all, values_by_key
from tests.broker.waiting import wait_until

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

    from pystreams.broker import DevelopmentBroker


class Program:
    """A program whose function fails with `bad`, so many times."""

    def __init__(
        self,
        broker: DevelopmentBroker,
        create_topic: CreateTopic,
        name: str,
        place: Path,
        *,
        threads: int = 1,
    ) -> None:
        self.servers = broker.bootstrap_servers
        self.source, self.output = create_topic("in", partitions=threads), create_topic("out")
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
            "num.stream.threads": threads,
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


@pytest.fixture
def two_threads(
    broker: DevelopmentBroker, create_topic: CreateTopic, unique_name: str, tmp_path: Path
) -> Program:
    return Program(broker, create_topic, unique_name, tmp_path, threads=2)


def test_the_other_threads_keep_their_tasks_while_one_is_replaced_again_and_again(
    two_threads: Program, admin: AdminClient, unique_name: str
) -> None:
    program, streams = two_threads, two_threads.streams
    program.fails = 3

    def replace(error: StreamsError) -> StreamThreadExceptionResponse:
        program.errors.append(error)
        return StreamThreadExceptionResponse.REPLACE_THREAD

    streams.set_uncaught_exception_handler(replace)
    with capture_logs() as logs, streams:
        wait_until(
            lambda: (
                [len(thread.active_tasks) for thread in streams.metadata_for_local_threads()]
                == [1, 1]
            ),
            "a task each",
        )
        wait_until(lambda: streams.state is State.RUNNING, "running")
        logs.clear()
        program.write("good", "bad", "good")
        wait_until(lambda: len(program.counts()) == 3, "all counts")
        revoked = {log["thread"] for log in logs if log["event"] == "partitions revoked"}
        lives = group_members(admin, unique_name)

    replaced = {log["thread"] for log in logs if log["event"] == "stream thread replaced"}
    assert len(program.errors) == 3
    assert revoked == replaced
    assert len(replaced) == 1
    assert lives == 2
    assert group_members(admin, unique_name) == 0  # It made its state directory in this run.


@pytest.mark.parametrize(("leaves", "members"), [(None, 0), (False, 1)])
def test_a_process_that_stops_before_a_thread_is_replaced_leaves_the_group_as_otherwise(
    program: Program, admin: AdminClient, unique_name: str, leaves: bool | None, members: int
) -> None:
    def replace(_: StreamsError) -> StreamThreadExceptionResponse:
        program.streams.close(0, leave_group=leaves)
        return StreamThreadExceptionResponse.REPLACE_THREAD

    program.streams.set_uncaught_exception_handler(replace)
    program.write("bad")
    program.streams.start()
    program.streams.wait()

    assert group_members(admin, unique_name) == members


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
