"""Operators of tables: source, filter, map values, regroup, to stream.

A table has a store only if the user named one or something downstream looks into it; filters and
maps without one are computed on the fly, for readers too (`DerivedView`). What is decided while
the topology is declared (`materialized`, old values) is fixed once it is built.

Source: Kafka Streams' `KTableSource`, `KTableFilter`, `KTableMapValues`, `KTableRepartitionMap`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pystreams.record import Headers
from pystreams.topology.operator import NodeContext, Step
from pystreams.topology.processors.table_view import (
    Change,
    DerivedView,
    LateChange,
    StoreView,
    TableOperator,
    TableView,
    table_access,
)


class TableSourceOperator:
    """Makes a table of a stream of updates; a null value deletes the key.

    Out-of-order updates are applied: the last record wins, not the highest timestamp. In a
    versioned store the highest timestamp is the latest, and older ones are history.
    Differs from Kafka: out-of-order updates are not logged one by one.

    Args:
        store: Name of the table's store, if it is to have one.
        materialized: Whether the user asked for it.

    Attributes:
        materialized: Whether the table has a store.
    """

    def __init__(self, store: str, *, materialized: bool) -> None:
        self.materialized = materialized
        self._store = store
        self._send_old_values = False

    def enable_sending_old_values(self, *, force: bool) -> bool:
        """Send old values; they need the store."""
        if not force and not self.materialized:
            return False
        self.materialized = True
        self._send_old_values = True
        return True

    def view(self) -> TableView:
        """Return the store, which the table now must have."""
        self.materialized = True
        return StoreView(self._store)

    def attach(self, node: NodeContext) -> Step:
        """Return the step."""
        return self._storing(node) if self.materialized else self._passing(node)

    def _passing(self, node: NodeContext) -> Step:
        forward, record_dropped, name = node.forward, node.task.record_dropped, node.name

        def step(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            if key is None:
                record_dropped(name, "null key")
                return
            forward(key, (value, None), timestamp, headers)

        return step

    def _storing(self, node: NodeContext) -> Step:
        record_dropped, record, name = node.task.record_dropped, node.task.record, node.name
        send_old_values, report_error = self._send_old_values, node.task.report_error
        get, put, forward, forwards = table_access(
            node, self._store, send_old_values=send_old_values
        )
        reads_old = forwards and send_old_values

        def step(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            if key is None:
                record_dropped(name, "null key")
                return
            try:
                old = get(key)[0] if reads_old else None
                record.timestamp, record.headers = timestamp, headers
                put(key, value, timestamp)
            except Exception as error:  # noqa: BLE001 - a serde may raise anything
                report_error(error, name)
                return
            if forwards:
                forward(key, (value, old), timestamp, headers)

        return step


class _DerivedTableOperator:
    """A table made value by value of another one: what filter and map_values have in common.

    Args:
        parent: The operator of the table it is made of.
        derive: Called with (key, value), never with a null value; None means no such row.
        store: Name of its store; None computes on the fly.
    """

    def __init__(
        self, parent: TableOperator, derive: Callable[[Any, Any], Any], store: str | None
    ) -> None:
        self._parent = parent
        self._derive = derive
        self._store = store
        self._send_old_values = False

    def enable_sending_old_values(self, *, force: bool) -> bool:
        """Send old values: from the store, else derived from the parent's."""
        if self._store is not None or self._parent.enable_sending_old_values(force=force):
            self._send_old_values = True
        return self._send_old_values

    def view(self) -> TableView:
        """Return the store, else the function over the parent's view."""
        if self._store is not None:
            return StoreView(self._store)
        return DerivedView(self._parent.view(), self._derive)

    def attach(self, node: NodeContext) -> Step:
        """Return the step."""
        return self._deriving(node) if self._store is None else self._storing(node, self._store)

    def _skips_absent(self) -> bool:
        """Return whether a change from nothing to nothing is not forwarded."""
        return False

    def _deriving(self, node: NodeContext) -> Step:
        forward, derive, report_error = node.forward, self._derive, node.task.report_error
        name, send_old_values = node.name, self._send_old_values
        skips_absent = self._skips_absent()

        def step(key: Any, change: Change, timestamp: int, headers: Headers) -> None:
            new, old = change
            try:
                if new is not None:
                    new = derive(key, new)
                if old is not None:
                    old = derive(key, old) if send_old_values else None
            except Exception as error:  # noqa: BLE001 - the user's code may raise anything
                report_error(error, name)
                return
            if new is None and old is None and skips_absent:
                return
            derived = (new, old) if type(change) is tuple else LateChange((new, old))
            forward(key, derived, timestamp, headers)

        return step

    def _storing(self, node: NodeContext, store_name: str) -> Step:
        derive, report_error, record = self._derive, node.task.report_error, node.task.record
        name, send_old_values = node.name, self._send_old_values
        get, put, forward, forwards = table_access(
            node, store_name, send_old_values=send_old_values
        )
        skips_absent = self._skips_absent()

        def step(key: Any, change: Change, timestamp: int, headers: Headers) -> None:
            new = change[0]
            try:
                if new is not None:
                    new = derive(key, new)
                old = get(key)[0] if send_old_values else None
                if new is None and old is None and skips_absent:
                    return
                record.timestamp, record.headers = timestamp, headers
                put(key, new, timestamp)
            except Exception as error:  # noqa: BLE001 - the user's code may raise anything
                report_error(error, name)
                return
            if forwards:
                forward(key, (new, old), timestamp, headers)

        return step


