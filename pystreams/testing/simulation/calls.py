"""Asynchronous calls of a simulated process: made one by one, in the thread that waits for them."""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import replace

from pystreams.runtime.adapters.event_loop import make_call
from pystreams.topology.contracts.held_records import Call, CallLimits


class InlineCalls:
    """The calls of one task. Every other one is made at once, the rest when somebody waits."""

    def __init__(self) -> None:
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
        if self._waiting:
            _make(*self._waiting.popleft())
        return True

    def cancel(self) -> None:
        """See `AsyncCalls`."""
        self._waiting.clear()


def _make(call: Call, limits: CallLimits) -> None:
    asyncio.run(make_call(call, replace(limits, retry_backoff_ms=0)))
