"""What `KafkaStreams.store` gives of a versioned store."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pystreams.stores.contracts.local_store import LocalStore
from pystreams.stores.contracts.versioned import VersionedRecord


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
