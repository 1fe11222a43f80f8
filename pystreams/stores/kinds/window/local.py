"""What `KafkaStreams.store` gives of a window store."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pystreams.stores.contracts.local_store import LocalStore
from pystreams.stores.contracts.window import Windowed

Entries = Iterator[tuple[Any, Any]]
WindowedEntries = Iterator[tuple[Windowed[Any], Any]]


class LocalWindowStore(LocalStore):
    """A window store of this instance; see `ReadOnlyWindowStore` for the order within a task."""

    def fetch(self, key: Any, time_from: int, time_to: int | None = None) -> Any:
        """Return the value of one window, or None; given two times, iterate over many.

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
