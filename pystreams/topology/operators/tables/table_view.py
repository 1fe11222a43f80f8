"""What tables know of each other: how to look into one, and who forwards its changes.

The records between table operators carry a change as their value: the plain tuple
`(new value, old value)`, because a tuple is the cheapest thing that holds two. The old value is
None unless something downstream asked for old values.

A table with a versioned store takes late updates into its history. Such an update is not the
key's latest and travels as a `LateChange`, so that tables downstream can tell: one that keeps
versions takes it into its own history, one that keeps the latest rows passes it by.

Source: Kafka Streams' `KTableValueGetterSupplier`, `TimestampedTupleForwarder`,
`TimestampedCacheFlushListener`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol

from pystreams.record import Headers, RecordMetadata
from pystreams.stores.contracts.spec import BytesLookup
from pystreams.stores.contracts.versioned import (
    PUT_RETURN_CODE_NOT_PUT,
    PUT_RETURN_CODE_VALID_TO_UNDEFINED,
)
from pystreams.topology.contracts.operator import NodeContext, Step
from pystreams.topology.operators.tables.expiry import TableExpiry

Change = tuple[Any, Any]
"""(new value, old value); None where there is none."""


class LateChange(tuple[Any, Any]):
    """A change that is not the latest of its key. Was: `Change.isLatest` being false."""

    __slots__ = ()


Lookup = Callable[[Any], tuple[Any, int]]
"""Looks up a key: (value, timestamp in ms), or (None, -1) when the table has no such key."""

LookupAsOf = Callable[[Any, int], tuple[Any, int]]
"""Looks up a key as it was at a time (ms); else as `Lookup`."""


class TableView(Protocol):
    """A way to look into a table from another node."""

    @property
    def stores(self) -> tuple[str, ...]:
        """Names of the stores the looking node must be connected to."""

    def bind(self, node: NodeContext) -> Lookup:
        """Return the lookup for one task; errors of user functions behind it are raised."""

    def bind_as_of(self, node: NodeContext) -> LookupAsOf | None:
        """Return the lookup by time; None if the table keeps the latest rows only."""

    def as_sent(self) -> TableView:
        """Return the view of the table as those below it know it."""

    def bind_bytes(self, node: NodeContext) -> BytesLookup | None:
        """Return what looks up the bytes that a store has of a row's value, as it was sent.

        None, or a function that returns None, where the value is in no store as it is.
        """


@dataclass(frozen=True, slots=True)
class StoreView:
    """The view of a table that has a store: the store itself.

    Args:
        sent: Whether rows are wanted as they were sent downstream, not those that wait in the
            record cache for the next flush.
    """

    store: str
    sent: bool = False

    @property
    def stores(self) -> tuple[str, ...]:
        """The store."""
        return (self.store,)

    def bind(self, node: NodeContext) -> Lookup:
        """Return the store's own lookup: no call in between, where rows are found by their keys."""
        kind, store = node.task.store_kind(self.store), node.task.store(self.store)
        return kind.sent_row_lookup(store) if self.sent else kind.row_lookup(store)

    def as_sent(self) -> StoreView:
        """Return the view of the rows as they were sent downstream."""
        return replace(self, sent=True)

    def bind_bytes(self, node: NodeContext) -> BytesLookup | None:
        """Return the store's own lookup."""
        return node.task.store_kind(self.store).sent_bytes_lookup(node.task.store(self.store))

    def bind_as_of(self, node: NodeContext) -> LookupAsOf | None:
        """Return the lookup of a versioned store."""
        if not node.task.store_kind(self.store).keeps_versions:
            return None
        lookup: LookupAsOf = node.task.store(self.store).get_as_of
        return lookup


