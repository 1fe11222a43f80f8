"""When an admin client is replaced by another."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from pystreams.runtime.adapters.administering import lasting_client
from pystreams.runtime.adapters.administering.lasting_client import LastingClient
from tests.broker.waiting import DEADLINE_S

LONG_S = 2.0


class Broker:
    """What clients reach, or do not."""

    def __init__(self) -> None:
        self.runs = True
        self.clients: list[Client] = []

    def client(self) -> Any:
        self.clients.append(Client(self))
        return self.clients[-1]

    def is_asked_by(self, lasting: LastingClient, number: int) -> bool:
        asked: Any = lasting.client
        return asked is self.clients[number]


class Client:
    """librdkafka's, as far as it is asked for topics."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.has_brokers = True
        self.listings = 0

    def list_topics(self, timeout: float) -> str:
        self.listings += 1
        if not (self.has_brokers and self.broker.runs):
            raise KafkaException(KafkaError(KafkaError._TRANSPORT))
        return "topics"


def topics(lasting: LastingClient) -> Any:
    return lasting.list_topics(LONG_S)


@pytest.fixture
def broker() -> Broker:
    return Broker()


@pytest.fixture
def lasting(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> LastingClient:
    """Return one that asks another once a test, however slow this machine is."""
    monkeypatch.setattr(lasting_client, "_PAUSE_S", DEADLINE_S)
    return LastingClient(broker.client)


def test_client_that_lost_its_brokers_is_replaced_by_one_that_finds_them(
    lasting: LastingClient, broker: Broker
) -> None:
    assert topics(lasting) == "topics"
    broker.clients[0].has_brokers = False

    assert topics(lasting) == "topics"

    assert broker.is_asked_by(lasting, 1)
    assert topics(lasting) == "topics"
    assert len(broker.clients) == 2


def test_client_stays_while_no_broker_is_there_and_another_is_seldom_asked(
    lasting: LastingClient, broker: Broker
) -> None:
    lasting.list_topics(LONG_S)
    broker.runs = False
    for _ in range(3):
        with pytest.raises(KafkaException):
            lasting.list_topics(LONG_S)
    assert len(broker.clients) == 2
    broker.runs = True

    lasting.list_topics(LONG_S)

    assert broker.is_asked_by(lasting, 0)


@pytest.mark.parametrize(("answered", "timeout_s"), [(False, LONG_S), (True, 0.5)])
def test_client_stays_that_never_had_an_answer_or_was_not_given_the_time(
    lasting: LastingClient, broker: Broker, answered: bool, timeout_s: float
) -> None:
    if answered:
        lasting.list_topics(LONG_S)
    broker.clients[0].has_brokers = False

    with pytest.raises(KafkaException):
        lasting.list_topics(timeout_s)

    assert len(broker.clients) == 1


def test_who_is_asked_for_offsets_has_heard_of_the_leaders_if_a_broker_answers(
    broker: Broker, lasting: LastingClient
) -> None:
    """Else librdkafka may end the process as it hears of them within the question."""
    (client,) = broker.clients
    broker.runs = False
    lasting.knowing_leaders()
    assert client.listings == 1  # In vain; who waits for the offsets is told.
    broker.runs = True
    for _ in range(2):
        assert broker.is_asked_by(lasting, 0)
        lasting.knowing_leaders()
    assert client.listings == 2
