"""How soon a child of `--processes` is started again, and how often."""

from __future__ import annotations

from collections import Counter

MOST = 5
"""So often within `WITHIN_S` a child is started again: what ends it more often will go on."""
WITHIN_S = 600.0
_FIRST_PAUSE_S = 1.0


class Restarts:
    """The ends of each child, by its number."""

    def __init__(self) -> None:
        self._recent_s: dict[int, list[float]] = {}
        self._ends: Counter[int] = Counter()

    def ends(self, number: int) -> int:
        """Return how often a child has ended so far."""
        return self._ends[number]

    def pause_s(self, number: int, now_s: float) -> float | None:
        """Take note that a child has ended; return how long to wait before it starts again.

        Twice as long after each end within ten minutes.

        Returns:
            Seconds; None when that was too often.
        """
        recent = [at_s for at_s in self._recent_s.get(number, ()) if now_s - at_s < WITHIN_S]
        self._recent_s[number] = [*recent, now_s]
        self._ends[number] += 1
        return None if len(recent) >= MOST else _FIRST_PAUSE_S * 2 ** len(recent)
