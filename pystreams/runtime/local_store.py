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

from pystreams.config.guarantee import IsolationLevel
from pystreams.errors import StoreNotAvailableError, TopologyError
from pystreams.stores.spec import StoreKind, StoreSpec
from pystreams.stores.versioned_api import VersionedRecord
from pystreams.stores.windowed_api import Windowed

Views = Callable[[], Sequence[Any]]
"""Returns a view of the store of each local task; called for each read, as tasks come and go."""

Entries = Iterator[tuple[Any, Any]]
WindowedEntries = Iterator[tuple[Windowed[Any], Any]]


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


class LocalKeyValueStore(LocalStore):
    """A key-value store of this instance."""

    def get(self, key: Any) -> Any:
        """Return the value of a key, or None when no local task has it."""
        return self._first(lambda view: view.get(key))

    def range(self, start: Any, end: Any) -> Entries:
        """Iterate over keys from `start` to `end`, both inclusive, task by task."""
        return self._chain(lambda view: view.range(start, end))

    def reverse_range(self, start: Any, end: Any) -> Entries:
        """Iterate over the same keys, highest first within each task."""
        return self._chain(lambda view: view.reverse_range(start, end))

    def all(self) -> Entries:
        """Iterate over all keys of this instance, task by task."""
        return self._chain(lambda view: view.all())

    def reverse_all(self) -> Entries:
        """Iterate over all keys of this instance, highest first within each task."""
        return self._chain(lambda view: view.reverse_all())

    def prefix_scan(self, prefix: bytes) -> Entries:
        """Iterate over keys whose bytes start with `prefix`, task by task."""
        return self._chain(lambda view: view.prefix_scan(prefix))

    def approximate_num_entries(self) -> int:
        """Return about how many keys this instance has."""
        return sum(view.approximate_num_entries() for view in self._views())


class LocalWindowStore(LocalStore):
    """A window store of this instance; see `ReadOnlyWindowStore` for the order within a task."""

    def fetch(self, key: Any, time_from: int, time_to: int | None = None) -> Any:
        """Return the value of one window, or None; given two times, iterate over many.

        Args:
            key: The key.
            time_from: The window's start; the earliest start, if `time_to` is given.
            time_to: The latest start.

        Returns:
            Without `time_to` the window's value; with it (start, value) of each, earliest first.
        """
        if time_to is None:
            return self._first(lambda view: view.fetch(key, time_from))
        return self._chain(lambda view: view.fetch(key, time_from, time_to))

    def backward_fetch(self, key: Any, time_from: int, time_to: int) -> Entries:
        """Iterate over (start, value) of a key's windows, latest first."""
        return self._chain(lambda view: view.backward_fetch(key, time_from, time_to))

    def fetch_range(
        self, key_from: Any, key_to: Any, time_from: int, time_to: int
    ) -> WindowedEntries:
        """Iterate over windows of several keys, both inclusive; None leaves an end open."""
        return self._chain(lambda view: view.fetch_range(key_from, key_to, time_from, time_to))

    def backward_fetch_range(
        self, key_from: Any, key_to: Any, time_from: int, time_to: int
    ) -> WindowedEntries:
        """Iterate over the same windows, in the opposite order within each task."""
        return self._chain(
            lambda view: view.backward_fetch_range(key_from, key_to, time_from, time_to)
        )

    def fetch_all(self, time_from: int, time_to: int) -> WindowedEntries:
        """Iterate over windows of all keys that start in a stretch of time."""
        return self._chain(lambda view: view.fetch_all(time_from, time_to))

    def backward_fetch_all(self, time_from: int, time_to: int) -> WindowedEntries:
        """Iterate over the same windows, in the opposite order within each task."""
        return self._chain(lambda view: view.backward_fetch_all(time_from, time_to))

    def all(self) -> WindowedEntries:
        """Iterate over all windows of this instance."""
        return self._chain(lambda view: view.all())

    def backward_all(self) -> WindowedEntries:
        """Iterate over all windows, in the opposite order within each task."""
        return self._chain(lambda view: view.backward_all())


