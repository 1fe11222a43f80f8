"""A table whose values a user's transformer makes: with state, and a context.

    parent's change --> transform(key, new) --> put --> forward       kept
                        transform(key, new), transform(key, old)      not kept
    lookup from below --> another transformer, over the parent's row  not kept

Unlike a mapper the transformer is asked about deleted rows too. What it says of an old value need
not be what it said of it when that was new; who needs that keeps the table.

Differs from Kafka: nodes that look into a table which is not kept are connected to the stores of
its transformers, and stores that the supplier brings are added.

Source: Kafka Streams' `KTableTransformValues`, `ForwardingDisabledProcessorContext`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from pystreams.errors import TopologyError
from pystreams.record import Headers, Record
from pystreams.stores.contracts.spec import BytesLookup
from pystreams.topology.contracts.operator import NodeContext, Step
from pystreams.topology.contracts.processor import ValueTransformerWithKey
from pystreams.topology.contracts.user_functions import check_processor
from pystreams.topology.operators.node_processor_context import NodeProcessorContext, supplied
from pystreams.topology.operators.tables.table_operator import TableOperator
from pystreams.topology.operators.tables.table_view import (
    Change,
    LateChange,
    Lookup,
    LookupAsOf,
    TableView,
    table_access,
)

TransformerSupplier = Callable[[], ValueTransformerWithKey[Any, Any, Any]]
Transform = Callable[[Any, Any], Any]


@dataclass(frozen=True, slots=True)
class TableTransformValuesOperator(TableOperator):
    """Replaces each row's value by what the task's transformer returns.

    Attributes:
        store: Name of the table's store; None computes on the fly.
        supplier: Makes a new transformer for each task.
    """

    store: str | None
    supplier: TransformerSupplier

    def attach(self, node: NodeContext) -> Step:
        """Return the step."""
        transform = _attached(self.supplier, node, node.name)
        if self.store is None:
            return self._deriving(node, transform)
        return self._storing(node, transform, self.store)

    def _deriving(self, node: NodeContext, transform: Transform) -> Step:
        forward, report_error, name = node.forward, node.task.report_error, node.name
        record, send_old_values = node.task.record, self.send_old_values

        def step(key: Any, change: Change, timestamp: int, headers: Headers) -> None:
            record.timestamp, record.headers = timestamp, headers
            try:
                new = transform(key, change[0])
                old = transform(key, change[1]) if send_old_values else None
            except Exception as error:  # noqa: BLE001 - the user's code may raise anything
                report_error(error, name)
                return
            transformed = (new, old) if type(change) is tuple else LateChange((new, old))
            forward(key, transformed, timestamp, headers)

        return step

    def _storing(self, node: NodeContext, transform: Transform, store: str) -> Step:
        report_error, record, name = node.task.report_error, node.task.record, node.name
        send_old_values = self.send_old_values
        get, put, forward, forwards = table_access(node, store, send_old_values=send_old_values)
        reads_old = forwards and send_old_values

        def step(key: Any, change: Change, timestamp: int, headers: Headers) -> None:
            record.timestamp, record.headers = timestamp, headers
            try:
                new = transform(key, change[0])
                old = get(key)[0] if reads_old else None
                put(key, new, timestamp)
            except Exception as error:  # noqa: BLE001 - the user's code may raise anything
                report_error(error, name)
                return
            if forwards:
                forward(key, (new, old), timestamp, headers)

        return step


@dataclass(frozen=True, slots=True)
class TransformedView:
    """The view of a transformed table that is not kept: the parent's, and a transformer over it.

    Each node that looks has a transformer of its own, with that node's context.

    Args:
        transformer_stores: Names of the stores that the transformers are connected to.
        table: Name of the table's node.
    """

    parent: TableView
    supplier: TransformerSupplier
    transformer_stores: tuple[str, ...]
    table: str

    @property
    def stores(self) -> tuple[str, ...]:
        """The stores behind the parent's view, and the transformer's."""
        return tuple(dict.fromkeys((*self.parent.stores, *self.transformer_stores)))

    def as_sent(self) -> TransformedView:
        """Return the view of the rows as they were sent downstream."""
        return replace(self, parent=self.parent.as_sent())

    def bind(self, node: NodeContext) -> Lookup:
        """Return the lookup."""
        lookup_parent = self.parent.bind(node)
        transform = self._row_transform(node)

        def lookup(key: Any) -> tuple[Any, int]:
            return transform(key, *lookup_parent(key))

        return lookup

    def bind_bytes(self, node: NodeContext) -> BytesLookup | None:
        """Return None: the values are made when they are asked for."""
        return None

    def bind_as_of(self, node: NodeContext) -> LookupAsOf | None:
        """Return the lookup by time, if the parent has one."""
        lookup_parent = self.parent.bind_as_of(node)
        if lookup_parent is None:
            return None
        transform = self._row_transform(node)

        def lookup(key: Any, timestamp: int) -> tuple[Any, int]:
            return transform(key, *lookup_parent(key, timestamp))

        return lookup

    def _row_transform(self, node: NodeContext) -> Callable[[Any, Any, int], tuple[Any, int]]:
        """Return a function of a parent's row, during which the present record is that row."""
        transform = _attached(self.supplier, node, self.table)
        record = node.task.record

        def row_of(key: Any, value: Any, row_timestamp: int) -> tuple[Any, int]:
            message, timestamp, headers = record.message, record.timestamp, record.headers
            record.message, record.timestamp, record.headers = None, row_timestamp, ()
            try:
                transformed = transform(key, value)
            finally:
                record.message, record.timestamp, record.headers = message, timestamp, headers
            return (None, -1) if transformed is None else (transformed, row_timestamp)

        return row_of


class _TransformerContext(NodeProcessorContext):
    """A context that can't forward: a table's keys are not a transformer's to choose."""

    __slots__ = ("_table",)

    def __init__(self, node: NodeContext, table: str) -> None:
        super().__init__(node, fixed_key=True)
        self._table = table

    def forward(self, record: Record[Any, Any], child: str | None = None) -> None:
        raise TopologyError(
            f"the transformer of {self._table!r} forwarded a record: a table's row is what "
            "transform returns. Use to_stream() and process to forward records of your own"
        )


def _attached(supplier: TransformerSupplier, node: NodeContext, table: str) -> Transform:
    """Make a transformer for a task, let it live as long as the node, and return its function."""
    transformer = supplied(supplier, node)
    check_processor(transformer, table, "transform")
    context = _TransformerContext(node, table)
    node.task.on_init(lambda: transformer.init(context))
    node.task.on_close(transformer.close)
    return transformer.transform
