"""The uncommitted keys of a segmented store by record key: what reads of one key look through.

A join looks for the partners of each record among what was written a moment ago. A dictionary has
them at once, however many other keys there are; an ordered read of all keys is several searches.

Invariant: while `generation` is that of the store, the lists have exactly those keys that the dirty
map has with a value, each list in order, which for one record key is that of time. A store that is
never asked pays a look at two numbers a write.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Sequence
from typing import TYPE_CHECKING

from pystreams.stores.time_segments.segments import SEGMENT_ID_BYTES

if TYPE_CHECKING:
    from pystreams.stores.dirty_map.buffered import BufferedKeyValueStore


class UncommittedKeys:
    """The keys of one store. Belongs to the thread of the store.

    Args:
        suffix_bytes: Bytes of times and numbers behind the record key.
        mark: What stands between the segment and the record key; keys without it are passed by.

    Attributes:
        generation: That of the store at the last read; another one means that nothing is known.
    """

    __slots__ = ("_buffer", "_keys", "_mark", "_prefix_bytes", "_suffix_bytes", "generation")

    def __init__(self, buffer: BufferedKeyValueStore, suffix_bytes: int, mark: bytes) -> None:
        self._buffer = buffer
        self._mark = mark
        self._prefix_bytes = SEGMENT_ID_BYTES + len(mark)
        self._suffix_bytes = suffix_bytes
        self._keys: dict[bytes, list[bytes]] = {}
        self.generation = -1

    def of(self, record_key: bytes) -> Sequence[bytes]:
        """Return the keys of a record key in order; to be looked through before the next write."""
        if self.generation != self._buffer.generation:
            self._begin()
        return self._keys.get(record_key, ())

    def between(self, low: bytes, high: bytes) -> Sequence[bytes]:
        """Return the keys from one to another of the same record key, both inclusive, in order."""
        keys = self.of(low[self._prefix_bytes : -self._suffix_bytes])
        return keys[bisect_left(keys, low) : bisect_right(keys, high)]

    def note(self, key: bytes, *, present: bool) -> None:
        """Take note of a write before it is done; call it while `generation` is the store's."""
        before = self._buffer.dirty.get(key)
        if present:
            if before is None:
                self._add(key)
        elif before is not None:
            keys = self._keys[key[self._prefix_bytes : -self._suffix_bytes]]
            del keys[bisect_left(keys, key)]

    def _begin(self) -> None:
        """Learn what is there now."""
        self._keys.clear()
        self.generation = self._buffer.generation
        mark = self._mark
        for key, value in self._buffer.dirty.items():
            if value is not None and key.startswith(mark, SEGMENT_ID_BYTES):
                self._add(key)

    def _add(self, key: bytes) -> None:
        record_key = key[self._prefix_bytes : -self._suffix_bytes]
        keys = self._keys.get(record_key)
        if not keys:  # None yet, or all deleted.
            self._keys[record_key] = [key]
        elif key > keys[-1]:
            keys.append(key)
        else:
            insort(keys, key)
