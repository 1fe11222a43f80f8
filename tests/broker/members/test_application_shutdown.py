"""SHUTDOWN_APPLICATION over a real broker: the other process ends, and a restart has it all."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pystreams import (
    KafkaStreams,
    State,
    StreamsBuilder,
    StreamsError,
    StreamThreadExceptionResponse,
    Topology,
    serdes,
)
from pystreams.broker import DevelopmentBroker
from tests.broker.application import Application
from tests.broker.conftest import CreateTopic
from tests.broker.programs import write_counts
from tests.broker.reading import produce, read_all, values_by_key
from tests.broker.waiting import wait_until

PARTITIONS = 4
KEYS = [f"key {number}".encode() for number in range(16)]


def counted(source: str, output: str, function: Callable[[int], int]) -> Topology:
    """The topology of `programs.COUNTS`, with a function of this process."""
    builder = StreamsBuilder()
    stream = builder.stream(source, key_serde=serdes.STRING, value_serde=serdes.LONG)
    stream.map_values(function).group_by_key().count(name="counts").to_stream().to(output)
    return builder.build()


@pytest.mark.parametrize("protocol", ["classic", pytest.param("consumer", marks=pytest.mark.sweep)])
def test_a_handler_ends_the_other_process_too_and_a_restart_loses_nothing(
    broker: DevelopmentBroker,
    create_topic: CreateTopic,
    unique_name: str,
    tmp_path: Path,
    protocol: str,
) -> None:
    servers = broker.bootstrap_servers
    source, output = create_topic("in", partitions=PARTITIONS), create_topic("out")
    settings: dict[str, Any] = {
        "bootstrap.servers": servers,
        "group.protocol": protocol,
        "processing.guarantee": "exactly_once_v2",
        "commit.interval.ms": 100,
    }
    broken = False
    written = 0

    def function(value: int) -> int:
        if broken:
            raise ConnectionError("the service is gone for good")
        return value

    def shut_down(_: StreamsError) -> StreamThreadExceptionResponse:
        return StreamThreadExceptionResponse.SHUTDOWN_APPLICATION

    def write() -> None:
        nonlocal written
        written += 1
        produce(servers, source, [(key, bytes(8)) for key in KEYS])

    def all_counted() -> bool:
        """Return whether each key's last count is of all its records; one too many fails."""
        counts = values_by_key(read_all(servers, output))
        assert all(max(of_key) <= written for of_key in counts.values())
        return [of_key[-1] for of_key in counts.values()] == [written] * len(KEYS)

    own = settings | {"application.id": unique_name, "state.dir": str(tmp_path / "own")}
    streams = KafkaStreams(counted(source, output, function), own)
    streams.set_uncaught_exception_handler(shut_down)
    file = write_counts(tmp_path, source, output)
    with (
        contextlib.closing(streams),
        Application(unique_name, tmp_path, file, settings) as application,
    ):
        other = application.start()
        other.wait_for_tasks(PARTITIONS)
        streams.start()
        threads = streams.metadata_for_local_threads
        wait_until(lambda: any(thread.active_tasks for thread in threads()), "a task here")
        write()
        wait_until(all_counted, "counts of both", told=other.tail)

        broken = True

        def has_ended() -> bool:
            write()  # Whichever partitions this process has by now.
            return streams.state in (State.PENDING_ERROR, State.ERROR)

        wait_until(has_ended, "the failure")
        assert other.ended() == 1
        [told] = other.lines("stopped by an error")
        assert "SHUTDOWN_APPLICATION" in told["error"]
        assert streams.wait(120)
        assert "the service is gone for good" in str(streams.error)

        again = application.start()
        again.wait_until(all_counted, "all counts")
        again.stop()
