"""A view of a key-value store that leaves timestamps out: what a test mostly compares with."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pystreams.stores.api import ReadOnlyKeyValueStore, ValueAndTimestamp

Entries = Iterator[tuple[Any, Any]]


class PlainValues:
    """Reads a store, plain or timestamped, as plain values.

    Args:
        store: The store.
    """

    def __init__(self, store: ReadOnlyKeyValueStore[Any, Any]) -> None:
        self._store = store

    def get(self, key: Any) -> Any:
        """Return the value of a key, or None."""
        return _plain(self._store.get(key))

    def range(self, start: Any, end: Any) -> Entries:
        """Iterate over keys from `start` to `end`, both inclusive."""
        return _entries(self._store.range(start, end))

    def reverse_range(self, start: Any, end: Any) -> Entries:
        """Iterate over the same keys as `range`, highest first."""
        return _entries(self._store.reverse_range(start, end))

    def all(self) -> Entries:
        """Iterate over all keys."""
        return _entries(self._store.all())

    def reverse_all(self) -> Entries:
        """Iterate over all keys, highest first."""
        return _entries(self._store.reverse_all())

    def prefix_scan(self, prefix: bytes) -> Entries:
        """Iterate over keys whose bytes start with `prefix`."""
        return _entries(self._store.prefix_scan(prefix))

    def approximate_num_entries(self) -> int:
        """Return about how many keys there are."""
        return self._store.approximate_num_entries()


def _plain(value: Any) -> Any:
    return value.value if isinstance(value, ValueAndTimestamp) else value


def _entries(found: Entries) -> Entries:
    for key, value in found:
        yield key, _plain(value)
