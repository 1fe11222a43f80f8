"""Rates of totals that grow, durations and counts in words: for displays."""

from __future__ import annotations

from collections import deque

_WINDOW_S = 5.0


class RateMeter:
    """Turns a growing total into a rate over the last seconds.

    Args:
        window_s: How many seconds it looks back (s).
    """

    def __init__(self, window_s: float = _WINDOW_S) -> None:
        self._window_s = window_s
        self._samples: deque[tuple[float, int]] = deque()

    def rate(self, total: int, now_s: float) -> float:
        """Add a sample and return the growth a second over the window; 0 for the first one.

        A total that falls (tasks moved away) starts anew.

        Args:
            now_s: When it was read, from any origin (s).
        """
        samples = self._samples
        if samples and total < samples[-1][1]:
            samples.clear()
        samples.append((now_s, total))
        # One sample from before the window stays, so that the window is always covered.
        while len(samples) > 2 and samples[1][0] <= now_s - self._window_s:
            samples.popleft()
        then_s, before = samples[0]
        return (total - before) / (now_s - then_s) if now_s > then_s else 0.0


def duration(seconds: float) -> str:
    """Return a duration as a reader wants it: `42 s`, `1 min 20 s`, `3 h 5 min`."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    return f"{minutes // 60} h {minutes % 60} min"


def counted(number: int, noun: str) -> str:
    """Return how many there are of something: `1 task`, `2,000 tasks`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
