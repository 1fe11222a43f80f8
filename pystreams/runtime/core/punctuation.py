"""Scheduled punctuations of one task.

Both clocks work alike: an entry has a next due time and an interval. On stream time the first
punctuation is due at once (with the first record), on wall-clock time one interval from now. An
entry that is late fires once and then keeps to its grid; what it missed is not repeated.

Source: Kafka Streams' `PunctuationQueue` and `PunctuationSchedule.next`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pystreams.topology.processor import PunctuationType, Punctuator


@dataclass(slots=True, eq=False)
class Schedule:
    """One scheduled punctuation.

    Attributes:
        node: The node that asked for it.
        interval_ms: Its interval (ms).
        punctuator: What to call.
        due_ms: When it fires next (ms on its clock).
        cancelled: Whether it was cancelled.
    """

    node: str
    interval_ms: int
    punctuator: Punctuator
    due_ms: int
    cancelled: bool = False

    def cancel(self) -> None:
        """Stop it; safe to call twice, and from within the punctuator."""
        self.cancelled = True


class PunctuationQueue:
    """All schedules of one task, on both clocks."""

    def __init__(self) -> None:
        self._schedules: dict[PunctuationType, list[Schedule]] = {
            kind: [] for kind in PunctuationType
        }

    def schedule(
        self,
        node: str,
        interval_ms: int,
        kind: PunctuationType,
        punctuator: Punctuator,
        *,
        now_ms: int,
    ) -> Schedule:
        """Add a schedule.

        Args:
            node: The node that asks.
            interval_ms: Its interval (ms).
            kind: Which clock.
            punctuator: What to call with the clock's time.
            now_ms: Wall-clock time (ms); only wall-clock schedules look at it.
        """
        due_ms = 0 if kind is PunctuationType.STREAM_TIME else now_ms + interval_ms
        entry = Schedule(node, interval_ms, punctuator, due_ms)
        self._schedules[kind].append(entry)
        return entry

    def next_due_ms(self, kind: PunctuationType) -> int | None:
        """Return when the next punctuation of a clock is due (ms), or None without any."""
        due = [entry.due_ms for entry in self._schedules[kind] if not entry.cancelled]
        return min(due) if due else None

    def fire(
        self, kind: PunctuationType, time_ms: int, run: Callable[[Schedule, int], None]
    ) -> int:
        """Fire what is due, earliest first; what a punctuator schedules fires too when it is due.

        Args:
            kind: Which clock.
            time_ms: The clock's time (ms).
            run: Calls one schedule's punctuator with the time.

        Returns:
            How many fired.
        """
        fired = 0
        while (entry := self._first_due(kind, time_ms)) is not None:
            # A late entry stays on its grid and skips what it missed.
            missed = (time_ms - entry.due_ms) // entry.interval_ms
            entry.due_ms += (missed + 1) * entry.interval_ms
            run(entry, time_ms)
            fired += 1
        if fired:
            entries = self._schedules[kind]
            self._schedules[kind] = [entry for entry in entries if not entry.cancelled]
        return fired

    def _first_due(self, kind: PunctuationType, time_ms: int) -> Schedule | None:
        """Return the entry that is due for longest; of equal ones the one scheduled first."""
        first: Schedule | None = None
        for entry in self._schedules[kind]:
            due = entry.due_ms <= time_ms and not entry.cancelled
            if due and (first is None or entry.due_ms < first.due_ms):
                first = entry
        return first

    def clear(self) -> None:
        """Forget all schedules."""
        for entries in self._schedules.values():
            entries.clear()
