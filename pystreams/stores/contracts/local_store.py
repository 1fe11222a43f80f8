"""Reads of a store by other threads, across the tasks of this instance: one class a kind of store.

A key lives in one task's store, but which one only the partitioner knows: a lookup asks the
stores of all local tasks, a range goes through them one after the other. Keys of other instances
are not seen. Was: CompositeReadOnlyKeyValueStore and its like, QueryableStoreProvider.

What a read sees depends on the isolation level: READ_COMMITTED shows what the last commit left,
READ_UNCOMMITTED also what the tasks have written since. Values of timestamped stores (all tables
of the DSL) are `ValueAndTimestamp`. Times are in ms, ranges include both ends.

Every read raises `StoreNotAvailableError` while a local task restores or none is here: ask again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

Views = Callable[[], Sequence[Any]]
"""Returns a view of the store of each local task; called for each read, as tasks come and go."""


class LocalStore:
    """What local stores of all kinds have in common; read-only, for any thread.

    Args:
        views: Returns a view of each local task's store.
    """

    def __init__(self, views: Views) -> None:
        self._views = views

    def _first(self, read: Callable[[Any], Any]) -> Any:
        """Return what the first view has, or None."""
        return next((found for view in self._views() if (found := read(view)) is not None), None)

    def _chain(self, read: Callable[[Any], Iterator[Any]]) -> Iterator[Any]:
        """Iterate over what all views have, one after the other."""
        for view in self._views():
            yield from read(view)
