"""Threads that the machine does not start, beside others that run."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pystreams import KafkaStreams, State, StreamsBuilder, serdes
from tests.broker.conftest import CreateTopic
from tests.broker.waiting import DEADLINE_S
from tests.thread_limits import no_thread_named

if TYPE_CHECKING:
    from pystreams.broker import DevelopmentBroker

STRINGS: Any = {"key_serde": serdes.STRING, "value_serde": serdes.STRING}


@pytest.mark.parametrize("refused", ["-StreamThread-2", "-GlobalStreamThread"])
def test_an_application_ends_whole_and_says_why_where_one_of_its_threads_is_refused(
    broker: DevelopmentBroker,
    create_topic: CreateTopic,
    unique_name: str,
    tmp_path: Path,
    refused: str,
) -> None:
    builder = StreamsBuilder()
    people = builder.global_table(create_topic("people"), **STRINGS, name="people")
    orders = builder.stream(create_topic("in", partitions=3), **STRINGS)
    joined = orders.join(people, lambda _key, value: value, lambda value, row: f"{value} {row}")
    joined.to(create_topic("out"), **STRINGS)
    config = {
        "application.id": unique_name,
        "bootstrap.servers": broker.bootstrap_servers,
        "state.dir": str(tmp_path),
        "num.stream.threads": 3,
    }
    streams = KafkaStreams(builder.build(), config)

    with no_thread_named(refused):
        streams.start()
        assert streams.wait(DEADLINE_S)

    assert streams.state is State.ERROR
    assert "starts no more threads" in str(streams.error)
    assert not [thread for thread in threading.enumerate() if unique_name in thread.name]
