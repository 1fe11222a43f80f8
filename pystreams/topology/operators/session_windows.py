"""Folds the records of a key into sessions: stretches of time without a pause longer than the gap.

A record finds the sessions it is within the gap of. They become one with it: their results are
merged in order of time, the record is added, the rows of the former sessions are deleted, and that
of the new one is written.

    gap 5          a at 1     a at 8     a at 4 comes late
    sessions       [1, 1]     [8, 8]     [1, 1] and [8, 8] are deleted, [1, 8] is made

A session's row carries the time of its end. A record whose session, as it would be with the record,
ended longer ago than gap and grace period is late, and dropped.

Source: Kafka Streams' `KStreamSessionWindowAggregate`, `SessionCacheFlushListener`.
Differs from Kafka: the aggregator is called before former sessions are deleted, so that a record
it fails with changes nothing; and a session that a record of its very time joins, which stays the
session it was, is forwarded with its old value.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pystreams.record import Headers, RecordMetadata
from pystreams.stores.contracts.window import Window, Windowed
from pystreams.topology.contracts.operator import NodeContext, Step
from pystreams.topology.contracts.windows import EmitStrategy, SessionWindows
from pystreams.topology.operators.fold import Fold
from pystreams.topology.operators.table_operator import TableOperator

Sessions = list[tuple[Windowed[Any], Any]]
"""Sessions with their results, in order of time."""

Replace = Callable[[Sessions, Windowed[Any], Any, int, Headers], None]
"""Called with (former sessions, what they become, its result, the record's timestamp, headers)."""


@dataclass(frozen=True, slots=True)
class SessionWindowOperator(TableOperator):
    """Folds the records of each key and session; one without a key is dropped.

    Attributes:
        store: Keeps the results.
        windows: How time is cut.
        fold: What is done with the records of a session.
        emit: When results are sent on.
    """

    store: str
    windows: SessionWindows
    fold: Fold
    emit: EmitStrategy

    def attach(self, node: NodeContext) -> Step:
        """Return the step."""
        fold, store, gap_ms = self.fold, node.task.store(self.store), self.windows.inactivity_gap_ms
        initializer, aggregator, merger = fold.initializer, fold.aggregator, fold.merger
        assert merger is not None, f"node {node.name}: sessions are merged"
        find_sessions, kept_ms = store.find_sessions, gap_ms + self.windows.grace_period_ms
        record_dropped, name = node.task.record_dropped, node.name
        report_error, replace = node.task.report_error, self._replacing(node)
        stream_time = -1

        def start() -> None:
            nonlocal stream_time
            stream_time = store.stream_time

        node.task.on_init(start)

        def step(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            nonlocal stream_time
            if key is None:
                record_dropped(name, "null key")
                return
            if timestamp > stream_time:
                stream_time = timestamp
            start = end = timestamp
            try:
                former = list(find_sessions(key, timestamp - gap_ms, timestamp + gap_ms))
                result = initializer()
                for (_, (other_start, other_end)), other in former:
                    result = merger(key, result, other)
                    start, end = min(start, other_start), max(end, other_end)
                if end < stream_time - kept_ms:
                    record_dropped(name, "its session is closed")
                    return
                result = aggregator(key, value, result)
            except Exception as error:  # noqa: BLE001 - the user's code may raise anything
                report_error(error, name)
                return
            replace(former, Windowed(key, Window(start, end)), result, timestamp, headers)

        return step

    def _replacing(self, node: NodeContext) -> Replace:
        """Return what writes a session in the place of former ones, and forwards that."""
        store, forward, record = node.task.store(self.store), node.forward, node.task.record
        fetch_session, remove, put = store.fetch_session, store.remove, store.put
        report_error, name = node.task.report_error, node.name
        forwards = must_forward_sessions(node, store, send_old_values=self.send_old_values)
        reads_old = forwards and self.send_old_values

        def replace(
            former: Sessions, session: Windowed[Any], result: Any, timestamp: int, headers: Headers
        ) -> None:
            key, window = session
            old = None
            if window == (timestamp, timestamp):
                if former and reads_old:
                    old = fetch_session(key, timestamp, timestamp)
            else:
                for other, _ in former:
                    start, end = other.window
                    # Read anew: the merger may have changed what it was given.
                    other_old = fetch_session(key, start, end) if reads_old else None
                    # What is below may have set another record.
                    record.timestamp, record.headers = timestamp, headers
                    remove(other)
                    if forwards:
                        forward(other, (None, other_old), end, ())
            record.timestamp, record.headers = timestamp, headers
            try:
                put(session, result)
            except Exception as error:  # noqa: BLE001 - a serde may raise anything
                report_error(error, name)
                return
            if forwards:
                forward(session, (result, old), window.end, ())

        return replace


def must_forward_sessions(node: NodeContext, store: Any, *, send_old_values: bool) -> bool:
    """Do as `must_forward` for a store of sessions: what is forwarded has the time of their end."""
    forward, go_back_to = node.forward, node.task.record.go_back_to

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

    return not store.set_flush_listener(on_flush, send_old_values=send_old_values)
