"""Waiting for a condition, with a deadline: nothing here sleeps for a fixed time."""

from __future__ import annotations

import time
from collections.abc import Callable

DEADLINE_S = 120.0
"""A limit, no target: hosts were seen to take nine tenths of the processors for minutes."""
_LOOK_EVERY_S = 0.02


def wait_until(
    condition: Callable[[], object],
    what: str,
    *,
    deadline_s: float = DEADLINE_S,
    told: Callable[[], str] = str,
) -> None:
    """Return when the condition is true; fail after the deadline, with what is `told` then."""
    end_s = time.monotonic() + deadline_s
    while not condition():
        assert time.monotonic() < end_s, f"in vain for {deadline_s:.0f} s: {what}\n{told()}"
        time.sleep(_LOOK_EVERY_S)
