"""Records that can't be decoded, and code that raises: stop with the place, or go on without."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from pystreams.broker import DevelopmentBroker
from pystreams.runtime.loop.stream_thread import StreamThread
from tests.broker.application import Application
from tests.broker.conftest import CreateTopic
from tests.broker.programs import write_counts
from tests.broker.reading import (
    Record,
    committed_offsets,
    produce,
    read_all,
    values_by_key,
)
from tests.variants import first_of

GOOD = 20
BAD_OFFSET = 7
RAISES = "1 // (value - 7)"

each_guarantee = pytest.mark.parametrize(
    "guarantee",
    first_of("exactly_once_v2", "exactly_once", "at_least_once"),
)


# What is to show how bugs are told plants one.
A_BUG = """
from pystreams.runtime.core.task import StreamTask

def process(self, queue, count, room_bytes=None):
    raise KeyError("internal")

StreamTask.process = process
"""


@dataclass(frozen=True, slots=True)
class Counting:
    """An application that counts, and its topics."""

    servers: str
    admin: AdminClient
    name: str
    source: str
    output: str
    directory: Path

    def application(self, guarantee: str, function: str = "value") -> Application:
        settings = {
            "bootstrap.servers": self.servers,
            "processing.guarantee": guarantee,
            "commit.interval.ms": 600_000 if guarantee == "at_least_once" else 100,
            "statestore.cache.max.bytes": 0,
        }
        file = write_counts(self.directory, self.source, self.output, function)
        return Application(self.name, self.directory, file, settings)

    def produce(self, *records: Record) -> None:
        produce(self.servers, self.source, records)

    def counted(self) -> list[int]:
        return values_by_key(read_all(self.servers, self.output)).get(b"k", [])

    def committed(self) -> int:
        offsets = committed_offsets(self.admin, self.name)
        return offsets.get((self.source, 0), 0)


@pytest.fixture
def counting(
    broker: DevelopmentBroker,
    admin: AdminClient,
    create_topic: CreateTopic,
    unique_name: str,
    tmp_path: Path,
) -> Counting:
    servers = broker.bootstrap_servers
    return Counting(servers, admin, unique_name, create_topic(), create_topic(), tmp_path)


def numbers(*values: int) -> list[Record]:
    return [(b"k", value.to_bytes(8, "big")) for value in values]


@each_guarantee
def test_undecodable_record_stops_the_application_with_its_place_and_a_cure(
    counting: Counting, guarantee: str
) -> None:
    counting.produce(*numbers(*range(BAD_OFFSET)), (b"k", b"bad"), *numbers(8, 9))

    with counting.application(guarantee) as application:
        running = application.start()
        assert running.ended() == 1, running.tail()

    error = running.lines("stopped by an error")[0]
    assert error["kind"] == "SerializationError"
    assert f"{counting.source}-0 offset {BAD_OFFSET}" in error["error"]
    assert "value" in error["error"]
    assert "deserialization.exception.handler=continue" in error["error"]
    assert counting.committed() <= BAD_OFFSET


@each_guarantee
def test_undecodable_record_is_skipped_where_the_handler_says_so_and_nothing_else(
    counting: Counting, guarantee: str
) -> None:
    """Also after it has stopped the application: nothing before and behind it is lost."""
    counting.produce(*numbers(*range(BAD_OFFSET)), (b"k", b"bad"), *numbers(*range(8, GOOD)))
    with counting.application(guarantee) as application:
        assert application.start().ended() == 1

        running = application.start(deserialization_exception_handler="continue")
        running.wait_until(lambda: len(counting.counted()) >= GOOD - 1, "all counted")
        running.stop()

    skipped = running.lines("record skipped")
    assert [(line["topic"], line["partition"], line["offset"]) for line in skipped] == [
        (counting.source, 0, BAD_OFFSET)
    ]
    if guarantee == "at_least_once":
        assert counting.counted()[-1] >= GOOD - 1
    else:
        assert counting.counted() == list(range(1, GOOD))
    assert counting.committed() == GOOD


@each_guarantee
def test_exception_in_user_code_stops_the_application_and_nothing_of_the_record_is_committed(
    counting: Counting, guarantee: str
) -> None:
    counting.produce(*numbers(*range(GOOD)))

    with counting.application(guarantee, RAISES) as application:
        running = application.start()
        assert running.ended() == 1, running.tail()

    error = running.lines("stopped by an error")[0]
    assert error["kind"] == "ProcessingError"
    assert f"{counting.source}-0 offset {BAD_OFFSET}" in error["error"]
    assert "ZeroDivisionError" in error["error"]
    assert "KSTREAM-MAPVALUES-0000000001" in error["error"]
    assert "processing.exception.handler=continue" in error["error"]
    lines = running.lines("stream thread failed")[0]["exception"].splitlines()
    assert lines[0].startswith(f'  File "{counting.directory / "counts.py"}", line ')
    assert lines[-1].startswith("ZeroDivisionError: ")
    assert sum("File " in line for line in lines) == 1, "the user's, without ours"
    assert counting.committed() <= BAD_OFFSET
    if guarantee != "at_least_once":
        assert len(counting.counted()) == counting.committed()


@each_guarantee
def test_application_goes_on_where_it_stopped_once_the_code_is_right(
    counting: Counting, guarantee: str
) -> None:
    counting.produce(*numbers(*range(GOOD)))
    with counting.application(guarantee, RAISES) as application:
        assert application.start().ended() == 1
    with counting.application(guarantee) as application:
        running = application.start()
        running.wait_until(lambda: len(counting.counted()) >= GOOD, "all counted")
        running.stop()

    if guarantee == "at_least_once":
        assert counting.counted()[-1] >= GOOD
    else:
        assert counting.counted() == list(range(1, GOOD + 1))
    assert counting.committed() == GOOD


@each_guarantee
def test_exception_in_user_code_skips_the_record_where_the_handler_says_so(
    counting: Counting, guarantee: str
) -> None:
    counting.produce(*numbers(*range(GOOD)))

    with counting.application(guarantee, RAISES) as application:
        running = application.start(processing_exception_handler="continue")
        running.wait_until(lambda: len(counting.counted()) >= GOOD - 1, "all counted")
        running.stop()

    assert counting.counted() == list(range(1, GOOD))
    (skipped,) = running.lines("record skipped")
    assert skipped["offset"] == BAD_OFFSET
    assert "counts.py" in skipped["exception"]
    assert counting.committed() == GOOD


@pytest.mark.parametrize("options", [(), ("--threads", "2"), ("--processes", "2")])
def test_bug_of_ours_ends_with_70_and_the_whole_traceback(
    counting: Counting, options: tuple[str, ...]
) -> None:
    counting.produce(*numbers(1))

    with counting.application("at_least_once") as application:
        with (counting.directory / "counts.py").open("a") as file:
            file.write(A_BUG)
        running = application.start(*options)
        assert running.ended() == 70, running.tail()

    # A second process may take the partition over, and fail as well, before it is told to stop.
    failures, ends = running.lines("stream thread failed"), running.lines("stopped by an error")
    assert len(failures) == len(ends) >= 1
    for failed in failures:
        assert failed["exception"].startswith("Traceback (most recent call last):")
        assert failed["exception"].endswith("\nKeyError: 'internal'")
        assert inspect.getfile(StreamThread) in failed["exception"]
    for stopped in ends:
        assert stopped["kind"] == "InternalError"
        assert "unexpected KeyError: 'internal'; this is a bug in pystreams" in stopped["error"]
