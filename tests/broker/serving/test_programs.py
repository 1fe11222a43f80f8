"""`KafkaStreams` within a program of the user's: signals, errors, and what it prints."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from pystreams.broker import DevelopmentBroker
from tests.broker.conftest import CreateTopic
from tests.broker.reading import committed_offsets, produce, read_all
from tests.broker.waiting import DEADLINE_S, wait_until

PROGRAM = """
import logging, signal, sys, threading
from concurrent.futures import ThreadPoolExecutor
from pystreams import KafkaStreams, StreamsBuilder, serdes

servers, application, source, output, directory, way = sys.argv[1:]
builder = StreamsBuilder()
stream = builder.stream(source, key_serde=serdes.STRING, value_serde=serdes.STRING)
pool, is_late = ThreadPoolExecutor(), threading.Event()

def changed(value):
    if value == "late":
        is_late.set()
        threading.main_thread().join()
        return pool.submit(str, value).result()
    return 1 / 0 if value == "wrong" else value

stream.map_values(changed).to(
    output, key_serde=serdes.STRING, value_serde=serdes.STRING
)
config = {
    "application.id": application,
    "bootstrap.servers": servers,
    "state.dir": directory,
    "commit.interval.ms": 600_000,
}
if way in ("ends", "dies"):  # Tasks with producers of their own commit side by side.
    config |= {"processing.guarantee": "exactly_once", "commit.interval.ms": 9_000}
if way == "late":
    logging.basicConfig(level=logging.WARNING)
    config |= {"processing.exception.handler": "continue"}
streams = KafkaStreams(builder.build(), config)
if way == "with":
    with streams:
        streams.wait()
elif way == "start":
    streams.start()
    streams.wait()
elif way in ("ends", "dies"):
    streams.start()
    while streams.statistics().processed_records < 4:
        streams.wait(0.01)
    if way == "dies":
        raise ValueError("of the host's")
    sys.exit(0)
elif way == "late":
    streams.start()
    is_late.wait()
    sys.exit(0)
else:
    signal.signal(signal.SIGTERM, lambda *_: streams.close())
    streams.start()
    streams.wait()
before = (signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT))
if way != "own":
    assert before == (signal.SIG_DFL, signal.default_int_handler), before
sys.exit(7 if streams.error is None else 8)
"""


class Program:
    """A program of the user's with its topics; it ends with 7 when its last line is reached."""

    def __init__(self, servers: str, name: str, source: str, output: str, directory: Path) -> None:
        self.name = name
        self._admin = AdminClient({"bootstrap.servers": servers})
        self._servers = servers
        self._source = source
        self._output = output
        self._directory = directory

    @contextmanager
    def running(self, way: str) -> Iterator[subprocess.Popen[str]]:
        words = [self._servers, self.name, self._source, self._output, str(self._directory), way]
        with subprocess.Popen(
            [sys.executable, "-c", PROGRAM, *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            try:
                yield process
            finally:
                process.kill()

    def write(self, *values: bytes) -> None:
        produce(self._servers, self._source, [(b"key", value) for value in values])

    def wait_for_output(self, count: int, process: subprocess.Popen[str]) -> None:
        def there_or_ended() -> bool:
            there = len(read_all(self._servers, self._output)) == count
            return there or process.poll() is not None

        wait_until(there_or_ended, "output")
        assert process.poll() is None, process.communicate()

    def committed(self) -> int:
        return sum(committed_offsets(self._admin, self.name).values())


@pytest.fixture(autouse=True)
def _told_of_interrupts() -> Iterator[None]:
    """The tests themselves may run in the background, whose processes inherit that they are not."""
    before = signal.getsignal(signal.SIGINT)
    if before is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def program(
    broker: DevelopmentBroker, create_topic: CreateTopic, unique_name: str, tmp_path: Path
) -> Program:
    servers = broker.bootstrap_servers
    return Program(servers, unique_name, create_topic("in"), create_topic("out"), tmp_path)


@pytest.mark.parametrize(
    ("way", "number"),
    [
        ("with", signal.SIGTERM),
        ("with", signal.SIGINT),
        ("start", signal.SIGTERM),
        ("own", signal.SIGTERM),
    ],
)
def test_a_program_that_waits_stops_in_order_and_prints_nothing(
    program: Program, way: str, number: signal.Signals
) -> None:
    program.write(b"1", b"2", b"3")
    with program.running(way) as process:
        program.wait_for_output(3, process)
        process.send_signal(number)
        printed, told = process.communicate(timeout=DEADLINE_S)

    assert (process.returncode, printed, told) == (7, "", "")
    assert program.committed() == 3


def test_as_a_context_manager_it_raises_what_has_stopped_it(program: Program) -> None:
    program.write(b"wrong")
    with program.running("with") as process:
        printed, told = process.communicate(timeout=DEADLINE_S)

    assert printed == ""
    assert "pystreams.errors.ProcessingError: task 0_0: processor 'KSTREAM-MAPVALUES" in told


@pytest.mark.parametrize(("way", "code"), [("ends", 0), ("dies", 1)])
def test_a_program_whose_main_thread_ends_without_a_close_commits_and_is_over(
    broker: DevelopmentBroker,
    create_topic: CreateTopic,
    unique_name: str,
    tmp_path: Path,
    way: str,
    code: int,
) -> None:
    servers, source = broker.bootstrap_servers, create_topic("in", partitions=4)
    program = Program(servers, unique_name, source, create_topic("out"), tmp_path)
    produce(servers, source, [(b"key", b"value")] * 4, partition_of=lambda index: index)
    with program.running(way) as process:
        _, told = process.communicate(timeout=DEADLINE_S)

    assert process.returncode == code, told
    assert ("of the host's" in told) == (way == "dies")
    assert "bug" not in told
    assert program.committed() >= 4


def test_what_fails_as_python_ends_is_not_left_out_by_a_handler_that_goes_on(
    program: Program,
) -> None:
    """Python takes the pools of the user's functions away before the application has stopped."""
    program.write(b"1", b"2", b"late")
    with program.running("late") as process:
        _, told = process.communicate(timeout=DEADLINE_S)

    assert process.returncode == 0
    assert "No handler is asked, and nothing is lost" in told
    assert "record skipped" not in told
    assert program.committed() < 3
