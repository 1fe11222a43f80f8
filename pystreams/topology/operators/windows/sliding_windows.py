"""Sliding windows: every stretch of time, of one length, that has other records of a key in it.

    time difference 10      a@10    b@14            c@22

    [0, 10]     ----------- a
    [4, 14]           ----- a ----- b                        the left window of b ends with it
    [11, 21]                  ----- b ------------           the right window of a begins after it
    [12, 22]                     -- b ------------- c
    [15, 25]                          ------------- c ---    the right window of b

A record has a left window, which ends with it, and a right one, which begins a millisecond after it
and is kept once a record is in it. So any two records that are close enough share a window, and no
two windows of a key hold the same records. A record in order of time adds itself to the windows it
is in, opens the right window of the one before it, and its own left one, which takes what that one
had. A record that comes late finds the windows of later ones, and opens its right window with what
those have. Windows begin at 0 at the earliest: what is nearer to it than the time difference has
the window from 0 on for its left one.

What belongs to which window is told by the windows alone, their starts and the times of their last
records: no record is kept.

Windows are read latest first, up to the first that ends before the record, as they are when the
record comes. Kafka reads a store that has no `backwardFetch` in order of time; all of ours have
one. An aggregate is read again for a window that begins with what another one has, so that an
aggregator may change what it is given in place.

Differs from Kafka: a window that is opened with what another one has has no old value. Kafka sends
the other's aggregate as such, which tables downstream then subtract without having added it; with a
record cache it does as here. A window that begins just after one record and ends with the next is
sent twice, as by Kafka: the second time with the first result as its old value, where Kafka has the
initial one again, so that tables downstream add it twice. If it is closed, it is told as late once.

Source: Kafka Streams' `KStreamSlidingWindowAggregate`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pystreams.record import Headers
from pystreams.stores.contracts.window import Windowed
from pystreams.stores.kinds.window.keys import window_of
from pystreams.topology.contracts.operator import NodeContext, Step
from pystreams.topology.contracts.windows import SlidingWindows
from pystreams.topology.operators.windows.window_aggregation import (
    FixedWindowAggregation,
    WindowOperator,
)
from pystreams.topology.operators.windows.window_emission import FinalResults

_Held = tuple[Any, int]
"""An aggregate and the time (ms) of its last record."""


@dataclass(frozen=True, slots=True)
class SlidingWindowOperator(WindowOperator):
    """Folds the records of each key and window; one without key or value is dropped."""

    windows: SlidingWindows

    def attach(self, node: NodeContext) -> Step:
        """Return the step."""
        return _SlidingAggregation(self, node).step


class _SlidingAggregation(FixedWindowAggregation):
    """The aggregation in one task; see `SlidingWindowOperator`."""

    def __init__(self, operator: SlidingWindowOperator, node: NodeContext) -> None:
        self._difference_ms = difference_ms = operator.windows.time_difference_ms
        super().__init__(operator, node, difference_ms + operator.windows.grace_period_ms + 1)
        self._initializer = operator.fold.initializer
        self._aggregator = operator.fold.aggregator
        self._rows_latest_first = self._store.rows_latest_first
        self._fetch = self._store.fetch
        self._close_time = -1
        self._present_key = b""  # In bytes: that of the record at hand.
        self._is_late = False
        self._changes: list[tuple[int, Any, Any, int]] = []

    def step(self, key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        """Fold one record into its windows."""
        if key is None or value is None:
            self._record_dropped(self._name, "null key or value")
            return
        time = self._time
        if timestamp > time.stream_time:
            time.stream_time = timestamp
        self._close_time = close_time = time.stream_time - self._grace_ms
        difference_ms = self._difference_ms
        if timestamp + difference_ms < close_time:
            self._drop(key, value, timestamp, timestamp)
            self._hand_late_on(key, value, timestamp, headers)
            return
        self._record.timestamp, self._record.headers = timestamp, headers
        changes = self._changes
        try:
            self._present_key = self._row_key(key)
            if timestamp < difference_ms:
                self._fold_early(key, value, timestamp)
            else:
                self._fold(key, value, timestamp)
        except Exception as error:  # noqa: BLE001 - the user's code may raise anything
            self._changes = []
            self._report_error(error, self._name)
        if changes:
            # Of a record that failed half way: what its windows have got already.
            self._changes = []
            reads_old = self._reads_old
            for start, new, old, changed_at in changes:
                change = (new, old if reads_old else None)
                windowed = Windowed(key, window_of(start, difference_ms))
                self._forward(windowed, change, changed_at, headers)
        if self._is_late:
            self._hand_late_on(key, value, timestamp, headers)
        # Kafka, too, looks for closed windows with records that are not early.
        if self._final is not None and timestamp >= difference_ms and self._final.due(close_time):
            self._send_closed(close_time, self._final, headers)

    def _fold(self, key: Any, value: Any, timestamp: int) -> None:
        """Fold a record into the windows it is in, and open those that it makes necessary."""
        difference_ms = self._difference_ms
        starts = set()
        left: Any = None
        right: _Held | None = None
        previous: int | None = None
        has_left = has_right = is_inside = False
        # One more, to see the record's own right window.
        earliest, row_key = max(0, timestamp - 2 * difference_ms), self._present_key
        for start, held in self._rows_latest_first(row_key, earliest, timestamp + 1):
            starts.add(start)
            end = start + difference_ms
            if start > timestamp:
                has_right = True
            elif end > timestamp:
                if not is_inside and held[1] > timestamp:
                    right = self._fetch_row(self._present_key, start)
                is_inside = True
                self._update(key, value, timestamp, start, held)
            elif end == timestamp:
                has_left = True
                self._update(key, value, timestamp, start, held)
                if held[1] >= timestamp:
                    return  # A record of this time has opened all there is.
                previous = held[1]
            else:
                left, previous = held
                break
        if (
            previous is not None
            and previous + 1 not in starts
            and previous + 1 + difference_ms >= timestamp
        ):
            self._begin(key, value, timestamp, previous + 1)
            starts.add(previous + 1)
        if not has_left:
            start = timestamp - difference_ms
            goes_on = previous is not None and start <= previous
            if goes_on:
                self._open(key, value, timestamp, start, left, None)
            elif start in starts:
                self._begin_again(key, value, timestamp, start)
            else:
                self._begin(key, value, timestamp, start)
        if right is not None and not has_right:
            self._open_right(timestamp, right)

    def _fold_early(self, key: Any, value: Any, timestamp: int) -> None:
        """Fold a record whose left window would begin before 0: the one from 0 on is."""
        starts = set()
        first: _Held | None = None
        right: _Held | None = None
        previous: int | None = None
        for start, held in self._fetch(key, 0, timestamp + 1):
            starts.add(start)
            if start == 0:
                first = held
                if held[1] < timestamp:
                    previous = held[1]
                else:
                    right = self._fetch_row(self._present_key, 0)
            elif start <= timestamp:
                right = self._fetch_row(self._present_key, start)
                self._update(key, value, timestamp, start, held)
        if right is not None and right[1] > timestamp and timestamp + 1 not in starts:
            self._open_right(timestamp, right)
        if previous is not None and previous + 1 not in starts:
            self._begin(key, value, timestamp, previous + 1)
        if first is None:
            self._begin(key, value, timestamp, 0)
        else:
            self._update(key, value, timestamp, 0, first)

    def _update(self, key: Any, value: Any, timestamp: int, start: int, held: _Held) -> None:
        """Fold a record into a window that is there, unless that is closed."""
        if start + self._difference_ms < self._close_time:
            self._drop(key, value, timestamp, start)
            return
        old, time = held
        new = self._aggregator(key, value, old)
        if self._reads_old:
            # The aggregator may have changed what it was given.
            old, _ = self._fetch_row(self._present_key, start)
        time = max(time, timestamp)
        self._put_row(self._present_key, new, time, start, replaces=True)
        if self._forwards:
            self._changes.append((start, new, old, time))

    def _begin(self, key: Any, value: Any, timestamp: int, start: int) -> None:
        """Fold a record into a window that begins with nothing, unless that is closed."""
        old = self._initializer() if self._reads_old else None
        self._open(key, value, timestamp, start, self._initializer(), old)

    def _begin_again(self, key: Any, value: Any, timestamp: int, start: int) -> None:
        """Tell a window once more that this record has begun as the right one of the one before."""
        if start + self._difference_ms >= self._close_time:
            old = self._fetch_row(self._present_key, start)[0] if self._reads_old else None
            self._open(key, value, timestamp, start, self._initializer(), old)

    def _open(self, key: Any, value: Any, timestamp: int, start: int, begun: Any, old: Any) -> None:
        """Fold a record into a window that begins with an aggregate, unless that is closed."""
        if start + self._difference_ms < self._close_time:
            self._drop(key, value, timestamp, start)
            return
        new = self._aggregator(key, value, begun)
        self._put_row(self._present_key, new, timestamp, start)
        if self._forwards:
            self._changes.append((start, new, old, timestamp))

    def _open_right(self, timestamp: int, held: _Held) -> None:
        """Open a record's right window with what later records have left in another one."""
        new, time = held
        self._put_row(self._present_key, new, time, timestamp + 1)
        if self._forwards:
            self._changes.append((timestamp + 1, new, None, time))

    def _drop(self, key: Any, value: Any, timestamp: int, start: int) -> None:
        """Count a record that is late for a window."""
        self._is_late = True
        window = window_of(start, self._difference_ms)
        shown = f"[{window.start},{window.end}]"
        self._time.drop(key, value, timestamp, window, shown, self._close_time)

    def _hand_late_on(self, key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        """Hand a record on that was late for a window, to who wants such."""
        self._is_late = False
        if self._time.hand_on is not None:
            self._time.hand_on(key, value, timestamp, headers)

    def _send_closed(self, close_time: int, final: FinalResults, headers: Headers) -> None:
        """Send the results of the windows on that have closed since this was done last."""
        last_start = close_time - self._difference_ms - 1
        if last_start < 0:
            return
        for windowed, row in self._store.fetch_kept(self._first_unsent(final), last_start):
            self._forward(windowed, (row.value, None), row.timestamp, headers)
        final.sent(close_time)
        self._keep()

    def _first_unsent(self, final: FinalResults) -> int:
        """Return the earliest start (ms) of a window that may be still to be sent on."""
        return max(0, final.closed_until - self._difference_ms)
