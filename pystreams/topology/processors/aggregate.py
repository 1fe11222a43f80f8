"""Aggregations: one value a key, kept in a store and forwarded as changes.

Timestamps: a result carries the highest timestamp among its inputs, as far as they are known. The
store learns the record's own timestamp and headers through the task's record context: a deletion is
logged with that timestamp, and a cached update is forwarded with those headers.

A record whose key or result does not fit the store's serdes, and one whose stored value can't be
read, is an error of the node like one of the user's function: the processing handler decides.

Counting has a step of its own because it is the most frequent one; it is an aggregation all the
same, with the same store and the same changes.

Source: Kafka Streams' `KStreamAggregate`, `KStreamReduce`, `KTableAggregate`, `KTableReduce`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pystreams.record import Headers
from pystreams.topology.operator import NodeContext, Step
from pystreams.topology.processors.table_view import Change, StoreView, TableView, table_access

Initializer = Callable[[], Any]
Aggregator = Callable[[Any, Any, Any], Any]
Reducer = Callable[[Any, Any], Any]


class _AggregateOperator:
    """What all aggregations have in common: a store, always.

    Args:
        store: The store's name.
    """

    def __init__(self, store: str) -> None:
        self._store = store
        self._send_old_values = False

    def enable_sending_old_values(self, *, force: bool) -> bool:
        """Send old values; the store has them."""
        self._send_old_values = True
        return True

    def view(self) -> TableView:
        """Return the store."""
        return StoreView(self._store)


class CountOperator(_AggregateOperator):
    """Counts the records of each key; one without key or value is dropped."""

    def attach(self, node: NodeContext) -> Step:
        """Return the step."""
        record_dropped, record, name = node.task.record_dropped, node.task.record, node.name
        send_old_values, report_error = self._send_old_values, node.task.report_error
        get, put, forward, forwards = table_access(
            node, self._store, send_old_values=send_old_values
        )

        def step(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            if key is None or value is None:
                record_dropped(name, "null key or value")
                return
            record.timestamp, record.headers = timestamp, headers
            try:
                old, old_timestamp = get(key)
                if old is None:
                    old = 0
                elif old_timestamp > timestamp:
                    timestamp = old_timestamp
                new = old + 1
                put(key, new, timestamp)
            except Exception as error:  # noqa: BLE001 - a serde may raise anything
                report_error(error, name)
                return
            if forwards:
                forward(key, (new, old if send_old_values else None), timestamp, headers)

        return step


class AggregateOperator(_AggregateOperator):
    """Folds the records of each key into a value; one without key or value is dropped.

    Args:
        store: The store's name.
        initializer: Returns the value a key begins with.
        aggregator: Called with (key, value, value so far); returns the new value, None to delete.
    """

    def __init__(self, store: str, initializer: Initializer, aggregator: Aggregator) -> None:
        super().__init__(store)
        self._initializer = initializer
        self._aggregator = aggregator

    def attach(self, node: NodeContext) -> Step:
        """Return the step."""
        initializer, aggregator = self._initializer, self._aggregator
        record_dropped, record, name = node.task.record_dropped, node.task.record, node.name
        send_old_values, report_error = self._send_old_values, node.task.report_error
        get, put, forward, forwards = table_access(
            node, self._store, send_old_values=send_old_values
        )

        def step(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            if key is None or value is None:
                record_dropped(name, "null key or value")
                return
            record.timestamp, record.headers = timestamp, headers
            try:
                old, old_timestamp = get(key)
                if old is None:
                    old = initializer()
                elif old_timestamp > timestamp:
                    timestamp = old_timestamp
                new = aggregator(key, value, old)
                put(key, new, timestamp)
            except Exception as error:  # noqa: BLE001 - the user's code may raise anything
                report_error(error, name)
                return
            if forwards:
                forward(key, (new, old if send_old_values else None), timestamp, headers)

        return step


class ReduceOperator(_AggregateOperator):
    """Combines the values of each key; one without key or value is dropped.

    Args:
        store: The store's name.
        reducer: Called with (value so far, value) from a key's second record on.
    """

    def __init__(self, store: str, reducer: Reducer) -> None:
        super().__init__(store)
        self._reducer = reducer

    def attach(self, node: NodeContext) -> Step:
        """Return the step."""
        reducer, report_error = self._reducer, node.task.report_error
        record_dropped, record, name = node.task.record_dropped, node.task.record, node.name
        send_old_values = self._send_old_values
        get, put, forward, forwards = table_access(
            node, self._store, send_old_values=send_old_values
        )

        def step(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            if key is None or value is None:
                record_dropped(name, "null key or value")
                return
            record.timestamp, record.headers = timestamp, headers
            try:
                old, old_timestamp = get(key)
                if old is None:
                    new = value
                else:
                    new = reducer(old, value)
                    if old_timestamp > timestamp:
                        timestamp = old_timestamp
                put(key, new, timestamp)
            except Exception as error:  # noqa: BLE001 - the user's code may raise anything
                report_error(error, name)
                return
            if forwards:
                forward(key, (new, old if send_old_values else None), timestamp, headers)

        return step


class TableAggregateOperator(_AggregateOperator):
    """Keeps an aggregate of a regrouped table: old rows are subtracted, new ones added.

    Args:
        store: The store's name.
        initializer: Returns the value a group begins with.
        adder: Called with (group, new value, value so far).
        subtractor: Called with (group, old value, value so far).
    """

    def __init__(
        self, store: str, initializer: Initializer, adder: Aggregator, subtractor: Aggregator
    ) -> None:
        super().__init__(store)
        self._initializer = initializer
        self._adder = adder
        self._subtractor = subtractor

    def attach(self, node: NodeContext) -> Step:
        """Return the step."""
        initializer, adder, subtractor = self._initializer, self._adder, self._subtractor

        def update(group: Any, change: Change, old: Any) -> Any:
            added, removed = change
            new = old
            if removed is not None and new is not None:
                new = subtractor(group, removed, new)
            if added is not None:
                new = adder(group, added, initializer() if new is None else new)
            return new

        return _attach_table_update(
            self._store, node, update, send_old_values=self._send_old_values
        )


class TableReduceOperator(_AggregateOperator):
    """Combines the rows of a regrouped table: old rows are subtracted, new ones added.

    Args:
        store: The store's name.
        adder: Called with (value so far, new value) unless the group is empty.
        subtractor: Called with (value so far, old value).
    """

    def __init__(self, store: str, adder: Reducer, subtractor: Reducer) -> None:
        super().__init__(store)
        self._adder = adder
        self._subtractor = subtractor

    def attach(self, node: NodeContext) -> Step:
        """Return the step."""
        adder, subtractor = self._adder, self._subtractor

        def update(group: Any, change: Change, old: Any) -> Any:  # noqa: ARG001 - as in aggregates
            added, removed = change
            new = old
            if removed is not None and new is not None:
                new = subtractor(new, removed)
            if added is not None:
                new = added if new is None else adder(new, added)
            return new

        return _attach_table_update(
            self._store, node, update, send_old_values=self._send_old_values
        )


def _attach_table_update(
    store_name: str, node: NodeContext, update: Aggregator, *, send_old_values: bool
) -> Step:
    """Return the step that applies changes to groups with `update(group, change, old)`."""
    report_error, record, name = node.task.report_error, node.task.record, node.name
    get, put, forward, forwards = table_access(node, store_name, send_old_values=send_old_values)

    def step(key: Any, change: Change, timestamp: int, headers: Headers) -> None:
        record.timestamp, record.headers = timestamp, headers
        try:
            old, old_timestamp = get(key)
            new = update(key, change, old)
            # A missing group has timestamp -1.
            if old_timestamp > timestamp:
                timestamp = old_timestamp
            put(key, new, timestamp)
        except Exception as error:  # noqa: BLE001 - the user's code may raise anything
            report_error(error, name)
            return
        if forwards:
            forward(key, (new, old if send_old_values else None), timestamp, headers)

    return step
