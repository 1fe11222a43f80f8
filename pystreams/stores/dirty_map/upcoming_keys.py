"""The next keys of a stretch of a store that are taken out in their order, read ahead.

Who asks a store for its first key walks over all that have left, as deletions in the dirty map up
to the commit, as tombstones in RocksDB up to a compaction. So the store is read on from where it
was read last, some keys at once.

Invariant: the heap has all keys of the stretch that are below `_beyond`, and perhaps some that were
deleted by others.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pystreams.stores.dirty_map.buffered import BufferedKeyValueStore

KEPT_KEYS = 1000
"""How many keys are read at once; memory holds twice as many at most."""


class UpcomingKeys:
    """Keys of one stretch, the lowest first.

    Threads: belongs to the store's thread.

    Args:
        end: Where it ends, exclusive.
        kept_keys: See `KEPT_KEYS`.
    """

    __slots__ = ("_beyond", "_buffer", "_end", "_kept_keys", "_keys", "_start")

    def __init__(
        self,
        buffer: BufferedKeyValueStore,
        start: bytes,
        end: bytes,
        kept_keys: int = KEPT_KEYS,
    ) -> None:
        self._buffer = buffer
        self._start, self._end = start, end
        self._kept_keys = kept_keys
        self._keys: list[bytes] = []
        self._beyond = start

    def __len__(self) -> int:
        """Return how many keys are in memory."""
        return len(self._keys)

    def first(self) -> bytes | None:
        """Return the lowest key, None without any; it stays."""
        keys = self._keys
        return keys[0] if keys or self._read_on() else None

    def leave(self) -> None:
        """Take out what `first` has returned."""
        heappop(self._keys)

    def came(self, key: bytes) -> bool:
        """Take note of a new key; return whether it may be the first one now."""
        if key >= self._beyond:
            return False
        keys = self._keys
        heappush(keys, key)
        if len(keys) > 2 * self._kept_keys:
            keys.sort()  # Which is a heap as well.
            self._beyond = keys[self._kept_keys]
            del keys[self._kept_keys :]
        return True

    def forget(self) -> None:
        """Know nothing: what the store holds has changed."""
        self._keys.clear()
        self._beyond = self._start

    def _read_on(self) -> bool:
        """Read the next keys; return whether there are any."""
        entries = self._buffer.range(self._beyond, self._end)
        self._beyond = self._end
        for key, _ in entries:
            if len(self._keys) == self._kept_keys:
                self._beyond = key
                break
            self._keys.append(key)
        entries.close()
        return bool(self._keys)
