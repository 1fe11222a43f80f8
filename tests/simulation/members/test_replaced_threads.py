"""A stream thread that is to be replaced, where its clients can't be made."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import cast

import pytest
from structlog.testing import capture_logs

from pystreams import StreamsBuilder, StreamsError, StreamThreadExceptionResponse, serdes
from pystreams.runtime.application.uncaught_errors import ThreadRunner
from pystreams.runtime.loop.stream_thread import StreamThread
from pystreams.testing.simulation import (
    Faults,
    ManualClock,
    SimulatedBroker,
    SimulatedDisk,
    SimulatedProcess,
)
from pystreams.testing.simulation.clients import SimulatedClients
from pystreams.testing.simulation.clock import ManualEvent
from pystreams.testing.simulation.consumers import SimulatedConsumer

pytestmark = pytest.mark.simulation

REPLACE = StreamThreadExceptionResponse.REPLACE_THREAD
SHUTDOWN = StreamThreadExceptionResponse.SHUTDOWN_CLIENT
SHUTDOWN_ALL = StreamThreadExceptionResponse.SHUTDOWN_APPLICATION


class ScarceClients(SimulatedClients):
    """Makes two consumers, and not the next ones; afterwards there is room again."""

    made = 0
    too_many = 1

    def consumer(self, client_id: str, group_instance_id: str) -> SimulatedConsumer:
        self.made += 1
        if 2 < self.made <= 2 + self.too_many:
            raise RuntimeError("no room for a thread")
        return super().consumer(client_id, group_instance_id)


class Program:
    """One thread, whose function fails with the first record it sees."""

    def __init__(
        self,
        place: Path,
        handler: Callable[[StreamsError], object],
        clients: type[ScarceClients] = ScarceClients,
    ) -> None:
        self.calls = 0
        self.asked: list[str] = []
        self.told: list[StreamsError] = []
        self._handler = handler
        faults, self.clock = Faults(0), ManualClock(1_000_000)
        self.broker = SimulatedBroker(self.clock, faults, session_timeout_ms=3000)
        for topic in ("in", "out"):
            self.broker.create_topic(topic, 1)
        builder = StreamsBuilder()
        stream = builder.stream("in", key_serde=serdes.STRING, value_serde=serdes.STRING)
        stream.map_values(self._checked).to("out", value_serde=serdes.STRING)
        process = SimulatedProcess(
            builder.build(),
            {"application.id": "app"},
            self.broker,
            SimulatedDisk(place, faults),
            make_clients=clients,
        )
        process.start()
        parts = process._parts(1, {"in": 1})
        process.stop()
        self.broker.produce("in", b"k", b"v", 1)
        self.threads = [StreamThread(1, parts)]
        self.runner = ThreadRunner(
            self.threads, parts, self._answer, ManualEvent(self.clock), self._failed
        )

    def _checked(self, value: str) -> str:
        self.calls += 1
        if self.calls == 1:
            raise ValueError("not yet")
        self.threads[0].stop()
        return value

    def _answer(self, error: StreamsError) -> StreamThreadExceptionResponse:
        self.asked.append(str(error))
        return cast("StreamThreadExceptionResponse", self._handler(error))

    def _failed(self, error: StreamsError, _leave_group: bool | None) -> None:
        self.told.append(error)
        self.members_then = self.broker.group.members()


def test_the_handler_is_asked_again_where_the_thread_in_its_place_can_not_be_made(
    tmp_path: Path,
) -> None:
    program = Program(tmp_path, lambda _: REPLACE)
    with capture_logs() as logs:
        program.runner.run(0)
    program.broker.settle()

    assert ["not yet" in asked for asked in program.asked] == [True, False]
    assert "no room for a thread" in program.asked[1]
    assert program.told == []
    assert program.runner.replaced == 1
    assert len(program.broker.committed_records("out")) == 1
    (line,) = [log for log in logs if log["event"] == "stream thread can't be replaced"]
    assert line["thread"] == program.threads[0].name


def test_a_client_that_is_not_to_try_again_ends_with_why_its_thread_could_not_be_replaced(
    tmp_path: Path,
) -> None:
    program = Program(tmp_path, lambda error: REPLACE if "not yet" in str(error) else SHUTDOWN)
    program.runner.run(0)

    (told,) = program.told
    assert isinstance(told.__cause__, RuntimeError)
    assert program.runner.replaced == 0


class CrampedClients(ScarceClients):
    """Makes no third consumer, and no fourth one."""

    too_many = 2


@pytest.mark.parametrize("last", [SHUTDOWN, SHUTDOWN_ALL])
def test_a_member_leaves_whose_thread_can_not_be_replaced_at_the_second_try_either(
    last: StreamThreadExceptionResponse, tmp_path: Path
) -> None:
    answers = [REPLACE, REPLACE, last]
    program = Program(tmp_path, lambda _: answers.pop(0), CrampedClients)
    program.runner.run(0)

    assert answers == []
    assert len(program.told) == 1
    assert program.members_then == []


def test_who_survives_leaves_too_where_the_application_is_to_stop_as_no_thread_can_be_made(
    tmp_path: Path,
) -> None:
    answers = [REPLACE, SHUTDOWN_ALL]
    program = Program(tmp_path, lambda _: answers.pop(0))
    program.threads[0].leave_group = False
    program.runner.run(0)

    assert program.members_then == []


@pytest.mark.parametrize("answer", [None, "REPLACE_THREAD", 7])
def test_a_handler_that_gives_no_answer_is_told_and_stops_the_application(
    tmp_path: Path, answer: object
) -> None:
    program = Program(tmp_path, lambda _: answer)

    with capture_logs() as logs:
        program.runner.run(0)

    assert ["not yet" in str(error) for error in program.told] == [True]
    (told,) = [log for log in logs if "uncaught exception handler" in log["event"]]
    assert told["error"].startswith(f"it returned {answer!r}, which counts as SHUTDOWN_CLIENT")
