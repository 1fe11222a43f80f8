"""What writes the input of tests fails with the cause when a record is not taken."""

from __future__ import annotations

import pytest

from pystreams.broker import DevelopmentBroker
from tests.broker.conftest import CreateTopic
from tests.broker.reading import read_all
from tests.broker.troubles.request_proxy import PRODUCE, RequestProxy
from tests.broker.waiting import wait_until
from tests.broker.writing import Feed, Writer

ROOM_BYTES = {"max.message.bytes": "1000"}


class Growing(Feed):
    """Writes larger and larger records."""

    def __init__(self, servers: str, topic: str) -> None:
        super().__init__(Writer(servers))
        self._topic = topic
        self._written = 0

    def write_batch(self) -> None:
        self._written += 1
        self._writer.write(self._topic, bytes(100 * self._written))


def test_a_record_that_is_refused_fails_the_writer(
    broker: DevelopmentBroker, create_topic: CreateTopic
) -> None:
    writer = Writer(broker.bootstrap_servers)
    writer.write(create_topic(config=ROOM_BYTES), bytes(10_000), "key")

    with pytest.raises(AssertionError, match="too large"):
        writer.flush()


def test_a_record_that_is_refused_fails_the_feed_in_the_end(
    broker: DevelopmentBroker, create_topic: CreateTopic
) -> None:
    feed = Growing(broker.bootstrap_servers, create_topic(config=ROOM_BYTES))

    with pytest.raises(AssertionError, match="too large"), feed:
        # Not for so many records: two small ones in one batch may be too large.
        wait_until(lambda: feed.failed, "a refusal")


def test_a_record_whose_acknowledgement_was_lost_is_there_once(
    broker: DevelopmentBroker, create_topic: CreateTopic
) -> None:
    proxy, topic = RequestProxy(broker.bootstrap_servers), create_topic()
    writer = Writer(proxy.bootstrap_servers)
    writer.write(topic, "before")
    writer.flush()
    proxy.lose_answers(PRODUCE)
    writer.write(topic, "lost")
    writer.flush()
    proxy.close()

    assert proxy.lost_answers == 1
    assert [message.value() for message in read_all(broker.bootstrap_servers, topic)] == [
        b"before",
        b"lost",
    ]
