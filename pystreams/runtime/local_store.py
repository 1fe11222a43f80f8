"""Reads of a store by other threads, across the tasks of this instance.

A key lives in one task's store, but which one only the partitioner knows: a lookup asks the
stores of all local tasks, a range goes through them one after the other. Keys of other instances
are not seen. Was: CompositeReadOnlyKeyValueStore, QueryableStoreProvider.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from pystreams.config.guarantee import IsolationLevel
from pystreams.errors import StoreNotAvailableError
from pystreams.stores.api import ReadOnlyKeyValueStore

Views = Callable[[], Sequence[ReadOnlyKeyValueStore[Any, Any]]]


class LocalKeyValueStore:
    """A key-value store of this instance, read-only, for any thread.

    What a read sees depends on the isolation level: READ_COMMITTED shows what the last commit
    left, READ_UNCOMMITTED also what the tasks have written since. Values of timestamped stores
    (all DSL tables) are `ValueAndTimestamp`.

    Args:
        views: Returns a view of the store of each local task; called for each read, so that
            tasks may come and go.

    Raises:
        StoreNotAvailableError: By every read, while a local task restores or none is here: retry.
    """

    def __init__(self, views: Views) -> None:
        self._views = views

    def get(self, key: Any) -> Any:
        """Return the value of a key, or None when no local task has it."""
        for view in self._views():
            value = view.get(key)
            if value is not None:
                return value
        return None

    def range(self, start: Any, end: Any) -> Iterator[tuple[Any, Any]]:
        """Iterate over keys from `start` to `end`, both inclusive, task by task."""
        for view in self._views():
            yield from view.range(start, end)

    def reverse_range(self, start: Any, end: Any) -> Iterator[tuple[Any, Any]]:
        """Iterate over the same keys, highest first within each task."""
        for view in self._views():
            yield from view.reverse_range(start, end)

    def all(self) -> Iterator[tuple[Any, Any]]:
        """Iterate over all keys of this instance, task by task."""
        for view in self._views():
            yield from view.all()

    def reverse_all(self) -> Iterator[tuple[Any, Any]]:
        """Iterate over all keys of this instance, highest first within each task."""
        for view in self._views():
            yield from view.reverse_all()

    def prefix_scan(self, prefix: bytes) -> Iterator[tuple[Any, Any]]:
        """Iterate over keys whose bytes start with `prefix`, task by task."""
        for view in self._views():
            yield from view.prefix_scan(prefix)

    def approximate_num_entries(self) -> int:
        """Return about how many keys this instance has."""
        return sum(view.approximate_num_entries() for view in self._views())


def views_of(
    name: str, isolation_level: IsolationLevel, stores: Sequence[Any], *, ready: bool
) -> list[ReadOnlyKeyValueStore[Any, Any]]:
    """Return a view of each local task's store.

    Args:
        name: The store's name.
        isolation_level: What reads see.
        stores: The stores of that name of all running local tasks.
        ready: Whether all local tasks that have the store run.

    Raises:
        StoreNotAvailableError: A local task still restores, or there is none.
    """
    if not ready:
        message = f"state store {name!r} is restored or moving right now: ask again in a moment"
        raise StoreNotAvailableError(message)
    if not stores:
        message = (
            f"state store {name!r} has no partition on this instance: ask another instance, or "
            "again after the next rebalance"
        )
        raise StoreNotAvailableError(message)
    return [store.read_only(isolation_level) for store in stores]
