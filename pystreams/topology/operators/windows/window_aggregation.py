"""What the aggregations of windows are made of, and what moves them but records."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import Any, Self

from pystreams.record import Headers
from pystreams.topology.contracts.operator import NodeContext
from pystreams.topology.contracts.windows import EmitStrategy
from pystreams.topology.operators.fold import Fold
from pystreams.topology.operators.idle_time import NOTHING_WAITS, go_on_while_idle
from pystreams.topology.operators.late_records import NOBODY, LateRecords
from pystreams.topology.operators.tables.table_operator import TableOperator
from pystreams.topology.operators.tables.table_view import must_forward
from pystreams.topology.operators.windows.window_emission import FinalResults, WindowTime


@dataclass(frozen=True, slots=True)
class WindowOperator(TableOperator):
    """Folds the records of each key and window.

    Attributes:
        idle_timeout_ms: How long the input is silent before the wall clock moves the stream time;
            None if it never does.
        is_final: Whether something below tells each result once, when its window has closed: what
            has closed must not change, even if it is kept.
    """

    store: str
    windows: Any
    fold: Fold
    emit: EmitStrategy
    late: LateRecords = NOBODY
    idle_timeout_ms: int | None = None
    is_final: bool = False

    def with_final_results(self, idle_timeout_ms: int | None) -> Self:
        """Return the operator that closes windows no later than something below tells them."""
        timeouts = {self.idle_timeout_ms, idle_timeout_ms} - {None}
        shortest = min((ms for ms in timeouts if ms is not None), default=None)
        return replace(self, idle_timeout_ms=shortest, is_final=True)


class WindowAggregation:
    """An aggregation in one task.

    Args:
        closes_ms: How long after its time in the store, a window's start or a session's end, the
            last one is closed.
    """

    def __init__(self, operator: WindowOperator, node: NodeContext, closes_ms: int) -> None:
        task = node.task
        store = task.store(operator.store)
        self._name = node.name
        self._forward = operator.late.without_sink(node).forward
        self._record = task.record
        self._record_dropped = task.record_dropped
        self._report_error = task.report_error
        self._store = store
        self._time = WindowTime(node, store, operator.late)
        self._closes_ms = closes_ms
        go_on_while_idle(
            node,
            operator.idle_timeout_ms,
            stream_time=lambda: self._time.stream_time,
            waits_until=self._waits_until,
            move_to=self._move_to,
        )

    def _waits_until(self) -> int:
        """Return the stream time (ms) that closes the last window or session there is."""
        last: int = self._store.stream_time
        return NOTHING_WAITS if last < 0 else last + self._closes_ms

    def _move_to(self, stream_time: int) -> None:
        """Close what silence has shown to be over."""
        self._time.stream_time = stream_time


class FixedWindowAggregation(WindowAggregation):
    """An aggregation of windows of one size, whose rows are those of a window store."""

    def __init__(self, operator: WindowOperator, node: NodeContext, closes_ms: int) -> None:
        super().__init__(operator, node, closes_ms)
        store = self._store
        self._row_key = store.row_key
        self._fetch_row = store.fetch_row
        self._put_row = store.put_row
        self._grace_ms: int = operator.windows.grace_period_ms
        self._final: FinalResults | None = None
        self._forwards = False
        if operator.emit is EmitStrategy.ON_WINDOW_CLOSE:
            self._final = FinalResults(node, operator.store)
            node.task.on_init(self._keep)
        else:
            results = operator.late.without_sink(node)
            self._forwards = must_forward(results, store, send_old_values=operator.send_old_values)
        self._reads_old = self._forwards and operator.send_old_values

    def _move_to(self, stream_time: int) -> None:
        super()._move_to(stream_time)
        close_time = stream_time - self._grace_ms
        if self._final is not None and close_time > self._final.closed_until:
            self._send_closed(close_time, self._final, ())

    def _keep(self) -> None:
        """Let the store keep the windows that are still to be sent on."""
        if self._final is not None:
            self._store.keep_from(self._first_unsent(self._final))

    @abstractmethod
    def _send_closed(self, close_time: int, final: FinalResults, headers: Headers) -> None:
        """Send the results of the windows on that have closed since this was done last."""

    @abstractmethod
    def _first_unsent(self, final: FinalResults) -> int:
        """Return the earliest start (ms) of a window that may be still to be sent on."""
