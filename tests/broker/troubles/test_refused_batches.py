"""A batch that a broker refused before it took a later one: nothing of it is missing in the end."""

from __future__ import annotations

from pathlib import Path

import pytest

from pystreams import KafkaStreams, StreamsBuilder, Topology, serdes
from pystreams.broker import DevelopmentBroker
from tests.broker.conftest import CreateTopic
from tests.broker.reading import read_all
from tests.broker.troubles.request_proxy import PRODUCE, RequestProxy, not_leader
from tests.broker.waiting import wait_until
from tests.broker.writing import Writer

LARGE = 700_000
"""Two values of so many letters are no batch."""
VALUES = ["a", "b", "c", "d"]


def enlarging(source: str, sink: str) -> Topology:
    builder = StreamsBuilder()
    values = builder.stream(source, key_serde=serdes.STRING, value_serde=serdes.STRING)
    values.map_values(lambda value: value * LARGE).to(sink, value_serde=serdes.STRING)
    return builder.build()


@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once"])
def test_the_first_records_for_a_new_topic_are_not_lost(
    broker: DevelopmentBroker,
    create_topic: CreateTopic,
    unique_name: str,
    tmp_path: Path,
    guarantee: str,
) -> None:
    servers, source, sink = broker.bootstrap_servers, create_topic(), create_topic()
    writer = Writer(servers)
    for value in VALUES:
        writer.write(source, value, "key")
    writer.flush()
    proxy = RequestProxy(servers)
    proxy.answer_next(PRODUCE, not_leader(sink), late=True)

    def written() -> list[str]:
        return [(message.value() or b"")[:1].decode() for message in read_all(servers, sink)]

    settings = {
        "application.id": unique_name,
        "bootstrap.servers": proxy.bootstrap_servers,
        "commit.interval.ms": 100,
        "processing.guarantee": guarantee,
        "state.dir": tmp_path,
    }
    with KafkaStreams(enlarging(source, sink), settings):
        wait_until(lambda: written()[-len(VALUES) :] == VALUES, "all values, in order")
    proxy.close()

    assert proxy.own_answers == 1
    if guarantee == "exactly_once":
        assert written() == VALUES
