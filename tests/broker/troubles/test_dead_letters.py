"""Dead letters on a real broker: what fails at each stage is in the queue, and counted once."""

from __future__ import annotations

from pathlib import Path

import pytest

from pystreams.broker import DevelopmentBroker
from pystreams.runtime.core.failures.dead_letters import (
    HEADER_EXCEPTION,
    HEADER_OFFSET,
    HEADER_OUTPUT_TOPIC,
    HEADER_TOPIC,
)
from tests.broker.application import Application
from tests.broker.conftest import CreateTopic
from tests.broker.programs import write_counts
from tests.broker.reading import produce, read_all, values_by_key
from tests.variants import first_of

TOO_LARGE = """
from pystreams import StreamsBuilder, serdes

builder = StreamsBuilder()
stream = builder.stream({source!r}, key_serde=serdes.STRING, value_serde=serdes.STRING)
stream.map_values(lambda value: value * 100).to({output!r}, value_serde=serdes.STRING)
topology = builder.build()
"""


def number(value: int) -> bytes:
    return value.to_bytes(8, "big")


@pytest.mark.parametrize("guarantee", first_of("exactly_once_v2", "exactly_once", "at_least_once"))
def test_records_that_fail_are_in_the_queue_and_the_others_counted(
    broker: DevelopmentBroker,
    create_topic: CreateTopic,
    unique_name: str,
    tmp_path: Path,
    guarantee: str,
) -> None:
    source, output, queue = create_topic(), create_topic(), create_topic("dead")
    servers = broker.bootstrap_servers
    settings = {
        "bootstrap.servers": servers,
        "processing.guarantee": guarantee,
        "commit.interval.ms": 100,
        "errors.dead.letter.queue.topic.name": queue,
        "deserialization.exception.handler": "continue",
        "processing.exception.handler": "continue",
    }
    file = write_counts(tmp_path, source, output, "value + 0 * (1 // (value - 2))")
    produce(servers, source, [(b"k", number(1)), (b"k", number(2)), (b"k", b"bad")])
    with Application(unique_name, tmp_path, file, settings) as application:
        running = application.start()
        running.wait_until(lambda: len(read_all(servers, queue)) >= 2, "both dead letters")
        running.stop()
        produce(servers, source, [(b"k", number(3))])
        running = application.start()
        running.wait_until(lambda: len(read_all(servers, output)) >= 2, "the others")
        running.stop()

    letters = {letter.value(): dict(letter.headers() or []) for letter in read_all(servers, queue)}
    assert letters.keys() == {number(2), b"bad"}
    assert len(read_all(servers, queue)) == 2
    assert values_by_key(read_all(servers, output)) == {b"k": [1, 2]}
    told = letters[number(2)]
    assert told[HEADER_EXCEPTION] == b"ZeroDivisionError"
    assert (told[HEADER_TOPIC], told[HEADER_OFFSET]) == (source.encode(), b"1")
    assert letters[b"bad"][HEADER_OFFSET] == b"2"


def test_record_that_a_topic_refuses_is_in_the_queue(
    broker: DevelopmentBroker, create_topic: CreateTopic, unique_name: str, tmp_path: Path
) -> None:
    source, queue = create_topic(), create_topic("dead")
    output = create_topic(config={"max.message.bytes": "10000"})
    servers = broker.bootstrap_servers
    settings = {
        "bootstrap.servers": servers,
        "commit.interval.ms": 100,
        "errors.dead.letter.queue.topic.name": queue,
        "production.exception.handler": "continue",
    }
    file = tmp_path / "topology.py"
    file.write_text(TOO_LARGE.format(source=source, output=output))
    produce(servers, source, [(b"a", b"x"), (b"b", b"y" * 1000), (b"c", b"z")])
    with Application(unique_name, tmp_path, file, settings) as application:
        running = application.start()
        running.wait_until(lambda: len(read_all(servers, output)) >= 2, "the others")
        running.wait_until(lambda: bool(read_all(servers, queue)), "the dead letter")
        running.stop()

    [letter] = read_all(servers, queue)
    assert (letter.key(), letter.value()) == (b"b", b"y" * 100_000)
    assert dict(letter.headers() or [])[HEADER_OUTPUT_TOPIC] == output.encode()
    assert [message.key() for message in read_all(servers, output)] == [b"a", b"c"]
