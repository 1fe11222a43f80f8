"""Stores as plain values, without their timestamps: what most tests compare with.

Source: Kafka's `KeyValueStoreFacade`, `WindowStoreFacade`. What is written through one of these
into a store that keeps timestamps gets the timestamp -1, unknown, as in Kafka.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from pystreams.stores.contracts.key_value import UNKNOWN_TIMESTAMP, ValueAndTimestamp

Entries = Iterator[tuple[Any, Any]]


class _Plain:
    """A store, plain or timestamped, as plain values."""

    def __init__(self, store: Any, *, timestamped: bool) -> None:
        self._store = store
        self._timestamped = timestamped

    def all(self) -> Entries:
        """Iterate over all there is."""
        return _entries(self._store.all())

    def _as_stored(self, value: Any) -> Any:
        if value is None or not self._timestamped:
            return value
        return ValueAndTimestamp(value, UNKNOWN_TIMESTAMP)


class PlainValues(_Plain):
    """Reads and writes a key-value store, plain or timestamped, as plain values."""

    def get(self, key: Any) -> Any:
        """Return the value of a key, or None."""
        return _plain(self._store.get(key))

    def range(self, start: Any, end: Any) -> Entries:
        """Iterate over keys from `start` to `end`, both inclusive."""
        return _entries(self._store.range(start, end))

    def reverse_range(self, start: Any, end: Any) -> Entries:
        """Iterate over the same keys as `range`, highest first."""
        return _entries(self._store.reverse_range(start, end))

    def reverse_all(self) -> Entries:
        """Iterate over all keys, highest first."""
        return _entries(self._store.reverse_all())

    def prefix_scan(self, prefix: bytes) -> Entries:
        """Iterate over keys whose bytes start with `prefix`."""
        return _entries(self._store.prefix_scan(prefix))

    def approximate_num_entries(self) -> int:
        """Return about how many keys there are."""
        entries: int = self._store.approximate_num_entries()
        return entries

    def put(self, key: Any, value: Any) -> None:
        """Write a value; None deletes the key."""
        self._store.put(key, self._as_stored(value))

    def put_if_absent(self, key: Any, value: Any) -> Any:
        """Write a value unless the key has one; return the one it had, or None."""
        return _plain(self._store.put_if_absent(key, self._as_stored(value)))

    def put_all(self, entries: Iterable[tuple[Any, Any]]) -> None:
        """Write several values."""
        for key, value in entries:
            self.put(key, value)

    def delete(self, key: Any) -> Any:
        """Delete a key and return the value it had, or None."""
        return _plain(self._store.delete(key))


class PlainWindows(_Plain):
    """Reads and writes a window store, plain or timestamped, as plain values.

    Times are in ms and inclusive on both ends; see `ReadOnlyWindowStore` for the order.
    """

    def fetch(self, key: Any, time_from: int, time_to: int | None = None) -> Any:
        """Return the value of one window, or None; given two times, iterate over many."""
        if time_to is None:
            return _plain(self._store.fetch(key, time_from))
        return _entries(self._store.fetch(key, time_from, time_to))

    def backward_fetch(self, key: Any, time_from: int, time_to: int) -> Entries:
        """Iterate over the same windows as `fetch` with two times, latest first."""
        return _entries(self._store.backward_fetch(key, time_from, time_to))

    def fetch_range(self, key_from: Any, key_to: Any, time_from: int, time_to: int) -> Entries:
        """Iterate over windows of several keys; None leaves an end open."""
        return _entries(self._store.fetch_range(key_from, key_to, time_from, time_to))

    def backward_fetch_range(
        self, key_from: Any, key_to: Any, time_from: int, time_to: int
    ) -> Entries:
        """Iterate over the same windows as `fetch_range`, in the opposite order."""
        return _entries(self._store.backward_fetch_range(key_from, key_to, time_from, time_to))

    def fetch_all(self, time_from: int, time_to: int) -> Entries:
        """Iterate over windows of all keys that start in a stretch of time."""
        return _entries(self._store.fetch_all(time_from, time_to))

    def backward_fetch_all(self, time_from: int, time_to: int) -> Entries:
        """Iterate over the same windows as `fetch_all`, in the opposite order."""
        return _entries(self._store.backward_fetch_all(time_from, time_to))

    def backward_all(self) -> Entries:
        """Iterate over all windows, in the opposite order."""
        return _entries(self._store.backward_all())

    def put(self, key: Any, value: Any, window_start: int) -> None:
        """Write the value of a window; None deletes it."""
        self._store.put(key, self._as_stored(value), window_start)


def _plain(value: Any) -> Any:
    return value.value if isinstance(value, ValueAndTimestamp) else value


def _entries(found: Entries) -> Entries:
    for key, value in found:
        yield key, _plain(value)
