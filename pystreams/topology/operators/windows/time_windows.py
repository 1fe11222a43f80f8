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
from pystreams.topology.contracts.windows import EmitStrategy, TimeWindows, Windows
from pystreams.topology.operators.fold import Fold
from pystreams.topology.operators.idle_time import NOTHING_WAITS, go_on_while_idle
from pystreams.topology.operators.late_records import NOBODY, LateRecords
from pystreams.topology.operators.tables.table_operator import TableOperator
from pystreams.topology.operators.tables.table_view import must_forward
from pystreams.topology.operators.windows.window_emission import FinalResults, WindowTime


@dataclass(frozen=True, slots=True)
class TimeWindowOperator(TableOperator):
    """Folds the records of each key and window.

    Attributes:
        emit: When results are sent on.
        idle_timeout_ms: How long the input is silent before the wall clock moves the stream time;
            None if it never does.
    """

    store: str
    windows: Windows
    fold: Fold
    emit: EmitStrategy
    late: LateRecords = NOBODY
    idle_timeout_ms: int | None = None

    def attach(self, node: NodeContext) -> Step:
        """Return the step."""
        return _TimeWindows(self, node).step


class _TimeWindows:
    """The aggregation in one task; see `TimeWindowOperator`."""

    def __init__(self, operator: TimeWindowOperator, node: NodeContext) -> None:
        task = node.task
        store = task.store(operator.store)
        results = operator.late.without_sink(node)
        self._name = node.name
        self._forward = results.forward
        self._record = task.record
        self._record_dropped = task.record_dropped
        self._report_error = task.report_error
        self._store = store
        self._row_key = store.row_key
        self._fetch_row = store.fetch_row
        self._put_row = store.put_row
        self._windows = operator.windows
        # Neighbours in time are mostly in the same windows.
        self._present: list[Window] = []
        self._same_windows = range(0)
        self._fold = operator.fold
        self._time = WindowTime(node, store, operator.late)
        self._final: FinalResults | None = None
        self._forwards = False
        if operator.emit is EmitStrategy.ON_WINDOW_CLOSE:
            self._final = FinalResults(node, operator.store)
            task.on_init(self._keep)
        else:
            self._forwards = must_forward(results, store, send_old_values=operator.send_old_values)
        self._reads_old = self._forwards and operator.send_old_values
        go_on_while_idle(
            node,
            operator.idle_timeout_ms,
            stream_time=lambda: self._time.stream_time,
            waits_until=self._waits_until,
            move_to=self._move_to,
        )

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
        first_start = self._first_unsent()
        if first_start == 0 or self._begins_between(first_start, last_start):
            for windowed, row in self._store.fetch_kept(first_start, last_start):
                self._forward(windowed, (row.value, None), row.timestamp, headers)
        final.sent(close_time)
        self._keep()

    def _waits_until(self) -> int:
        """Return the stream time (ms) that closes the last window there is."""
        last_start: int = self._store.stream_time
        if last_start < 0:
            return NOTHING_WAITS
        return last_start + self._windows.size_ms + self._windows.grace_period_ms

    def _move_to(self, stream_time: int) -> None:
        """Close the windows that silence has shown to be over."""
        self._time.stream_time = stream_time
        close_time = stream_time - self._windows.grace_period_ms
        if self._final is not None and close_time > self._final.closed_until:
            self._send_closed(close_time, self._final, ())

    def _keep(self) -> None:
        """Let the store keep the windows that are still to be sent on."""
        self._store.keep_from(self._first_unsent())

    def _first_unsent(self) -> int:
        """Return the earliest start (ms) of a window that may be still to be sent on."""
        assert self._final is not None, "only final results are sent on later"
        closed_until = self._final.closed_until
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
