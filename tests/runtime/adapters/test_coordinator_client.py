"""Which client is asked for what coordinators know."""

from __future__ import annotations

from concurrent.futures import Future
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from pystreams.runtime.adapters.administering.coordinator_client import CoordinatorClient

ENOUGH_S = 60.0


class Client:
    """Stands in for librdkafka's, which is false while nothing waits in its queue."""

    def __init__(self, code: int | None) -> None:
        self._code = code

    def __len__(self) -> int:
        return 0

    def poll(self, timeout: float) -> None:
        """Nothing has happened to its connections."""

    def members(self) -> Future[str]:
        answer: Future[str] = Future()
        if self._code is None:
            answer.set_result("all")
        else:
            answer.set_exception(KafkaException(KafkaError(self._code)))
        return answer


class Clients:
    """Makes clients, each with its answer."""

    def __init__(self, *codes: int | None) -> None:
        self._codes = list(codes)
        self.made = 0
        self._coordinators = CoordinatorClient(self._make)

    def ask(self) -> str:
        def members(client: Any) -> Future[str]:
            found: Future[str] = client.members()
            return found

        return self._coordinators.ask(members, "members", ENOUGH_S).result(ENOUGH_S)

    def _make(self) -> Any:
        self.made += 1
        return Client(self._codes.pop(0))


def test_a_client_that_answers_is_kept() -> None:
    clients = Clients(None)
    assert [clients.ask() for _ in range(3)] == ["all"] * 3
    assert clients.made == 1


def test_a_client_that_asks_who_is_no_coordinator_any_more_is_not_asked_again() -> None:
    """It would go on to ask that one for a quarter of an hour."""
    clients = Clients(KafkaError.NOT_COORDINATOR, None)
    with pytest.raises(KafkaException, match="NOT_COORDINATOR"):
        clients.ask()
    assert clients.ask() == "all"
    assert clients.made == 2


def test_another_error_is_an_answer() -> None:
    clients = Clients(KafkaError.GROUP_AUTHORIZATION_FAILED)
    for _ in range(2):
        with pytest.raises(KafkaException):
            clients.ask()
    assert clients.made == 1
