"""Scheduled punctuations of one task.

Both clocks work alike: an entry has a next due time and an interval. On stream time the first
punctuation is due at once (with the first record), on wall-clock time one interval from now; one
that is anchored is due at its start time, or where that has passed at the next point of its grid.
An entry that is late fires once and then keeps to its grid; what it missed is not repeated.

Those due at one time fire in the order in which Kafka Streams fires them, that of a heap. On stream
time one is put off, and those behind it, while records are held on the way to its processor.

Source: Kafka Streams' `PunctuationQueue`, `PunctuationSchedule.next`,
`StreamTask.getInitialSchedule`; `java.util.PriorityQueue`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pystreams.runtime.core.node_meters import CallOfNode, directly
from pystreams.runtime.core.operators.held_records import HeldRecords
from pystreams.topology.contracts.processor import PunctuationType, Punctuator


@dataclass(slots=True, eq=False)
class Schedule:
    """One scheduled punctuation.

    Attributes:
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
    """All schedules of one task, on both clocks.

    Args:
        held: What the task's operators hold back; is told what is put off.

    Attributes:
        call: How what is due is called.
    """

    def __init__(self, held: HeldRecords) -> None:
        self.call: CallOfNode = directly
        self._held = held
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
        start_time_ms: int | None = None,
    ) -> Schedule:
        """Add a schedule.

        Args:
            kind: Which clock.
            punctuator: What to call with the clock's time.
            now_ms: That clock's time (ms).
            start_time_ms: When it is to fire first (ms), and the beginning of its grid; None fires
                with the first record, or an interval from now.
        """
        if start_time_ms is None:
            due_ms = 0 if kind is PunctuationType.STREAM_TIME else now_ms + interval_ms
        else:
            due_ms = start_time_ms
            if due_ms < now_ms:
                due_ms += ((now_ms - due_ms) // interval_ms + 1) * interval_ms
        if kind is PunctuationType.STREAM_TIME and self._held.goes_on:
            self._held.punctuation_of = node  # No run is there that it would come behind.
        entry = Schedule(node, interval_ms, punctuator, due_ms)
        _push(self._schedules[kind], entry)
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
        heap, waits = self._schedules[kind], kind is PunctuationType.STREAM_TIME
        while heap and heap[0].due_ms <= time_ms:
            if waits and not heap[0].cancelled and self._held.may_reach(heap[0].node):
                self._held.punctuation_of = heap[0].node
                return fired
            entry = _pop(heap)
            if entry.cancelled:
                continue
            self.call(entry.node, run, entry, time_ms)
            fired += 1
            if not entry.cancelled:
                # A late entry stays on its grid and skips what it missed.
                missed = (time_ms - entry.due_ms) // entry.interval_ms
                entry.due_ms += (missed + 1) * entry.interval_ms
                _push(heap, entry)
        if waits:
            self._held.punctuation_of = None
        return fired

    def clear(self) -> None:
        """Forget all schedules."""
        for entries in self._schedules.values():
            entries.clear()


def _push(heap: list[Schedule], entry: Schedule) -> None:
    """Add an entry at the end, and let it rise above those that are due later."""
    heap.append(entry)
    position = len(heap) - 1
    while position > 0:
        above = (position - 1) // 2
        if heap[above].due_ms <= entry.due_ms:
            break
        heap[position] = heap[above]
        position = above
    heap[position] = entry


def _pop(heap: list[Schedule]) -> Schedule:
    """Take out the first entry; the last one sinks from its place below those due earlier.

    `heapq` sinks it otherwise, which gives entries of one time another order.
    """
    first, last = heap[0], heap.pop()
    position, size = 0, len(heap)
    while (below := 2 * position + 1) < size:
        if below + 1 < size and heap[below + 1].due_ms < heap[below].due_ms:
            below += 1
        if last.due_ms <= heap[below].due_ms:
            break
        heap[position] = heap[below]
        position = below
    if size:
        heap[position] = last
    return first
