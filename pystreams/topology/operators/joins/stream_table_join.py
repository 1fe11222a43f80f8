"""Joins each record of a stream with the table's row of the same key, as it is at that moment.

A versioned table gives the row as it was at the record's timestamp. Only the stream's records
produce output; updates of the table are seen by later records.
Source: Kafka Streams' `KStreamKTableJoinProcessor`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pystreams.record import Headers
from pystreams.topology.contracts.operator import NodeContext, Step
from pystreams.topology.operators.tables.table_view import TableView


@dataclass(frozen=True, slots=True)
class StreamTableJoinOperator:
    """Joins a stream with a table.

    A record without value is dropped, and so is one without key, unless the join is a left one:
    that has no row to look up and joins with None.

    Attributes:
        joiner: Called with (value, row's value), or with (key, value, row's value).
        left: Whether a record without a row is joined with None; else it is not joined.
        with_key: Whether the joiner takes the key too.
    """

    table: TableView
    joiner: Callable[..., Any]
    left: bool
    with_key: bool

    def attach(self, node: NodeContext) -> Step:
        """Return the step."""
        lookup, lookup_as_of = self.table.bind(node), self.table.bind_as_of(node)
        joiner, left, with_key = self.joiner, self.left, self.with_key
        forward, report_error, name = node.forward, node.task.report_error, node.name
        record_dropped = node.task.record_dropped

        def step(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            if value is None or (key is None and not left):
                record_dropped(name, "null key or value")
                return
            try:
                # The lookup may run user functions: those of a table that is computed on the fly.
                if key is None:
                    row = None
                elif lookup_as_of is None:
                    row = lookup(key)[0]
                else:
                    row = lookup_as_of(key, timestamp)[0]
                if row is None and not left:
                    return
                joined = joiner(key, value, row) if with_key else joiner(value, row)
            except Exception as error:  # noqa: BLE001 - the user's code may raise anything
                report_error(error, name)
                return
            forward(key, joined, timestamp, headers)

        return step
