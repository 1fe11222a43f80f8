"""Holds back a table's changes, one a key, until their time has come or the room is used up.

    change --> buffer.put --> all whose time has come --> of too many the earliest, or an error

What has become due goes on a portion at a time: where one record has closed a million windows, the
task commits in between, and goes on before its next record. So it does when it starts again.

The time is the highest timestamp of the records that came to this node; it is kept over restarts.
A key waits from its first change on, whatever comes after that; what goes on is the last change, as
of its record: with its timestamp, headers and origin.

What goes on says as the old value what went on before: the value that the table had before the key
came into the buffer. Deletions of windows are not sent on when windows have closed, since nothing
of them went on before.

Differs from Kafka, which sends as the old value the one before the newest, which nobody below has
seen: sums over a suppressed table are wrong there.
Spec: KIP-328; Kafka KTableSuppressProcessorSupplier.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from pystreams.errors import SuppressionBufferFullError
from pystreams.record import MAX_TIME, Headers
from pystreams.stores.contracts.spec import BytesLookup
from pystreams.stores.kinds.suppress.buffered_change import NO_ORIGIN
from pystreams.stores.kinds.suppress.store import SuppressionBuffer
from pystreams.topology.contracts.operator import NodeContext, Step
from pystreams.topology.operators.idle_time import NOTHING_WAITS, go_on_while_idle
from pystreams.topology.operators.tables.table_operator import TableOperator
from pystreams.topology.operators.tables.table_view import Change, Lookup, LookupAsOf, TableView


@dataclass(frozen=True, slots=True)
class SuppressOperator(TableOperator):
    """Holds back changes.

    Attributes:
        wait_ms: How long they wait (ms, in stream time), from their record's time on or from the
            end of their key's window.
        until_window_closes: Whether that is the window's end, and deletions end here.
        record_limit: How many keys may wait; None for any number.
        byte_limit: How many bytes; None for any number.
        emits_early: Whether the earliest go when there are more; else it is an error.
        idle_timeout_ms: How long the input is silent before the wall clock moves the stream time;
            None waits for records.
    """

    store: str
    wait_ms: int
    until_window_closes: bool
    record_limit: int | None
    byte_limit: int | None
    emits_early: bool
    idle_timeout_ms: int | None = None

    def attach(self, node: NodeContext) -> Step:
        """Return the step."""
        task, name, wait_ms = node.task, node.name, self.wait_ms
        buffer: SuppressionBuffer[Any, Any] = task.store(self.store)
        record, report_error, totals = task.record, task.report_error, buffer.totals
        put, by_window = buffer.put, self.until_window_closes
        is_over = self._over(buffer)
        emissions = _Emissions(self, node, buffer, is_over)

        def move_to(stream_time: int) -> None:
            totals.stream_time = stream_time
            emissions.emit()

        go_on_while_idle(
            node,
            self.idle_timeout_ms,
            stream_time=lambda: totals.stream_time,
            waits_until=lambda: buffer.latest_time() + wait_ms if totals.records else NOTHING_WAITS,
            move_to=move_to,
        )
        task.on_init(emissions.begin)

        def step(key: Any, change: Change, timestamp: int, headers: Headers) -> None:
            record.timestamp, record.headers = timestamp, headers
            try:
                put(min(key.window.end, MAX_TIME) if by_window else timestamp, key, change, record)
            except Exception as error:  # noqa: BLE001 - a serde may raise anything
                report_error(error, name)
                return
            if buffer.earliest_time <= totals.stream_time - wait_ms or (
                is_over is not None and is_over()
            ):
                emissions.emit()

        return step

    def _over(self, buffer: SuppressionBuffer[Any, Any]) -> Callable[[], bool] | None:
        """Return what tells whether more waits than may; None without a bound."""
        if self.record_limit is None and self.byte_limit is None:
            return None
        records, counted = self._limits()
        totals = buffer.totals

        def is_over() -> bool:
            return totals.records > records or totals.counted_bytes > counted

        return is_over

    def _limits(self) -> tuple[int, int]:
        records, counted = self.record_limit, self.byte_limit
        return (
            sys.maxsize if records is None else records,
            sys.maxsize if counted is None else counted,
        )

    def full(
        self, node: NodeContext, buffer: SuppressionBuffer[Any, Any]
    ) -> SuppressionBufferFullError:
        """Return the error of a buffer that has no room for what came."""
        totals = buffer.totals
        held = (
            f"{totals.records} keys (max_records: {_shown(self.record_limit)}) and "
            f"{totals.counted_bytes} bytes (max_bytes: {_shown(self.byte_limit)})"
        )
        return SuppressionBufferFullError(
            f"task {node.task.task_id}: suppression {node.name!r} holds back {held} in store "
            f"{self.store!r}, and is to shut down when it is full. Raise the bound, or use "
            "BufferConfig.unbounded(), whose buffer on disk takes no memory; or, if results need "
            "not be final, let the earliest go early with emit_early_when_full()",
            task_id=node.task.task_id,
            node=node.name,
        )


class _Emissions:
    """What lets changes go in one task."""

    def __init__(
        self,
        operator: SuppressOperator,
        node: NodeContext,
        buffer: SuppressionBuffer[Any, Any],
        is_over: Callable[[], bool] | None,
    ) -> None:
        self._operator, self._node, self._buffer = operator, node, buffer
        self._is_over = is_over
        self._is_left_for_later = False

    def begin(self) -> None:
        """Go on with what was left when the task ended."""
        if self._buffer.totals.records:
            self._leave()

    def emit(self) -> None:
        """Let a portion go of what is due or has no room, unless that is left for later."""
        if self._is_left_for_later:
            return
        buffer, is_over = self._buffer, self._is_over
        due = buffer.totals.stream_time - self._operator.wait_ms
        if buffer.earliest_time <= due:
            self._let_go(lambda time: time <= due)
            if buffer.earliest_time <= due:
                self._leave()
                return
        if is_over is None or not is_over():
            return
        if not self._operator.emits_early:
            raise self._operator.full(self._node, buffer)
        self._let_go(lambda _: is_over())
        if is_over():
            self._leave()

    def _leave(self) -> None:
        self._is_left_for_later = True
        self._node.task.go_on_later(self._node.name, self._go_on)

    def _go_on(self) -> None:
        self._is_left_for_later = False
        self.emit()

    def _let_go(self, is_due: Callable[[int], bool]) -> None:
        """Let a portion go, for as long as a condition of the first one's time holds."""
        node, buffer = self._node, self._buffer
        record, forward, report_error = node.task.record, node.forward, node.task.report_error
        drops_deletions = self._operator.until_window_closes
        message, timestamp, headers = record.message, record.timestamp, record.headers
        for raw_key, buffered in buffer.leave_while(is_due):
            if drops_deletions and buffered.newest is None:
                continue
            origin = None if buffered.origin == NO_ORIGIN else buffered.origin
            record.go_back_to(origin, buffered.timestamp, buffered.headers)
            try:
                key, change = buffer.typed(raw_key, buffered)
            except Exception as error:  # noqa: BLE001 - a serde may raise anything
                report_error(error, node.name)
                continue
            forward(key, change, buffered.timestamp, buffered.headers)
        record.message, record.timestamp, record.headers = message, timestamp, headers


