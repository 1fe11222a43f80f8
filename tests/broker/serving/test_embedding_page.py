"""The Python of docs/embedding.md, run as it stands there."""

from __future__ import annotations

import logging
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pystreams import KafkaStreams, State, StreamsBuilder, serdes
from tests.broker.conftest import CreateTopic
from tests.broker.reading import produce
from tests.broker.waiting import DEADLINE_S, wait_until
from tests.docs.blocks import ROOT, examples_of

if TYPE_CHECKING:
    from pystreams.broker import DevelopmentBroker

OUR_LOGGER = logging.getLogger("pystreams")


def blocks() -> list[str]:
    return [block.text for block in examples_of(ROOT / "docs" / "embedding.md")]


def test_the_program_of_the_page_runs_until_it_is_asked_to_stop(
    broker: DevelopmentBroker, create_topic: CreateTopic, unique_name: str, tmp_path: Path
) -> None:
    first, _, _ = blocks()
    program = first.replace("localhost:9092", broker.bootstrap_servers)
    program = program.replace('stream("orders"', f'stream("{create_topic("orders")}"')
    program = program.replace('"application.id": "orders"', f'"application.id": "{unique_name}"')
    log = tmp_path / "log"
    with (
        log.open("w") as told,
        subprocess.Popen(
            [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=told
        ) as process,
    ):
        try:
            wait_until(
                lambda: "from REBALANCING to RUNNING" in log.read_text(),
                "it runs",
                told=log.read_text,
            )
            process.send_signal(signal.SIGTERM)
            output, _ = process.communicate(timeout=DEADLINE_S)
        finally:
            process.kill()

    assert (process.returncode, output) == (0, b""), log.read_text()
    assert "from PENDING_SHUTDOWN to NOT_RUNNING" in log.read_text()


@pytest.fixture
def level() -> Iterator[None]:
    """Leave the level of our loggers as it was."""
    before = OUR_LOGGER.level
    yield
    OUR_LOGGER.setLevel(before)


@pytest.mark.usefixtures("level")
def test_the_line_about_levels_leaves_out_what_is_below(caplog: pytest.LogCaptureFixture) -> None:
    _, line, _ = blocks()
    exec(line, {"logging": logging})

    for told in (OUR_LOGGER.info, OUR_LOGGER.warning):
        told("said")
    assert [record.levelname for record in caplog.records] == ["WARNING"]


def test_the_handler_of_the_page_replaces_threads_that_lost_a_connection_and_no_others(
    broker: DevelopmentBroker, create_topic: CreateTopic, unique_name: str, tmp_path: Path
) -> None:
    topic, seen = create_topic("calls"), list[str]()

    def call(value: str) -> str:
        seen.append(value)
        if seen == ["lost"]:
            raise ConnectionError("the service is away")
        if value == "wrong":
            raise ValueError(value)
        return value

    builder = StreamsBuilder()
    builder.stream(topic, key_serde=serdes.STRING, value_serde=serdes.STRING).map_values(call)
    config = {
        "application.id": unique_name,
        "bootstrap.servers": broker.bootstrap_servers,
        "state.dir": str(tmp_path),
    }
    streams = KafkaStreams(builder.build(), config)
    _, _, handler = blocks()
    exec(handler, {"streams": streams})
    produce(broker.bootstrap_servers, topic, [(b"k", b"lost")])
    streams.start()
    try:
        wait_until(
            lambda: seen == ["lost", "lost"] and streams.state is State.RUNNING, "it is met again"
        )
        produce(broker.bootstrap_servers, topic, [(b"k", b"wrong")])
        assert streams.wait(DEADLINE_S)
    finally:
        streams.close()

    assert isinstance(getattr(streams.error, "__cause__", None), ValueError)
