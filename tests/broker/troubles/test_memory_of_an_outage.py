"""A broker stops while input waits and outputs pile up: the process holds what it may, no more."""

from __future__ import annotations

import os
import re
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from pystreams.broker import DevelopmentBroker
from tests.broker.application import Application, Running
from tests.broker.reading import create_topics, high_watermarks, produce, reader_of
from tests.ports import ports_in_a_row
from tests.sharing import start_broker

MEBIBYTE = 1 << 20
INPUT, OUTPUT, UNCOMMITTED = 16 * MEBIBYTE, 16 * MEBIBYTE, 8 * MEBIBYTE
OF_PYTHON = 40 * MEBIBYTE
"""Memtables of the store, threads of the clients, what allocators keep, objects around bytes."""
VALUE = b"x" * 4096
RECORDS = 24_000
CODE = """
from pystreams import StreamsBuilder, serdes

builder = StreamsBuilder()
source = builder.stream("in", key_serde=serdes.BYTES, value_serde=serdes.BYTES)
source.flat_map_values(lambda value: [value] * 4).to("out", value_serde=serdes.BYTES)
source.group_by_key().reduce(lambda _, value: value, name="latest")
"""

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="memory is read from /proc")


@pytest.fixture
def own_broker(tmp_path: Path) -> Iterator[DevelopmentBroker]:
    """A broker that the test may stop."""
    (port,) = ports_in_a_row(1)
    broker = start_broker(tmp_path / "broker", port, {})
    try:
        yield broker
    finally:
        os.kill(broker.state.pid, signal.SIGCONT)
        broker.stop()


def bytes_of(running: Running, field: str) -> int:
    """Return what the system says of a process's memory."""
    status = Path(f"/proc/{running.process.pid}/status").read_text("ascii", errors="replace")
    found = re.search(rf"{field}:\s+(\d+) kB", status)
    assert found is not None
    return int(found.group(1)) * 1024


@pytest.mark.sweep
def test_input_outputs_and_uncommitted_writes_stay_within_their_bounds(
    own_broker: DevelopmentBroker, tmp_path: Path
) -> None:
    servers = own_broker.bootstrap_servers
    admin = AdminClient({"bootstrap.servers": servers})
    create_topics(admin, [NewTopic("in", 1), NewTopic("out", 1)])
    (tmp_path / "echo.py").write_text(CODE)
    settings = {
        "bootstrap.servers": servers,
        "processing.guarantee": "at_least_once",
        "commit.interval.ms": 500,
        "statestore.cache.max.bytes": 0,
        "input.buffer.max.bytes": INPUT,
        "output.buffer.max.bytes": OUTPUT,
        "statestore.uncommitted.max.bytes": UNCOMMITTED,
        "max.poll.records": 10_000,
    }
    with (
        Application("outage", tmp_path, tmp_path / "echo.py", settings) as application,
        reader_of(servers) as reader,
    ):

        def written() -> int:
            return sum(high_watermarks(reader, "out").values())

        running = application.start()
        running.wait_for("all tasks run")
        before_bytes = bytes_of(running, "VmRSS")
        produce(servers, "in", [(b"%d" % (number % 100), VALUE) for number in range(RECORDS)])
        running.wait_until(written, "the first output")
        os.kill(own_broker.state.pid, signal.SIGSTOP)
        running.wait_for("sending failed", "commit will be tried again")
        most_bytes = bytes_of(running, "VmHWM")
        os.kill(own_broker.state.pid, signal.SIGCONT)
        some = written()
        running.wait_until(lambda: written() > some, "output once more")
        running.stop()

    grown_bytes = most_bytes - before_bytes
    assert grown_bytes < INPUT + OUTPUT + UNCOMMITTED + OF_PYTHON, f"from {before_bytes}"
