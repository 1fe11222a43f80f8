"""Rates of totals that are counted anyway: what they were some windows ago is remembered.

Records are counted a batch at a time by whoever handles them. To know how many a second, it is
enough to look at those totals once a window, and nobody counts anything twice.

Example, 2 samples of 10 ms: totals were 0 at 0, 30 at 10 and 50 at 20; the look at 0 is forgotten
then. At 25 a total of 60 is a rate of (60 - 30) / (25 - 10) ms, 2000 a second.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Generic, TypeVar

from pystreams.metrics.sampled import windowed_ms

T = TypeVar("T")

_MS_PER_S = 1000.0


class TotalsHistory(Generic[T]):
    """What totals were, some windows ago.

    Threads: one thread samples, any may ask for rates.

    Args:
        window_ms: Time between two looks (ms).
        num_samples: How many looks are remembered.
        now_ms: When all totals were 0, by a clock that never goes back (ms).
    """

    def __init__(self, window_ms: int, num_samples: int, now_ms: float) -> None:
        self._window_ms = window_ms
        self._num_samples = num_samples
        self._looks: tuple[tuple[float, Mapping[T, float]], ...] = ((now_ms, {}),)

    def sample(self, now_ms: float, totals: Callable[[], Mapping[T, float]]) -> None:
        """Look at the totals if a window has passed since the last look.

        Args:
            totals: Returns the totals; called only when they are looked at.
        """
        if now_ms - self._looks[-1][0] >= self._window_ms:
            self._looks = (*self._looks, (now_ms, totals()))[-self._num_samples :]

    def rate(self, name: T, total: float, now_ms: float) -> float:
        """Return how much a total has grown per second.

        Args:
            name: Whose total it is.
            total: What it is now. Less than it was: it began anew, with a new task of the name.
        """
        since_ms, totals = self._looks[0]
        before = totals.get(name, 0.0)
        grown = total - before if total >= before else total
        elapsed_ms = windowed_ms(now_ms - since_ms, self._window_ms, self._num_samples)
        return grown * _MS_PER_S / elapsed_ms
