"""What `KafkaStreams.store` gives of a session store."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pystreams.stores.contracts.local_store import LocalStore
from pystreams.stores.contracts.window import Windowed

WindowedEntries = Iterator[tuple[Windowed[Any], Any]]


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