class TableFilterOperator(_DerivedTableOperator):
    """Keeps rows for which the predicate is true, or with `negate` those for which it is not.

    A row that leaves the table is a change to None. When the parent's old values come for free, a
    row that was not in the table before is not deleted once more; unless the parent is versioned:
    then each deletion says until when a late row downstream is valid.

    Args:
        parent: The operator of the table it is made of.
        predicate: Called with (key, value).
        negate: Keep the others.
        store: Name of its store; None computes on the fly.
        versioned: Whether the parent is a versioned table.
    """

    def __init__(
        self,
        parent: TableOperator,
        predicate: Callable[[Any, Any], Any],
        *,
        negate: bool,
        store: str | None,
        versioned: bool = False,
    ) -> None:
        def keep(key: Any, value: Any) -> Any:
            return value if predicate(key, value) else None

        def drop(key: Any, value: Any) -> Any:
            return None if predicate(key, value) else value

        super().__init__(parent, drop if negate else keep, store)
        self._send_old_values = parent.enable_sending_old_values(force=False)
        self._versioned = versioned

    def _skips_absent(self) -> bool:
        return self._send_old_values and not self._versioned


class TableMapValuesOperator(_DerivedTableOperator):
    """Replaces each row's value by what the mapper returns.

    Args:
        parent: The operator of the table it is made of.
        mapper: Called with (value), or with (key, value).
        with_key: Whether the mapper takes the key too.
        store: Name of its store; None computes on the fly.
    """

    def __init__(
        self,
        parent: TableOperator,
        mapper: Callable[..., Any],
        *,
        with_key: bool,
        store: str | None,
    ) -> None:
        def derive(key: Any, value: Any) -> Any:  # noqa: ARG001 - the form of all derivations
            return mapper(value)

        super().__init__(parent, mapper if with_key else derive, store)


class TableToStreamOperator:
    """Makes a stream of a table's changes: the new values; a deletion is a null value."""

    def attach(self, node: NodeContext) -> Step:
        """Return the step."""
        forward = node.forward

        def step(key: Any, change: Change, timestamp: int, headers: Headers) -> None:
            forward(key, change[0], timestamp, headers)

        return step


class TableRegroupOperator:
    """Sends each row to its group: the old one is subtracted there, the new one added.

    A change within one group travels as one record. A late change of a versioned table changes no
    present row, and so no group. Was: KTableRepartitionMap.
    Spec: KIP-904.

    Args:
        selector: Called with (key, value); returns (group's key, value); a row whose group or
            value is None is in no group.
    """

    def __init__(self, selector: Callable[[Any, Any], tuple[Any, Any]]) -> None:
        self._selector = selector

    def attach(self, node: NodeContext) -> Step:
        """Return the step."""
        selector, forward = self._selector, node.forward
        report_error, name = node.task.report_error, node.name

        def step(key: Any, change: Change, timestamp: int, headers: Headers) -> None:
            if type(change) is LateChange:
                return
            new, old = change
            new_group = old_group = None
            try:
                if new is not None:
                    new_group, new = selector(key, new)
                if old is not None:
                    old_group, old = selector(key, old)
            except Exception as error:  # noqa: BLE001 - the user's code may raise anything
                report_error(error, name)
                return
            added = new_group is not None and new is not None
            removed = old_group is not None and old is not None
            if added and removed and new_group == old_group:
                forward(new_group, (new, old), timestamp, headers)
                return
            if removed:
                forward(old_group, (None, old), timestamp, headers)
            if added:
                forward(new_group, (new, None), timestamp, headers)

        return step
