"""Records for topics, written in transactions by a client that has nothing of ours."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.broker.reading import answer_of
from tests.broker.writing import Writer

_ASK_S = 5.0
_LONGEST_MS = 900_000
"""What a broker grants at most: a transaction stays open however slow the machine is."""


class TransactionalWriter(Writer):
    """Writes transactions, each once, however often its connection is lost.

    Args:
        servers: The brokers.
        transactional_id: Its own; nobody else may have it.
        settings: More of the client's configuration.
    """

    def __init__(
        self, servers: str, transactional_id: str, settings: Mapping[str, Any] | None = None
    ) -> None:
        own = {
            "transactional.id": transactional_id,
            "transaction.timeout.ms": _LONGEST_MS,
            "message.timeout.ms": _LONGEST_MS,
            **(settings or {}),
        }
        super().__init__(servers, own)
        # Each of these goes on where it was when it is called again.
        answer_of(lambda: self._producer.init_transactions(_ASK_S))

    def begin(self) -> None:
        self._producer.begin_transaction()

    def commit(self) -> None:
        self.flush()
        answer_of(lambda: self._producer.commit_transaction(_ASK_S))

    def abort(self) -> None:
        """Abort after the brokers have all: a reader has to leave it out."""
        self.flush()
        answer_of(lambda: self._producer.abort_transaction(_ASK_S))
