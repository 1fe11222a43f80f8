"""Operators of tables: source, filter, map values, regroup, to stream.

A table has a store only if the user named one or something downstream looks into it; filters and
maps without one are computed on the fly, for readers too (`DerivedView`).

Source: Kafka Streams' `KTableSource`, `KTableFilter`, `KTableMapValues`, `KTableRepartitionMap`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import CoroutineType
from typing import Any

from pystreams.kernel.async_functions import refuse_coroutine
from pystreams.record import Headers
from pystreams.topology.contracts.operator import NodeContext, Step
from pystreams.topology.contracts.user_functions import of_key_and_value
from pystreams.topology.operators.records.wrong_results import as_pair, no_pair
from pystreams.topology.operators.tables.table_operator import TableOperator
from pystreams.topology.operators.tables.table_view import Change, LateChange, table_access

Derivation = Callable[[Any, Any], Any]
"""Called with (key, value), never with a null value; returns the derived one, None for no row."""

_ROW = "a pair (key of the group, value)"


@dataclass(frozen=True, slots=True)
class TableSourceOperator(TableOperator):
    """Makes a table of a stream of updates; a null value deletes the key.

    Out-of-order updates are applied: the last record wins, not the highest timestamp. In a
    versioned store the highest timestamp is the latest, and older ones are history.
    Differs from Kafka: out-of-order updates are not logged one by one.

    Attributes:
        store: Name of the table's store; None passes the updates on.
    """

    store: str | None

    def attach(self, node: NodeContext) -> Step:
        """Return the step."""
        return self._passing(node) if self.store is None else self._storing(node, self.store)

    def _passing(self, node: NodeContext) -> Step:
        forward, record_dropped, name = node.forward, node.task.record_dropped, node.name

        def step(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            if key is None:
                record_dropped(name, "null key")
                return
            forward(key, (value, None), timestamp, headers)

        return step

    def _storing(self, node: NodeContext, store: str) -> Step:
        record_dropped, record, name = node.task.record_dropped, node.task.record, node.name
        send_old_values, report_error = self.send_old_values, node.task.report_error
        get, put, forward, forwards = table_access(node, store, send_old_values=send_old_values)
        reads_old = forwards and send_old_values

        def step(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            if key is None:
                record_dropped(name, "null key")
                return
            try:
                record.timestamp, record.headers = timestamp, headers
                old = get(key)[0] if reads_old else None
                put(key, value, timestamp)
            except Exception as error:  # noqa: BLE001 - a serde may raise anything
                report_error(error, name)
                return
            if forwards:
                forward(key, (value, old), timestamp, headers)

        return step


@dataclass(frozen=True, slots=True)
class DerivedTableOperator(TableOperator):
    """A table made value by value of another one: what filter and map_values have in common.

    Attributes:
        store: Name of the table's store; None computes on the fly.
    """

    store: str | None

    def derivation(self) -> Derivation:
        """Return the function that makes the values."""
        raise NotImplementedError

    def attach(self, node: NodeContext) -> Step:
        """Return the step."""
        return self._deriving(node) if self.store is None else self._storing(node, self.store)

    def _skips_absent(self) -> bool:
        """Return whether a change from nothing to nothing is not forwarded."""
        return False

    def _deriving(self, node: NodeContext) -> Step:
        forward, derive, report_error = node.forward, self.derivation(), node.task.report_error
        name, send_old_values = node.name, self.send_old_values
        skips_absent = self._skips_absent()

        def step(key: Any, change: Change, timestamp: int, headers: Headers) -> None:
            new, old = change
            try:
                if new is not None:
                    new = derive(key, new)
                    if type(new) is CoroutineType:
                        refuse_coroutine(new)
                if old is not None:
                    old = derive(key, old) if send_old_values else None
                    if type(old) is CoroutineType:
                        refuse_coroutine(old)
            except Exception as error:  # noqa: BLE001 - the user's code may raise anything
                report_error(error, name)
                return
            if new is None and old is None and skips_absent:
                return
            derived = (new, old) if type(change) is tuple else LateChange((new, old))
            forward(key, derived, timestamp, headers)

        return step

    def _storing(self, node: NodeContext, store_name: str) -> Step:
        derive, report_error, record = self.derivation(), node.task.report_error, node.task.record
        name, send_old_values = node.name, self.send_old_values
        get, put, forward, forwards = table_access(
            node, store_name, send_old_values=send_old_values
        )
        skips_absent = self._skips_absent()

        def step(key: Any, change: Change, timestamp: int, headers: Headers) -> None:
            new = change[0]
            try:
                if new is not None:
                    new = derive(key, new)
                    if type(new) is CoroutineType:
                        refuse_coroutine(new)
                record.timestamp, record.headers = timestamp, headers
                old = get(key)[0] if send_old_values else None
                if new is None and old is None and skips_absent:
                    return
                put(key, new, timestamp)
            except Exception as error:  # noqa: BLE001 - the user's code may raise anything
                report_error(error, name)
                return
            if forwards:
                forward(key, (new, old), timestamp, headers)

        return step


@dataclass(frozen=True, slots=True)
class TableFilterOperator(DerivedTableOperator):
    """Keeps rows for which the predicate is true, or with `negate` those for which it is not.

    A row that leaves the table is a change to None. When the parent's old values come for free, a
    row that was not in the table before is not deleted once more; unless the parent is versioned:
    then each deletion says until when a late row downstream is valid.

    Attributes:
        predicate: Called with (key, value).
        negate: Keep the others.
        versioned: Whether the parent is a versioned table.
    """

    predicate: Derivation
    negate: bool = False
    versioned: bool = False

    def derivation(self) -> Derivation:
        """Return the function that keeps a value or gives None."""
        predicate = self.predicate

        def keep(key: Any, value: Any) -> Any:
            kept = predicate(key, value)
            if kept is not True and kept is not False:
                refuse_coroutine(kept)
            return value if kept else None

        def drop(key: Any, value: Any) -> Any:
            kept = predicate(key, value)
            if kept is not True and kept is not False:
                refuse_coroutine(kept)
            return None if kept else value

        return drop if self.negate else keep

    def _skips_absent(self) -> bool:
        return self.send_old_values and not self.versioned


@dataclass(frozen=True, slots=True)
class TableMapValuesOperator(DerivedTableOperator):
    """Replaces each row's value by what the mapper returns.

    Attributes:
        mapper: Called with (value), or with (key, value).
        with_key: Whether the mapper takes the key too.
    """

    mapper: Callable[..., Any]
    with_key: bool = False

    def derivation(self) -> Derivation:
        """Return the mapper, as a function of key and value."""
        return of_key_and_value(self.mapper, with_key=self.with_key)


@dataclass(frozen=True, slots=True)
class TableToStreamOperator:
    """Makes a stream of a table's changes: the new values; a deletion is a null value."""

    def attach(self, node: NodeContext) -> Step:
        """Return the step."""
        forward = node.forward

        def step(key: Any, change: Change, timestamp: int, headers: Headers) -> None:
            forward(key, change[0], timestamp, headers)

        return step


