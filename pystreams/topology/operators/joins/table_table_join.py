"""Joins two tables by their keys: a change of either side is joined with the other side's row.

    left --changes--> [this side] --+
                                    +--> [merge] --> the joined table
    right --changes-> [other side] -+

Whether a side's row alone is enough for a row of the result is what inner, left and outer joins
differ in; it is asked of each side (`required`). A late change of a versioned table changes no
present row, and is dropped.

Each side looks at the other table as its changes have arrived here: what a record cache holds back
is joined when it is flushed. So rows that are changed, or deleted, on both sides in one commit end
as they must, and old values are those that were sent. Differs from Kafka, which looks into the
cache.

The result has the higher of both timestamps. An old value, where one is wanted, is what the join
gave before this change: the other side's row has not changed since.

Source: Kafka Streams' `KTableKTableInnerJoin`, `KTableKTableLeftJoin`, `KTableKTableRightJoin`,
`KTableKTableOuterJoin`, `KTableKTableJoinMerger`. Spec: KIP-914 for versioned tables.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from pystreams.record import Headers
from pystreams.stores.contracts.spec import BytesLookup
from pystreams.topology.contracts.operator import NodeContext, Step
from pystreams.topology.operators.tables.table_operator import TableOperator
from pystreams.topology.operators.tables.table_view import (
    Change,
    LateChange,
    Lookup,
    LookupAsOf,
    TableView,
    table_access,
)

RowJoiner = Callable[[Any, Any, Any], Any]
"""Called with (key, left value, right value)."""


@dataclass(frozen=True, slots=True)
class TableJoin:
    """How rows of two tables become rows of a third.

    Attributes:
        joiner: Called with (key, left value, right value).
        left_required: Whether there is no row without one on the left.
        right_required: Whether there is none without one on the right.
    """

    joiner: RowJoiner
    left_required: bool
    right_required: bool

    def rows(self, key: Any, left: Any, right: Any) -> Any:
        """Return the joined row of two, None where there is none."""
        if left is None and (self.left_required or right is None):
            return None
        if right is None and self.right_required:
            return None
        return self.joiner(key, left, right)


@dataclass(frozen=True, slots=True)
class TableJoinSideOperator(TableOperator):
    """One side of a join of two tables.

    Attributes:
        other: How to look into the other side's table.
        left: Whether this is the left side.
    """

    other: TableView
    join: TableJoin
    left: bool

    def attach(self, node: NodeContext) -> Step:
        """Return the step."""
        # Else a change would meet one that is still to come, and the two were joined twice, or not.
        lookup, rows, left = self.other.as_sent().bind(node), self.join.rows, self.left
        required = self.join.right_required if left else self.join.left_required
        forward, report_error, name = node.forward, node.task.report_error, node.name
        record_dropped, send_old_values = node.task.record_dropped, self.send_old_values

        def step(key: Any, change: Change, timestamp: int, headers: Headers) -> None:
            if key is None:
                record_dropped(name, "null key")
                return
            if type(change) is LateChange:
                record_dropped(name, "a late update of a versioned table", level="info")
                return
            new, old = change
            try:
                # The lookup may run user functions: those of a table that is computed on the fly.
                other, other_timestamp = lookup(key)
                if other is None and (required or (new is None and old is None)):
                    return
                if other_timestamp > timestamp:
                    timestamp = other_timestamp
                joined = rows(key, new, other) if left else rows(key, other, new)
                before = None
                if send_old_values:
                    before = rows(key, old, other) if left else rows(key, other, old)
            except Exception as error:  # noqa: BLE001 - the user's code may raise anything
                report_error(error, name)
                return
            forward(key, (joined, before), timestamp, headers)

        return step


@dataclass(frozen=True, slots=True)
class TableJoinMergeOperator(TableOperator):
    """The table that a join makes: what both sides forward, kept if the user named a store.

    Attributes:
        store: Name of the table's store; None keeps nothing.
    """

    store: str | None

    def attach(self, node: NodeContext) -> Step:
        """Return the step."""
        return node.forward if self.store is None else self._storing(node, self.store)

    def _storing(self, node: NodeContext, store: str) -> Step:
        report_error, record, name = node.task.report_error, node.task.record, node.name
        get, put, forward, forwards = table_access(
            node, store, send_old_values=self.send_old_values
        )
        # What both sides say was there before may have expired here.
        reads_old = forwards and self.send_old_values and node.task.store_kind(store).expires_rows

        def step(key: Any, change: Change, timestamp: int, headers: Headers) -> None:
            record.timestamp, record.headers = timestamp, headers
            try:
                if reads_old:
                    change = (change[0], get(key)[0])
                put(key, change[0], timestamp)
            except Exception as error:  # noqa: BLE001 - a serde may raise anything
                report_error(error, name)
                return
            if forwards:
                forward(key, change, timestamp, headers)

        return step


@dataclass(frozen=True, slots=True)
class JoinedView:
    """The view of a joined table without a store: both tables' views, joined when asked."""

    left: TableView
    right: TableView
    join: TableJoin

    @property
    def stores(self) -> tuple[str, ...]:
        """The stores behind both views."""
        return tuple(dict.fromkeys((*self.left.stores, *self.right.stores)))

    def as_sent(self) -> JoinedView:
        """Return the view of the rows as they were sent downstream."""
        return replace(self, left=self.left.as_sent(), right=self.right.as_sent())

    def bind(self, node: NodeContext) -> Lookup:
        """Return the lookup."""
        look_left, look_right, rows = self.left.bind(node), self.right.bind(node), self.join.rows

        def lookup(key: Any) -> tuple[Any, int]:
            left, left_timestamp = look_left(key)
            right, right_timestamp = look_right(key)
            joined = rows(key, left, right)
            return (None, -1) if joined is None else (joined, max(left_timestamp, right_timestamp))

        return lookup

    def bind_bytes(self, node: NodeContext) -> BytesLookup | None:
        """Return None: the values are made when they are asked for."""
        return None

    def bind_as_of(self, node: NodeContext) -> LookupAsOf | None:
        """Return None: a join of versioned tables is not versioned (KIP-914)."""
        return None
