"""Suppressions run by `pystreams run`, on a real broker: killed, restored, full.

Kafka's SuppressionDurabilityIntegrationTest and SuppressionIntegrationTest.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from pystreams.broker import DevelopmentBroker
from pystreams.kernel.clock import SystemClock
from tests.broker.application import Application
from tests.broker.conftest import CreateTopic
from tests.broker.reading import produce, read_all
from tests.broker.waiting import wait_until
from tests.variants import first_of

RECORDS = 3000
WAIT_MS = 500
CODE = """
from pystreams import BufferConfig, StoreEngine, StreamsBuilder, Suppressed, serdes

builder = StreamsBuilder()
table = builder.table("{source}", key_serde=serdes.STRING, value_serde=serdes.STRING)
suppressed = table.suppress(Suppressed.until_time_limit({wait_ms}, {config}).with_name("waiting"))
suppressed.to_stream().to("{out}", value_serde=serdes.STRING)
"""


def application(
    name: str, directory: Path, values: Mapping[str, object], settings: Mapping[str, object]
) -> Application:
    file = directory / "suppress.py"
    file.write_text(CODE.format(**values))
    return Application(name, directory, file, settings)


@pytest.mark.parametrize("engine", first_of("ROCKSDB", "IN_MEMORY"))
def test_each_change_goes_on_once_over_kills_and_a_lost_disk(
    engine: str,
    broker: DevelopmentBroker,
    create_topic: CreateTopic,
    unique_name: str,
    tmp_path: Path,
) -> None:
    source, out = create_topic("source"), create_topic("out")
    servers = broker.bootstrap_servers
    config = f"BufferConfig.unbounded(store_type=StoreEngine.{engine})"
    values = {"source": source, "out": out, "wait_ms": WAIT_MS, "config": config}
    settings = {
        "bootstrap.servers": servers,
        "processing.guarantee": "exactly_once",
        "commit.interval.ms": 100,
        # Who has lost its disk is another member, and waits for the end of the former one.
        "consumer.session.timeout.ms": 6000,
    }
    first_ms = SystemClock().now_ms() - 10 * RECORDS

    def feed(begin: int, end: int) -> None:
        """Each key twice: the second one takes the first one's place, which still waits."""
        numbers = range(begin, end)
        records = [(f"k{number // 2}".encode(), b"%d" % number) for number in numbers]
        times = [first_ms + number for number in numbers]
        produce(servers, source, records, timestamps_ms=times)

    def gone() -> list[tuple[Any, Any]]:
        return [(message.key(), message.value()) for message in read_all(servers, out)]

    with application(unique_name, tmp_path, values, settings) as app:
        feed(0, RECORDS // 2)
        killed = app.start()
        killed.wait_until(lambda: len(gone()) >= RECORDS // 10, "some changes went on")
        feed(RECORDS // 2, RECORDS)
        killed.kill()
        again = app.start()
        again.wait_until(lambda: len(gone()) >= RECORDS // 3, "more of them")
        again.kill()
        app.wait_until_all_gone()
        app.state_directory.rename(tmp_path / "lost")
        last = app.start()
        end = [(b"end", b"moves the time")]
        produce(servers, source, end, timestamps_ms=[first_ms + RECORDS + WAIT_MS])
        wait_until(lambda: len(gone()) >= RECORDS // 2, "all changes", told=last.tail)
        last.stop()

        assert gone() == [
            (f"k{number}".encode(), b"%d" % (2 * number + 1)) for number in range(RECORDS // 2)
        ]


@pytest.mark.parametrize(
    "bound", ["max_records(2)", pytest.param("max_bytes(200)", marks=pytest.mark.sweep)]
)
def test_a_full_buffer_stops_the_application_with_a_cure_that_works(
    bound: str,
    broker: DevelopmentBroker,
    create_topic: CreateTopic,
    unique_name: str,
    tmp_path: Path,
) -> None:
    source, out = create_topic("source"), create_topic("out")
    servers = broker.bootstrap_servers
    settings = {"bootstrap.servers": servers, "processing.guarantee": "exactly_once"}
    strict = f"BufferConfig.{bound}.shut_down_when_full()"
    values = {"source": source, "out": out, "wait_ms": 10**9, "config": strict}
    records = [(b"k%d" % number, b"x" * 60) for number in range(4)]
    produce(servers, source, records)

    with application(unique_name, tmp_path, values, settings) as app:
        assert app.start().ended() != 0
        told = (tmp_path / f"{unique_name}-1.log").read_text()
        for part in ("SuppressionBufferFullError", "'waiting'", "emit_early_when_full"):
            assert part in told
        assert read_all(servers, out) == []

    values["config"] = f"BufferConfig.{bound}"
    with application(unique_name, tmp_path, values, settings) as app:
        cured = app.start()
        cured.wait_until(lambda: len(read_all(servers, out)) >= 2, "the earliest went on")
        cured.stop()