@dataclass(frozen=True, slots=True)
class SuppressedView:
    """The view of a suppressed table: what went on, which is what its parent had before."""

    parent: TableView
    store: str

    @property
    def stores(self) -> tuple[str, ...]:
        """The buffer, and the stores behind the parent's view."""
        return (self.store, *self.parent.stores)

    def as_sent(self) -> SuppressedView:
        """Return the view of the rows as they were sent downstream."""
        return replace(self, parent=self.parent.as_sent())

    def bind(self, node: NodeContext) -> Lookup:
        """Return the lookup; what is held back has no timestamp, which is nowhere kept."""
        buffer: SuppressionBuffer[Any, Any] = node.task.store(self.store)
        prior_value, look_up_parent = buffer.prior_value, self.parent.bind(node)

        def lookup(key: Any) -> tuple[Any, int]:
            prior = prior_value(key)
            return look_up_parent(key) if prior is None else (prior[0], -1)

        return lookup

    def bind_bytes(self, node: NodeContext) -> BytesLookup | None:
        """Return None: what is held back stands for another value than its store's."""
        return None

    def bind_as_of(self, node: NodeContext) -> LookupAsOf | None:
        """Return None: a suppressed table has the latest rows only."""
        return None


def _shown(limit: int | None) -> str:
    return "none" if limit is None else str(limit)