@dataclass(frozen=True, slots=True)
class TableMergeOperator(TableOperator):
    """Hands on the changes of tables that share one store. Was: KTablePassThrough."""

    def attach(self, node: NodeContext) -> Step:
        """Return the children's step: no call in between."""
        return node.forward


@dataclass(frozen=True, slots=True)
class TableRegroupOperator:
    """Sends each row to its group: the old one is subtracted there, the new one added.

    A change within one group travels as one record. A late change of a versioned table changes no
    present row, and so no group. Was: KTableRepartitionMap.
    Spec: KIP-904.

    Attributes:
        selector: Called with (key, value); returns (group's key, value); a row whose group or
            value is None is in no group.
    """

    selector: Callable[[Any, Any], tuple[Any, Any]]

    def attach(self, node: NodeContext) -> Step:
        """Return the step."""
        selector, forward = self.selector, node.forward
        report_error, name = node.task.report_error, node.name

        def step(key: Any, change: Change, timestamp: int, headers: Headers) -> None:
            if type(change) is LateChange:
                return
            new, old = change
            new_group = old_group = None
            row: Any = (None, None)
            try:
                if new is not None:
                    row = selector(key, new)
                    new_group, new = row if type(row) is tuple else as_pair(row)
                if old is not None:
                    row = selector(key, old)
                    old_group, old = row if type(row) is tuple else as_pair(row)
            except Exception as error:  # noqa: BLE001 - the user's code may raise anything
                report_error(no_pair(error, row, _ROW), name)
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
