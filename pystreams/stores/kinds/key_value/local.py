"""What `KafkaStreams.store` gives of a key-value store."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pystreams.stores.contracts.local_store import LocalStore

Entries = Iterator[tuple[Any, Any]]


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
