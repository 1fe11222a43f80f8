"""Time, injected: the runtime is given a clock, the core is given plain numbers."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """What the loop asks for the time."""

    def now_ms(self) -> int:
        """Return wall-clock time, milliseconds since the epoch."""

    def monotonic_ms(self) -> float:
        """Return milliseconds that never go back; only differences mean anything."""


class SystemClock:
    """The machine's clock."""

    def now_ms(self) -> int:
        """Return wall-clock time, milliseconds since the epoch."""
        return time.time_ns() // 1_000_000

    def monotonic_ms(self) -> float:
        """Return milliseconds of the monotonic clock."""
        return time.perf_counter_ns() / 1e6
