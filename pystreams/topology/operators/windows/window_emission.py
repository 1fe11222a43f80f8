"""What aggregations of windows have in common: time, late records, final results.

    record --> WindowTime: stream time goes on; what it has passed by the grace period is closed
                 |                                       |
                 | window open: folded, kept             | closed: the record is late, dropped
                 v
               FinalResults: at most once an interval, what has closed since is sent on

The stream time is that of the records an operator has met, not the task's: a filter above it
counts. It is committed with the offsets, as is how far final results were sent on; so a restart
neither changes which records are late, nor is a result sent twice or never. Differs from Kafka,
which forgets the stream time.

Spec: Kafka AbstractKStreamTimeWindowAggregateProcessor, KStreamSessionWindowAggregate, KIP-825.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pystreams.kernel.async_functions import refuse_coroutine
from pystreams.stores.contracts.window import Window
from pystreams.topology.contracts.operator import STREAM_TIME_PREFIX, NodeContext
from pystreams.topology.operators.late_records import NOBODY, LateRecords

_NEVER = -1


class WindowTime:
    """The stream time of one operator in one task, and what is done with late records.

    Args:
        store: The store of its results; its stream time counts where none is committed.

    Attributes:
        stream_time: The highest timestamp (ms) it has met; -1 before the first.
        hand_on: Takes each record that was late for one of its windows or more, as it came; None
            where nobody does.
    """

    __slots__ = (
        "_dropped",
        "_name",
        "_record_dropped",
        "_report_error",
        "_told",
        "hand_on",
        "stream_time",
    )

    def __init__(self, node: NodeContext, store: Any, late: LateRecords = NOBODY) -> None:
        task = node.task
        self._name = node.name
        self._record_dropped = task.record_dropped
        self._report_error = task.report_error
        self._told = late.function
        self.hand_on = late.step(node)
        self._dropped: tuple[int, str, int] = (0, "", 0)
        committed_name = f"{STREAM_TIME_PREFIX}{node.name}"
        self.stream_time = task.committed_number(committed_name, _NEVER)
        task.commit_number(committed_name, lambda: self.stream_time)
        task.on_init(lambda: self._start(store))

    def drop(
        self, key: Any, value: Any, timestamp: int, window: Window, shown: str, close_time: int
    ) -> None:
        """Count a record as dropped because a window is closed; the log tells the first of many.

        Args:
            timestamp: The record's (ms).
            shown: The window, as the log shall show it.
            close_time: Until when windows are closed (ms).
        """
        self._dropped = timestamp, shown, close_time
        self._record_dropped(self._name, "expired window", self._details)
        if self._told is not None:
            try:
                returned = self._told(key, value, timestamp, window)
                if returned is not None:
                    refuse_coroutine(returned, "who is told of late records returned")
            except Exception as error:  # noqa: BLE001 - the user's code may raise anything
                self._report_error(error, self._name)

    def _start(self, store: Any) -> None:
        """Go on from where the store was, if nothing is committed: others may write it too."""
        if self.stream_time == _NEVER:
            self.stream_time = store.stream_time

    def _details(self) -> Mapping[str, object]:
        timestamp, window, close_time = self._dropped
        return {
            "timestamp": timestamp,
            "window": window,
            "expiration": close_time,
            "stream_time": self.stream_time,
        }


class FinalResults:
    """When results of closed windows are due, and how far they were sent on.

    However fast stream time goes, results wait for the clock no longer than the store keeps more
    than its retention while it is restored: a segment of stream time. So none is lost with a disk.

    Attributes:
        closed_until: Windows that close by this time (ms) were sent on; -1 before the first.
    """

    __slots__ = ("_interval_ms", "_longest_ms", "_next_ms", "_task_time", "closed_until")

    def __init__(self, node: NodeContext, store: str) -> None:
        task = node.task
        self._longest_ms: int = task.store(store).segment_interval_ms
        self._task_time = task.time
        self._interval_ms = task.settings.window_emit_interval_ms
        self._next_ms = 0
        self.closed_until = task.committed_number(store, _NEVER)
        task.commit_number(store, lambda: self.closed_until)

    def due(self, close_time: int) -> bool:
        """Return whether to look for closed windows now; if so, take note of it.

        That is at most once an interval, whatever the wall clock is set to, and only if stream time
        went on.

        Args:
            close_time: Until when windows are closed (ms).
        """
        now_ms = self._task_time.monotonic_ms
        if now_ms < self._next_ms and close_time - self.closed_until <= self._longest_ms:
            return False
        self._next_ms = now_ms + self._interval_ms
        return close_time > self.closed_until

    def sent(self, close_time: int) -> None:
        """Take note that all windows that close by a time (ms) were sent on."""
        self.closed_until = close_time
