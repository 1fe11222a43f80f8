"""Aggregations of time windows: a row for each key and window, kept in a window store.

    record --> its windows, earliest first --> each that is open: folded, kept, sent on as a change
                                               each that is closed: the record is late for it

A row's timestamp is the highest of its records'. A record without a value is folded as any other:
the aggregator is called with None. With final results no change is sent on, but each row once its
window has closed, earliest windows first, with the headers of the record that led to it.

Differs from Kafka, where a result that is older than the store's retention when it is looked for is
not sent: with the default retention that is any window that is followed by a gap.

Spec: Kafka KStreamWindowAggregate, AbstractKStreamTimeWindowAggregateProcessor.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pystreams.record import Headers
from pystreams.stores.contracts.window import Window, Windowed
from pystreams.topology.contracts.operator import NodeContext, Step
from pystreams.topology.contracts.windows import TimeWindows, Windows
from pystreams.topology.operators.windows.window_aggregation import (
    FixedWindowAggregation,
    WindowOperator,
)
from pystreams.topology.operators.windows.window_emission import FinalResults


@dataclass(frozen=True, slots=True)
class TimeWindowOperator(WindowOperator):
    """Folds the records of each key and window; one without a key is dropped."""

    windows: Windows

    def attach(self, node: NodeContext) -> Step:
        """Return the step."""
        return _TimeWindows(self, node).step


class _TimeWindows(FixedWindowAggregation):
    """The aggregation in one task; see `TimeWindowOperator`."""

    def __init__(self, operator: TimeWindowOperator, node: NodeContext) -> None:
        windows = operator.windows
        super().__init__(operator, node, windows.size_ms + windows.grace_period_ms)
        self._windows = windows
        # Neighbours in time are mostly in the same windows.
        self._present: list[Window] = []
        self._same_windows = range(0)
        self._fold = operator.fold

    def step(self, key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        """Fold one record into its windows."""
        if key is None:
            self._record_dropped(self._name, "null key")
            return
        time, windows = self._time, self._windows
        if timestamp > time.stream_time:
            time.stream_time = timestamp
        close_time = time.stream_time - windows.grace_period_ms
        late, row_key = False, None
        if timestamp not in self._same_windows:
            self._present = windows.windows_for(timestamp)
            self._same_windows = _times_in(self._present, windows)
        for window in self._present:
            if window.end <= close_time:
                late = True
                shown = f"[{window.start},{window.end})"
                time.drop(key, value, timestamp, window, shown, close_time)
                continue
            if row_key is None:
                try:
                    row_key = self._row_key(key)
                except Exception as error:  # noqa: BLE001 - a serde may raise anything
                    self._report_error(error, self._name)
                    return
            if not self._update(key, row_key, value, (timestamp, headers), window):
                return
        if late and time.hand_on is not None:
            time.hand_on(key, value, timestamp, headers)
        if self._final is not None and self._final.due(close_time):
            self._send_closed(close_time, self._final, headers)

    def _update(
        self, key: Any, row_key: bytes, value: Any, at: tuple[int, Headers], window: Window
    ) -> bool:
        """Fold a record with its timestamp and headers into one window; tell if that went well."""
        record, fold = self._record, self._fold
        timestamp, headers = record.timestamp, record.headers = at
        start = window.start
        try:
            old, old_timestamp = self._fetch_row(row_key, start)
            if is_new := old is None:
                old = fold.initializer()
            elif old_timestamp > timestamp:
                timestamp = old_timestamp
            new = fold.aggregator(key, value, old)
            if self._reads_old and (old := self._fetch_row(row_key, start)[0]) is None:
                # The aggregator may have changed what it was given.
                old = fold.initializer()
            self._put_row(row_key, new, timestamp, start, replaces=not is_new)
        except Exception as error:  # noqa: BLE001 - the user's code may raise anything
            self._report_error(error, self._name)
            return False
        if self._forwards:
            change = (new, old if self._reads_old else None)
            self._forward(Windowed(key, window), change, timestamp, headers)
        return True

    def _send_closed(self, close_time: int, final: FinalResults, headers: Headers) -> None:
        """Send the results of the windows on that have closed since this was done last."""
        size_ms = self._windows.size_ms
        last_start = close_time - size_ms
        if last_start < 0:
            return
        first_start = self._first_unsent(final)
        if first_start == 0 or self._begins_between(first_start, last_start):
            for windowed, row in self._store.fetch_kept(first_start, last_start):
                self._forward(windowed, (row.value, None), row.timestamp, headers)
        final.sent(close_time)
        self._keep()

    def _first_unsent(self, final: FinalResults) -> int:
        """Return the earliest start (ms) of a window that may be still to be sent on."""
        closed_until = final.closed_until
        return 0 if closed_until < 0 else max(0, closed_until - self._windows.size_ms) + 1

    def _begins_between(self, first: int, last: int) -> bool:
        """Return whether a window begins in a stretch of time (ms, both inclusive)."""
        windows = self._windows.windows_for(last)
        return bool(windows) and windows[-1].start >= first


def _times_in(present: list[Window], windows: Windows) -> range:
    """Return the times (ms) that are in just these windows, which are those of one time."""
    if not isinstance(windows, TimeWindows):
        return range(present[0].start, present[0].end) if present else range(0)
    size_ms, advance_ms = windows.size_ms, windows.advance_ms
    first, last = present[0].start, present[-1].start
    begin = last if first == 0 else max(last, first + size_ms - advance_ms)
    return range(begin, min(last + advance_ms, first + size_ms))
