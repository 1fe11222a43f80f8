"""Joins each record of a stream with the row of a global table that the record names.

The table is whole in every process, so that any key can be looked up: records need not travel. What
is found is the row as it is at that moment; updates of the table produce nothing.

Spec: KIP-99, KIP-962; Kafka `KStreamGlobalKTableJoin`, `KStreamKTableJoinProcessor`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pystreams.record import Headers
from pystreams.topology.contracts.operator import NodeContext, Step


@dataclass(frozen=True, slots=True)
class StreamGlobalTableJoinOperator:
    """Joins a stream with a global table.

    A record without value is dropped, and so is one that names no row (the selector returns None),
    unless the join is a left one: that joins it with None.

    Attributes:
        key_selector: Called with (key, value); returns the key of the table's row, None for none.
        joiner: Called with (value, row's value), or with (key, value, row's value); the key is the
            stream record's.
        left: Whether a record without a row is joined with None; else it is not joined.
        with_key: Whether the joiner takes the key too.
    """

    store: str
    key_selector: Callable[[Any, Any], Any]
    joiner: Callable[..., Any]
    left: bool
    with_key: bool

    def attach(self, node: NodeContext) -> Step:
        """Return the step."""
        get_row = node.task.global_store(self.store, node.name).get
        key_of, joiner, left, with_key = self.key_selector, self.joiner, self.left, self.with_key
        forward, report_error, name = node.forward, node.task.report_error, node.name
        record_dropped = node.task.record_dropped

        def step(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            if value is None:
                record_dropped(name, "null value")
                return
            try:
                row_key = key_of(key, value)
                found = None if row_key is None else get_row(row_key)
                if found is None and not left:
                    if row_key is None:
                        record_dropped(name, "null join key")
                    return
                row = None if found is None else found.value
                joined = joiner(key, value, row) if with_key else joiner(value, row)
            except Exception as error:  # noqa: BLE001 - the user's code may raise anything
                report_error(error, name)
                return
            forward(key, joined, timestamp, headers)

        return step
