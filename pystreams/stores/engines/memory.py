"""An engine that keeps committed bytes in a dict: for small state, tests and the test driver.

Invariants:
- `_data` holds committed values only; one `write` is one `dict.update` plus deletions.
- `_keys` is sorted and never changed in place: readers walk a list that stays as it is. It may
  hold keys that were deleted since; readers skip them.

Threads: the owner writes, anybody reads. Single dict operations on bytes keys are atomic under
the GIL; the lock guards what a range read of any thread brings up to date,
`_keys` and `_fresh`, against a write.
"""

from __future__ import annotations

import threading
from bisect import bisect_left
from typing import TYPE_CHECKING

from pystreams.errors import StoreNotAvailableError
from pystreams.kernel.changes import apply_changes

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping, Sequence
    from pathlib import Path

    from pystreams.stores.contracts.key_value import KeyValueIterator, RocksDBConfigSetter

_FEW = 16
"""Deleted keys among the sorted ones that are never worth a rebuild, and fresh ones that are put
in one by one: moving the keys behind them costs far less than a look at each."""


class MemoryEngine:
    """A `KeyValueEngine` without a disk; everything is gone at `close`.

    Args:
        name: The store's name, for error messages.
    """

    __slots__ = ("_data", "_fresh", "_keys", "_lock", "_metadata", "_name", "_open")

    def __init__(self, name: str) -> None:
        self._name = name
        self._data: dict[bytes, bytes] = {}
        self._keys: list[bytes] = []
        self._fresh: list[bytes] = []
        self._metadata: dict[bytes, bytes] = {}
        self._lock = threading.Lock()
        self._open = False

    @property
    def persistent(self) -> bool:
        """Return False."""
        return False

    def open(
        self,
        directory: Path,
        rocksdb_config_setter: RocksDBConfigSetter | None = None,
    ) -> None:
        """Start empty; touches no file."""
        self._open = True

    def get(self, key: bytes) -> bytes | None:
        """Return a committed value or None."""
        value = self._data.get(key)
        if value is None and not self._open:
            raise self._closed()
        return value

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """Return the committed values of keys, in their order."""
        if not self._open:
            raise self._closed()
        return list(map(self._data.get, keys))

    def range(
        self, start: bytes | None, end: bytes | None, *, reverse: bool = False
    ) -> KeyValueIterator[bytes, bytes]:
        """Iterate from `start` (inclusive) to `end` (exclusive), in or against key order.

        Keys are those there were at the start; values are the newest committed ones.
        """
        if not self._open:
            raise self._closed()
        return self._walk(start, end, reverse=reverse)

    def write(
        self,
        changes: Mapping[bytes, bytes | None],
        metadata: Mapping[bytes, bytes | None],
        *,
        delete_below: bytes | None = None,
    ) -> None:
        """Apply data and metadata; None deletes, and so does a key below `delete_below`."""
        if not self._open:
            raise self._closed()
        if delete_below is not None:
            self._delete_below(delete_below)
        data = self._data
        present = {key: value for key, value in changes.items() if value is not None}
        with self._lock:
            # Not `present.keys() - data.keys()`, which walks over all of the data.
            self._fresh.extend([key for key in present if key not in data])
            data.update(present)
            if len(present) < len(changes):
                for key, value in changes.items():
                    if value is None:
                        data.pop(key, None)
        apply_changes(self._metadata, metadata)

    def metadata(self) -> dict[bytes, bytes]:
        """Return a copy of everything `write` put as metadata."""
        return dict(self._metadata)

    def approximate_num_entries(self) -> int:
        """Return how many keys there are."""
        return len(self._data)

    def close(self) -> None:
        """Drop everything; safe to call twice."""
        self._open = False
        self._data = {}
        self._metadata = {}
        with self._lock:
            self._keys = []
            self._fresh = []

    def _walk(
        self, start: bytes | None, end: bytes | None, *, reverse: bool
    ) -> Generator[tuple[bytes, bytes], None, None]:
        keys = self._sorted()
        low = 0 if start is None else bisect_left(keys, start)
        high = len(keys) if end is None else bisect_left(keys, end)
        positions = range(high - 1, low - 1, -1) if reverse else range(low, high)
        for position in positions:
            key = keys[position]
            value = self._data.get(key)
            if value is not None:
                yield key, value
            elif not self._open:
                raise self._closed()

    def _delete_below(self, bound: bytes) -> None:
        keys = self._sorted()
        for key in keys[: bisect_left(keys, bound)]:
            self._data.pop(key, None)

    def _sorted(self) -> list[bytes]:
        """Return the current sorted keys, taking in what was written since the last call."""
        with self._lock:
            keys, fresh = self._keys, self._fresh
            if len(keys) + len(fresh) > 2 * len(self._data) + _FEW:
                keys = sorted(self._data)  # More keys were deleted than live: start again.
            elif len(fresh) <= _FEW:
                keys = _with_few(keys, fresh)
            else:
                # Two sorted runs merge in linear time. A key deleted and written again is twice
                # in the result; a dict keeps the first of equals, and the order.
                keys = list(dict.fromkeys(sorted(keys + sorted(fresh))))
            self._keys = keys
            self._fresh = []
            return keys

    def _closed(self) -> StoreNotAvailableError:
        return StoreNotAvailableError(
            f"state store {self._name!r} is closed: its task moved or stopped; ask again"
        )


def _with_few(keys: list[bytes], fresh: list[bytes]) -> list[bytes]:
    """Return sorted keys with fresh ones among them, in a list of its own if there are any."""
    if fresh:
        keys = keys.copy()
    for key in fresh:
        place = bisect_left(keys, key)
        if place == len(keys) or keys[place] != key:  # Else deleted and written again.
            keys.insert(place, key)
    return keys
