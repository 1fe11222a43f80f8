"""A proxy that keeps some requests of transactions back, and delivers them late.

The client that sent one has no answer in time, or loses its connection: it sends it again, and the
transaction ends. What was kept reaches the broker soon after some transaction has begun.
"""

from __future__ import annotations

import threading
from contextlib import suppress
from random import Random

from tests.broker.troubles.request_proxy import (
    ADD_OFFSETS_TO_TXN,
    ADD_PARTITIONS_TO_TXN,
    END_TXN,
    TXN_OFFSET_COMMIT,
    RequestProxy,
    api_of,
)

APIS = (ADD_OFFSETS_TO_TXN, END_TXN, TXN_OFFSET_COMMIT)


class LateRequestsProxy(RequestProxy):
    """Keeps requests back as long as it is told to.

    Args:
        bootstrap_servers: The broker.
        seed: Decides which requests are kept, and for how long.
        rate: How many of them (0 to 1).

    Attributes:
        troubles: How many were delivered late.
    """

    def __init__(self, bootstrap_servers: str, seed: int, rate: float) -> None:
        self.troubles = 0
        self._random = Random(seed)
        self._rate = rate
        self._begun = threading.Event()
        self._ends = False
        super().__init__(bootstrap_servers)
        self._delivering = threading.Thread(target=self._deliver, daemon=True)
        self._delivering.start()

    def behave(self) -> None:
        """Keep nothing any more, and deliver what was kept."""
        self._rate, self._ends = 0, True
        self._begun.set()
        self._delivering.join()

    def close(self) -> None:
        self.behave()
        super().close()

    def _is_kept(self, request: bytes) -> bool:
        api = api_of(request)
        if api == ADD_PARTITIONS_TO_TXN:
            self._begun.set()
        if api not in APIS:
            return False
        with self._lock:
            self._cuts = self._random.random() < 0.8  # Else it waits for an answer in vain.
            return self._random.random() < self._rate

    def _deliver(self) -> None:
        while not self._ends:
            self._begun.wait()
            self._begun.clear()
            threading.Event().wait(self._random.uniform(0, 0.05))  # Somewhere in the transaction.
            self.troubles += len(self.kept)
            with suppress(OSError):
                self.deliver_late()
