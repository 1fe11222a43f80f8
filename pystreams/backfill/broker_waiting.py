"""How a publisher waits for brokers, and asks them again."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass, field
from typing import TypeVar

from pystreams.config.client_overrides import TRANSACTION_TIMEOUT_MS
from pystreams.errors import RetriableClientError
from pystreams.kernel.clock import Clock, SystemClock
from pystreams.runtime.tasks.concurrent_calls import waiting_pool

ATTEMPTS = 20
_RETRY_PAUSE_S = 0.2
_ANSWERED_WITHIN_MS = 60_000
"""A request that waits for its own time limit each time is not repeated after so long."""

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Waiting:
    """How a publisher waits, and how long the broker waits for it; a simulation has its own ways.

    Attributes:
        pause: Waits so many seconds.
        make_pool: Makes what calls that wait for the broker run on, side by side.
        clock: Tells how long a transaction is open.
        transaction_timeout_ms: After so long the broker may end one.
    """

    pause: Callable[[float], None] = time.sleep
    make_pool: Callable[[], Executor] = waiting_pool
    clock: Clock = field(default_factory=SystemClock)
    transaction_timeout_ms: int = TRANSACTION_TIMEOUT_MS

    def before_retry(self) -> None:
        """Wait a little, so that the broker may come to itself."""
        self.pause(_RETRY_PAUSE_S)

    def until_answered(self, call: Callable[[], _T]) -> _T:
        """Repeat a request until it is answered.

        Raises:
            RetriableClientError: It was not, so many times, or for a minute.
        """
        left, begun_ms = ATTEMPTS, self.clock.monotonic_ms()
        while True:
            try:
                return call()
            except RetriableClientError:
                left -= 1
                if left == 0 or self.clock.monotonic_ms() - begun_ms > _ANSWERED_WITHIN_MS:
                    raise
                self.before_retry()


REAL_WAITING = Waiting()
