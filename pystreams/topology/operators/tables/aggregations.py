"""Aggregations: one value a key, kept in a store and forwarded as changes.

Timestamps: a result carries the highest timestamp among its inputs, as far as they are known. The
store learns the record's own timestamp and headers through the task's present record: a deletion is
logged with that timestamp, and a cached update is forwarded with those headers. Each aggregation
has a store; it is named first.

A record whose key or result does not fit the store's serdes, and one whose stored value can't be
read, is an error of the node like one of the user's function: the processing handler decides.

Counting has a step of its own because it is the most frequent one; it is an aggregation all the
same, with the same store and the same changes.

Source: Kafka Streams' `KStreamAggregate`, `KStreamReduce`, `KTableAggregate`, `KTableReduce`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pystreams.record import Headers
from pystreams.topology.contracts.operator import NodeContext, Step
from pystreams.topology.operators.fold import Fold
from pystreams.topology.operators.tables.table_operator import TableOperator
from pystreams.topology.operators.tables.table_view import Change, table_access

Initializer = Callable[[], Any]
Aggregator = Callable[[Any, Any, Any], Any]
Reducer = Callable[[Any, Any], Any]


@dataclass(frozen=True, slots=True)
class CountOperator(TableOperator):
    """Counts the records of each key; one without key or value is dropped."""

    store: str

    def attach(self, node: NodeContext) -> Step:
        """Return the step."""
        record_dropped, record, name = node.task.record_dropped, node.task.record, node.name
        send_old_values, report_error = self.send_old_values, node.task.report_error
        get, put, forward, forwards = table_access(
            node, self.store, send_old_values=send_old_values
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


@dataclass(frozen=True, slots=True)
class AggregateOperator(TableOperator):
    """Folds the records of each key into a value; one without key or value is dropped.

    Attributes:
        fold: What is done with the records of a key.
    """

    store: str
    fold: Fold

    def attach(self, node: NodeContext) -> Step:
        """Return the step."""
        initializer, aggregator = self.fold.initializer, self.fold.aggregator
        record_dropped, record, name = node.task.record_dropped, node.task.record, node.name
        send_old_values, report_error = self.send_old_values, node.task.report_error
        get, put, forward, forwards = table_access(
            node, self.store, send_old_values=send_old_values
        )
        # The aggregator may change what it is given: what it was is read anew.
        reads_old = forwards and send_old_values

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
                if reads_old and (old := get(key)[0]) is None:
                    old = initializer()
                put(key, new, timestamp)
            except Exception as error:  # noqa: BLE001 - the user's code may raise anything
                report_error(error, name)
                return
            if forwards:
                forward(key, (new, old if reads_old else None), timestamp, headers)

        return step


@dataclass(frozen=True, slots=True)
class ReduceOperator(TableOperator):
    """Combines the values of each key; one without key or value is dropped.

    Attributes:
        reducer: Called with (value so far, value) from a key's second record on.
    """

    store: str
    reducer: Reducer

    def attach(self, node: NodeContext) -> Step:
        """Return the step."""
        reducer, report_error = self.reducer, node.task.report_error
        record_dropped, record, name = node.task.record_dropped, node.task.record, node.name
        send_old_values = self.send_old_values
        get, put, forward, forwards = table_access(
            node, self.store, send_old_values=send_old_values
        )
        # As in an aggregation: what it was is read anew.
        reads_old = forwards and send_old_values

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
                    if reads_old:
                        old = get(key)[0]
                    if old_timestamp > timestamp:
                        timestamp = old_timestamp
                put(key, new, timestamp)
            except Exception as error:  # noqa: BLE001 - the user's code may raise anything
                report_error(error, name)
                return
            if forwards:
                forward(key, (new, old if reads_old else None), timestamp, headers)

        return step


@dataclass(frozen=True, slots=True)
class TableAggregateOperator(TableOperator):
    """Keeps an aggregate of a regrouped table: old rows are subtracted, new ones added.

    Attributes:
        initializer: Returns the value a group begins with.
        adder: Called with (group, new value, value so far).
        subtractor: Called with (group, old value, value so far).
    """

    store: str
    initializer: Initializer
    adder: Aggregator
    subtractor: Aggregator

    def attach(self, node: NodeContext) -> Step:
        """Return the step."""
        initializer, adder, subtractor = self.initializer, self.adder, self.subtractor

        def update(group: Any, change: Change, old: Any) -> Any:
            added, removed = change
            new = old
            if removed is not None and new is not None:
                new = subtractor(group, removed, new)
            if added is not None:
                new = adder(group, added, initializer() if new is None else new)
            return new

        return _attach_table_update(self.store, node, update, send_old_values=self.send_old_values)


@dataclass(frozen=True, slots=True)
class TableReduceOperator(TableOperator):
    """Combines the rows of a regrouped table: old rows are subtracted, new ones added.

    Attributes:
        adder: Called with (value so far, new value) unless the group is empty.
        subtractor: Called with (value so far, old value).
    """

    store: str
    adder: Reducer
    subtractor: Reducer

    def attach(self, node: NodeContext) -> Step:
        """Return the step."""
        adder, subtractor = self.adder, self.subtractor

        def update(group: Any, change: Change, old: Any) -> Any:  # noqa: ARG001 - as in aggregates
            added, removed = change
            new = old
            if removed is not None and new is not None:
                new = subtractor(new, removed)
            if added is not None:
                new = added if new is None else adder(new, added)
            return new

        return _attach_table_update(self.store, node, update, send_old_values=self.send_old_values)


def table_count(store: str) -> TableAggregateOperator:
    """Return the operator that counts the rows of a regrouped table."""

    def one_more(group: Any, value: Any, count: int) -> int:  # noqa: ARG001 - the form of an adder
        return count + 1

    def one_less(group: Any, value: Any, count: int) -> int:  # noqa: ARG001 - as above
        return count - 1

    return TableAggregateOperator(store, int, one_more, one_less)


def _attach_table_update(
    store_name: str, node: NodeContext, update: Aggregator, *, send_old_values: bool
) -> Step:
    """Return the step that applies changes to groups with `update(group, change, old)`."""
    report_error, record, name = node.task.report_error, node.task.record, node.name
    get, put, forward, forwards = table_access(node, store_name, send_old_values=send_old_values)
    # Adder and subtractor may change what they are given: what it was is read anew.
    reads_old = forwards and send_old_values

    def step(key: Any, change: Change, timestamp: int, headers: Headers) -> None:
        record.timestamp, record.headers = timestamp, headers
        try:
            old, old_timestamp = get(key)
            new = update(key, change, old)
            if reads_old:
                old = get(key)[0]
            # A missing group has timestamp -1.
            if old_timestamp > timestamp:
                timestamp = old_timestamp
            put(key, new, timestamp)
        except Exception as error:  # noqa: BLE001 - the user's code may raise anything
            report_error(error, name)
            return
        if forwards:
            forward(key, (new, old if reads_old else None), timestamp, headers)

    return step