@dataclass(frozen=True, slots=True)
class DerivedView:
    """The view of a table without a store: its parent's view, with a function over it.

    Args:
        derive: Called with (key, value); returns the value this table has, or None.
    """

    parent: TableView
    derive: Callable[[Any, Any], Any]

    @property
    def stores(self) -> tuple[str, ...]:
        """The stores behind the parent's view."""
        return self.parent.stores

    def as_sent(self) -> DerivedView:
        """Return the view of the rows as they were sent downstream."""
        return replace(self, parent=self.parent.as_sent())

    def bind(self, node: NodeContext) -> Lookup:
        """Return the lookup."""
        lookup_parent, derive = self.parent.bind(node), self.derive

        def lookup(key: Any) -> tuple[Any, int]:
            found = lookup_parent(key)
            if found[0] is None:
                return found
            value = derive(key, found[0])
            return (None, -1) if value is None else (value, found[1])

        return lookup

    def bind_bytes(self, node: NodeContext) -> BytesLookup | None:
        """Return the lookup of the parent's bytes: those of rows that the function leaves alone."""
        bytes_of = self.parent.bind_bytes(node)
        if bytes_of is None:
            return None
        lookup_parent, derive = self.parent.as_sent().bind(node), self.derive

        def lookup(key: Any) -> bytes | None:
            value, _ = lookup_parent(key)
            return bytes_of(key) if value is not None and derive(key, value) is value else None

        return lookup

    def bind_as_of(self, node: NodeContext) -> LookupAsOf | None:
        """Return the lookup by time, if the parent has one."""
        lookup_parent, derive = self.parent.bind_as_of(node), self.derive
        if lookup_parent is None:
            return None

        def lookup(key: Any, timestamp: int) -> tuple[Any, int]:
            found = lookup_parent(key, timestamp)
            if found[0] is None:
                return found
            value = derive(key, found[0])
            return (None, -1) if value is None else (value, found[1])

        return lookup


class TableStoreAccess(NamedTuple):
    """What a table's step does with its store.

    Attributes:
        get: Returns (value, timestamp in ms) of a key, (None, -1) without one.
        put: Called with (key, value, timestamp).
        forward: Forwards the change that the last `put` made.
        forwards: Whether the step must call `forward`; else the store does, when its cache is
            flushed.
    """

    get: Lookup
    put: Callable[[Any, Any, int], Any]
    forward: Step
    forwards: bool


def table_access(node: NodeContext, store_name: str, *, send_old_values: bool) -> TableStoreAccess:
    """Return how a table uses its store.

    Of a versioned store's updates those that were dropped are not forwarded, and those that are
    not the latest are forwarded as such. Rows that expire are forwarded as deletions, before the
    record that has shown it.

    Args:
        send_old_values: Whether changes carry old values.
    """
    store = node.task.store(store_name)
    forwards = must_forward(node, store, send_old_values=send_old_values)
    kind = node.task.store_kind(store_name)
    if kind.expires_rows:
        expiry = TableExpiry(node, store, forwards=forwards, send_old_values=send_old_values)
        return TableStoreAccess(expiry.get, expiry.put, node.forward, forwards)
    if kind.keeps_versions:
        put, forward = _versioned_access(store, node.forward)
        return TableStoreAccess(store.get_with_timestamp, put, forward, forwards)
    return TableStoreAccess(
        store.get_with_timestamp, store.put_with_timestamp, node.forward, forwards
    )


def _versioned_access(
    store: Any, forward_change: Step
) -> tuple[Callable[[Any, Any, int], None], Step]:
    """Return a put that remembers what it did, and a forward that goes by it."""
    put_version = store.put_with_timestamp
    valid_to = PUT_RETURN_CODE_VALID_TO_UNDEFINED

    def put(key: Any, value: Any, timestamp: int) -> None:
        nonlocal valid_to
        valid_to = put_version(key, value, timestamp)

    def forward(key: Any, change: Change, timestamp: int, headers: Headers) -> None:
        if valid_to == PUT_RETURN_CODE_VALID_TO_UNDEFINED:
            forward_change(key, change, timestamp, headers)
        elif valid_to != PUT_RETURN_CODE_NOT_PUT:
            forward_change(key, LateChange(change), timestamp, headers)

    return put, forward


def must_forward(node: NodeContext, store: Any, *, send_old_values: bool) -> bool:
    """Let a caching store forward a table's changes at each flush.

    Args:
        store: The table's store.
        send_old_values: Whether changes carry old values.

    Returns:
        True if the operator itself must forward each change: the store does not cache.
    """
    forward, go_back_to = node.forward, node.task.record.go_back_to

    def on_flush(
        key: Any,
        new: Any,
        old: Any,
        timestamp: int,
        headers: Headers,
        source: RecordMetadata | None,
    ) -> None:
        go_back_to(source, timestamp, headers)
        forward(key, (new, old), timestamp, headers)

    return not store.set_flush_listener(on_flush, send_old_values=send_old_values)