class LocalSessionStore(LocalStore):
    """A session store of this instance; see `ReadOnlySessionStore` for the order within a task."""

    def fetch_session(self, key: Any, start: int, end: int) -> Any:
        """Return the aggregate of the session from `start` to `end` (ms) exactly, or None."""
        return self._first(lambda view: view.fetch_session(key, start, end))

    def fetch(self, key: Any) -> WindowedEntries:
        """Iterate over all sessions of a key, oldest first."""
        return self._chain(lambda view: view.fetch(key))

    def backward_fetch(self, key: Any) -> WindowedEntries:
        """Iterate over all sessions of a key, newest first."""
        return self._chain(lambda view: view.backward_fetch(key))

    def fetch_range(self, key_from: Any, key_to: Any) -> WindowedEntries:
        """Iterate over all sessions of some keys, both inclusive; None leaves an end open."""
        return self._chain(lambda view: view.fetch_range(key_from, key_to))

    def backward_fetch_range(self, key_from: Any, key_to: Any) -> WindowedEntries:
        """Iterate over the same sessions, newest first within each task."""
        return self._chain(lambda view: view.backward_fetch_range(key_from, key_to))

    def find_sessions(self, key: Any, earliest_end: int, latest_start: int) -> WindowedEntries:
        """Iterate over the sessions of a key that overlap some time (ms), oldest first."""
        return self._chain(lambda view: view.find_sessions(key, earliest_end, latest_start))

    def backward_find_sessions(
        self, key: Any, earliest_end: int, latest_start: int
    ) -> WindowedEntries:
        """Iterate over the same sessions, newest first."""
        return self._chain(
            lambda view: view.backward_find_sessions(key, earliest_end, latest_start)
        )

    def find_sessions_range(
        self, key_from: Any, key_to: Any, earliest_end: int, latest_start: int
    ) -> WindowedEntries:
        """Iterate over the sessions of some keys that overlap some time (ms), oldest first.

        Keys are inclusive, None leaves an end open.
        """
        return self._chain(
            lambda view: view.find_sessions_range(key_from, key_to, earliest_end, latest_start)
        )

    def backward_find_sessions_range(
        self, key_from: Any, key_to: Any, earliest_end: int, latest_start: int
    ) -> WindowedEntries:
        """Iterate over the same sessions, newest first within each task."""
        return self._chain(
            lambda view: view.backward_find_sessions_range(
                key_from, key_to, earliest_end, latest_start
            )
        )

    def find_sessions_by_end(self, earliest_end: int, latest_end: int) -> WindowedEntries:
        """Iterate over the sessions of all keys that end in some time (ms), both inclusive."""
        return self._chain(lambda view: view.find_sessions_by_end(earliest_end, latest_end))


class LocalVersionedKeyValueStore(LocalStore):
    """A versioned store of this instance."""

    def get(self, key: Any, as_of: int | None = None) -> VersionedRecord[Any] | None:
        """Return the version of a key that is valid at a time (ms); None asks for the latest."""
        found: VersionedRecord[Any] | None = self._first(lambda view: view.get(key, as_of))
        return found

    def get_range(
        self,
        key: Any,
        from_time: int | None = None,
        to_time: int | None = None,
        *,
        descending: bool = False,
    ) -> Iterator[VersionedRecord[Any]]:
        """Iterate over the versions of a key that are valid somewhere in a range of time (ms)."""
        return self._chain(
            lambda view: view.get_range(key, from_time, to_time, descending=descending)
        )


_CLASSES: dict[StoreKind, type[LocalStore]] = {
    StoreKind.KEY_VALUE: LocalKeyValueStore,
    StoreKind.WINDOW: LocalWindowStore,
    StoreKind.SESSION: LocalSessionStore,
    StoreKind.VERSIONED: LocalVersionedKeyValueStore,
}


def local_store(spec: StoreSpec, views: Views) -> LocalStore:
    """Return the reads of a store, of the class of its kind.

    Args:
        spec: What the store is.
        views: Returns a view of each local task's store.

    Raises:
        TopologyError: Stores of this kind are not for reading.
    """
    local_class = _CLASSES.get(spec.kind)
    if local_class is None:
        raise TopologyError(
            f"state store {spec.name!r} can't be read: it is what an operation keeps for itself; "
            "read the operation's output, or a table made of it"
        )
    return local_class(views)


def views_of(
    name: str, isolation_level: IsolationLevel, stores: Sequence[Any], *, ready: bool
) -> list[Any]:
    """Return a view of each local task's store.

    Args:
        name: The store's name.
        isolation_level: What reads see.
        stores: The stores of that name of all running local tasks.
        ready: Whether all local tasks that have the store run.

    Raises:
        StoreNotAvailableError: A local task still restores, or there is none.
        TopologyError: A store of the user's own has no views for other threads.
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
    if not hasattr(stores[0], "read_only"):
        raise TopologyError(
            f"state store {name!r} gives other threads no view of itself: "
            f"{type(stores[0]).__name__} has no read_only(isolation_level). Write that, or ask the "
            "store with KafkaStreams.query, which calls its query()"
        )
    return [store.read_only(isolation_level) for store in stores]
