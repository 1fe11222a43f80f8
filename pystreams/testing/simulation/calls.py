"""Asynchronous calls of a simulated process: made one by one, in the thread that waits for them."""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import replace

from pystreams.runtime.adapters.loop_thread import make_call
from pystreams.testing.simulation.clock import ManualClock
from pystreams.topology.contracts.held_records import Call, CallLimits


class InlineCalls:
    """The calls of one task. Every other one is made at once, the rest when somebody waits.

    Args:
        clock: Tells how long they take; None where that does not matter.

    Attributes:
        waited_s: See `AsyncCalls`.
    """

    def __init__(self, clock: ManualClock | None = None) -> None:
        self.waited_s = 0.0
        self._clock = clock
        self._waiting: deque[tuple[Call, CallLimits]] = deque()
        self._begun = 0

    def begin(self, call: Call, limits: CallLimits) -> None:
        """See `AsyncCalls`."""
        self._begun += 1
        if self._begun % 2:
            _make(call, limits)
        else:
            self._waiting.append((call, limits))

    def wait(self, timeout_s: float) -> bool:
        """See `AsyncCalls`."""
        began_ms = self._now_ms()
        if self._waiting:
            _make(*self._waiting.popleft())
        self.waited_s += (self._now_ms() - began_ms) / 1000
        return True

    def cancel(self) -> None:
        """See `AsyncCalls`."""
        self._waiting.clear()

    def _now_ms(self) -> float:
        return 0.0 if self._clock is None else self._clock.monotonic_ms()


def _make(call: Call, limits: CallLimits) -> None:
    asyncio.run(make_call(call, replace(limits, retry_backoff_ms=0)))
