"""Waiting for a condition, with a deadline: nothing here sleeps for a fixed time."""

from __future__ import annotations

import time
from collections.abc import Callable

DEADLINE_S = 120.0
"""A limit, no target: hosts were seen to take nine tenths of the processors for minutes."""
_PAUSE_S = (0.03, 0.2)
"""Between two looks five times what a look took, within these bounds: one that is dear takes the
processors from what it waits for."""


def wait_until(
    condition: Callable[[], object],
    what: str,
    *,
    deadline_s: float = DEADLINE_S,
    told: Callable[[], str] = str,
) -> None:
    """Return when the condition is true; fail after the deadline, with what is `told` then."""
    end_s = time.monotonic() + deadline_s
    shortest_s, longest_s = _PAUSE_S
    while True:
        begun_s = time.monotonic()
        if condition():
            return
        now_s = time.monotonic()
        assert now_s < end_s, f"in vain for {deadline_s:.0f} s: {what}\n{told()}"
        time.sleep(min(max(5 * (now_s - begun_s), shortest_s), longest_s))
