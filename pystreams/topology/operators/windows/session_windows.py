"""Folds the records of a key into sessions: stretches of time without a pause longer than the gap.

A record finds the sessions it is within the gap of. They become one with it: their results are
merged in order of time, the record is added, the rows of the former sessions are deleted, and that
of the new one is written.

    gap 5          a at 1     a at 8     a at 4 comes late
    sessions       [1, 1]     [8, 8]     [1, 1] and [8, 8] are deleted, [1, 8] is made

A session's row carries the time of its end. A record whose session, as it would be with the record,
ended longer ago than gap and grace period is late, and dropped. With final results no change is
sent on, but each row once its session has closed, in order of their ends, with the headers of the
record that led to it.

Source: Kafka Streams' `KStreamSessionWindowAggregate`, `SessionCacheFlushListener`.
Differs from Kafka: the aggregator is called before former sessions are deleted, so that a record
it fails with changes nothing; a session that a record of its very time joins, which stays the
session it was, is forwarded with its old value; a session whose final result was sent on, here or
by a suppression below, is not merged any more, even if it is kept longer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pystreams.record import Headers, RecordMetadata
from pystreams.stores.contracts.window import Window, Windowed
from pystreams.topology.contracts.operator import NodeContext, Step
from pystreams.topology.contracts.windows import EmitStrategy, SessionWindows
from pystreams.topology.operators.windows.window_aggregation import (
    WindowAggregation,
    WindowOperator,
)
from pystreams.topology.operators.windows.window_emission import FinalResults

Sessions = list[tuple[Windowed[Any], Any]]
"""Sessions with their results, in order of time."""


@dataclass(frozen=True, slots=True)
class SessionWindowOperator(WindowOperator):
    """Folds the records of each key and session; one without a key is dropped."""

    windows: SessionWindows

    def attach(self, node: NodeContext) -> Step:
        """Return the step."""
        if self.emit is EmitStrategy.ON_WINDOW_CLOSE:
            return _FinalSessions(self, node).step
        return _Sessions(self, node).step


class _Sessions(WindowAggregation):
    """The aggregation in one task; see `SessionWindowOperator`."""

    def __init__(self, operator: SessionWindowOperator, node: NodeContext) -> None:
        self._gap_ms = operator.windows.inactivity_gap_ms
        self._open_ms = self._gap_ms + operator.windows.grace_period_ms
        super().__init__(operator, node, self._open_ms + 1)
        merger = operator.fold.merger
        assert merger is not None, f"node {node.name}: sessions are merged"
        self._initializer = operator.fold.initializer
        self._aggregator = operator.fold.aggregator
        self._merger = merger
        self._send_old_values = operator.send_old_values
        self._forwards = self._must_forward()
        self._is_final = operator.is_final

    def step(self, key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        """Fold one record into its session."""
        if key is None:
            self._record_dropped(self._name, "null key")
            return
        time, earliest_end = self._time, timestamp - self._gap_ms
        # What ended then, or before, has been told below.
        told_until = time.stream_time - self._open_ms if self._is_final else -1
        if timestamp > time.stream_time:
            time.stream_time = timestamp
        if told_until >= earliest_end:
            earliest_end = told_until + 1
        self._fold(key, value, timestamp, headers, earliest_end, told_until)

    def _fold(
        self,
        key: Any,
        value: Any,
        timestamp: int,
        headers: Headers,
        earliest_end: int,
        told_until: int = -1,
    ) -> bool:
        """Fold a record into its session; return whether that went well.

        Args:
            key: The record's key.
            timestamp: Its timestamp (ms).
            earliest_end: Sessions that ended before this time (ms) are none of it.
            told_until: Those that ended by this time (ms) were told below, once and for all.
        """
        close_time = self._time.stream_time - self._open_ms
        start = end = timestamp
        merger = self._merger
        try:
            former = self._store.sessions_near(key, earliest_end, timestamp + self._gap_ms)
            result = self._initializer()
            for (_, (other_start, other_end)), other in former:
                result = merger(key, result, other)
                start, end = min(start, other_start), max(end, other_end)
            late = end < close_time or end <= told_until
            if not late:
                result = self._aggregator(key, value, result)
        except Exception as error:  # noqa: BLE001 - the user's code may raise anything
            self._report_error(error, self._name)
            return False
        if late:
            self._drop(key, value, timestamp, headers, Window(start, end))
        else:
            self._replace(former, Windowed(key, Window(start, end)), result, timestamp, headers)
        return True

    def _drop(self, key: Any, value: Any, timestamp: int, headers: Headers, window: Window) -> None:
        """Leave a late record out, and tell whoever wants to know."""
        time = self._time
        close_time = time.stream_time - self._open_ms
        time.drop(key, value, timestamp, window, f"[{window.start},{window.end}]", close_time)
        if time.hand_on is not None:
            time.hand_on(key, value, timestamp, headers)

    def _replace(
        self,
        former: Sessions,
        session: Windowed[Any],
        result: Any,
        timestamp: int,
        headers: Headers,
    ) -> None:
        """Write a session in the place of former ones, and forward that if the store does not."""
        record, store, forwards = self._record, self._store, self._forwards
        reads_old = forwards and self._send_old_values
        key, window = session
        old = None
        if window == (timestamp, timestamp):
            if former and reads_old:
                old = store.fetch_session(key, timestamp, timestamp)
        else:
            for other, _ in former:
                start, end = other.window
                # Read anew: the merger may have changed what it was given.
                other_old = store.fetch_session(key, start, end) if reads_old else None
                # What is below may have set another record.
                record.timestamp, record.headers = timestamp, headers
                store.remove(other)
                if forwards:
                    self._forward(other, (None, other_old), end, ())
        record.timestamp, record.headers = timestamp, headers
        try:
            store.put(session, result)
        except Exception as error:  # noqa: BLE001 - a serde may raise anything
            self._report_error(error, self._name)
            return
        if forwards:
            self._forward(session, (result, old), window.end, ())

    def _must_forward(self) -> bool:
        """Let a caching store forward changes at each flush; return whether this must do it."""
        forward, go_back_to = self._forward, self._record.go_back_to

        def on_flush(
            session: Windowed[Any],
            new: Any,
            old: Any,
            timestamp: int,  # noqa: ARG001 - of the record, which has no part in this
            headers: Headers,
            source: RecordMetadata | None,
        ) -> None:
            end = session.window.end
            go_back_to(source, end, headers)
            forward(session, (new, old), end, headers)

        return not self._store.set_flush_listener(on_flush, send_old_values=self._send_old_values)


class _FinalSessions(_Sessions):
    """The aggregation that sends each result on once, when its session has closed."""

    def __init__(self, operator: SessionWindowOperator, node: NodeContext) -> None:
        super().__init__(operator, node)
        self._final = FinalResults(node, operator.store)
        node.task.on_init(self._keep)

    def step(self, key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        """Fold one record into its session, and send on what has closed, if it is time to look."""
        if key is None:
            self._record_dropped(self._name, "null key")
            return
        time = self._time
        if timestamp > time.stream_time:
            time.stream_time = timestamp
        close_time = time.stream_time - self._open_ms
        # What has closed stays as it is, whether or not it was sent on and is kept.
        earliest_end = max(timestamp - self._gap_ms, close_time)
        if not self._fold(key, value, timestamp, headers, earliest_end):
            return
        if self._final.due(close_time) and close_time > 0:
            self._send_closed(close_time, headers)

    def _must_forward(self) -> bool:
        return False

    def _move_to(self, stream_time: int) -> None:
        super()._move_to(stream_time)
        close_time = stream_time - self._open_ms
        if close_time > max(0, self._final.closed_until):
            self._send_closed(close_time, ())

    def _send_closed(self, close_time: int, headers: Headers) -> None:
        """Send the results of the sessions on that have closed since this was done last."""
        final = self._final
        first_end = max(0, final.closed_until)
        for session, result in self._store.find_kept_sessions(first_end, close_time - 1):
            self._forward(session, (result, None), session.window.end, headers)
        final.sent(close_time)
        self._keep()

    def _keep(self) -> None:
        """Let the store keep the sessions that are still to be sent on."""
        self._store.keep_from(max(0, self._final.closed_until))
