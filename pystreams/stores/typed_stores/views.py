"""Bytes-level reads for threads that do not own the store. Spec: KIP-892 "Interactive Queries".

Safe beside a writing owner, without a lock:
- A dict operation on bytes keys runs no Python code, so that under the GIL each is atomic.
- A commit writes the engine first and clears the dirty map second; a reader asks the dirty map
  first and the engine second. Whatever was in the map is therefore found in one or the other.
- A range takes the next few entries of the dirty map at a time, and the engine's iterator for all
  that lies ahead. The store counts its commits and rollbacks after the engine has the data, and
  before it clears the map. What a reader finds gone from the map while the count is that of its
  iterator, the iterator has, or it was rolled back; one that finds another count opens the
  engine's iterator again, where it stands. The map is not copied, and the owner pays nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Protocol

from pystreams.config.guarantee import IsolationLevel
from pystreams.stores.contracts.key_value import KeyValueIterator
from pystreams.stores.dirty_map.buffered import ABSENT, BufferedKeyValueStore
from pystreams.stores.dirty_map.merged_range import Entries

_FEW = 256
"""Entries of the dirty map that a range takes at a time."""


class BytesReader(Protocol):
    """Reads on the level of bytes; ranges include `start` and exclude `end`."""

    def get(self, key: bytes) -> bytes | None:
        """Return a stored value or None."""

    def range(
        self, start: bytes | None, end: bytes | None, *, reverse: bool = False
    ) -> KeyValueIterator[bytes, bytes]:
        """Iterate in or against key order."""

    def approximate_num_entries(self) -> int:
        """Return about how many keys there are."""


class CommittedView:
    """Reads what the last commit wrote; a range in RocksDB sees one and the same commit."""

    __slots__ = ("approximate_num_entries", "get", "range")

    def __init__(self, store: BufferedKeyValueStore) -> None:
        self.get = store.engine_get
        self.range = store.engine_range
        self.approximate_num_entries = store.engine_num_entries


class UncommittedView:
    """Reads what the owner has written so far, committed or not."""

    __slots__ = ("_store",)

    def __init__(self, store: BufferedKeyValueStore) -> None:
        self._store = store

    def get(self, key: bytes) -> bytes | None:
        """Return the newest value of a key, or None; past the read cache, which is the owner's."""
        stored: bytes | None = self._store.dirty.get(key, ABSENT)
        return self._store.engine_get(key) if stored is ABSENT else stored

    def range(self, start: bytes | None, end: bytes | None, *, reverse: bool = False) -> Entries:
        """Iterate over the dirty map and the engine, what lies ahead as it is then."""
        store = self._store
        dirty_get: Callable[[bytes, Any], Any] = store.dirty.get
        generation = -1
        committed: Iterator[tuple[bytes, bytes]] = iter(())
        head: tuple[bytes, bytes] | None = None
        while True:
            if generation != store.generation:
                generation = store.generation
                committed = store.engine_range(start, end, reverse=reverse)
                head = next(committed, None)
            keys = store.readers_keys.between(start, end, _FEW, reverse=reverse)
            written = [dirty_get(key, ABSENT) for key in keys]
            if generation != store.generation:
                continue  # What is gone from the map since may not be in this iterator.
            for key, value in zip(keys, written, strict=True):
                while head is not None and (head[0] > key if reverse else head[0] < key):
                    yield head
                    head = next(committed, None)
                if head is not None and head[0] == key:
                    if value is ABSENT:
                        yield head
                    head = next(committed, None)
                if value is not None and value is not ABSENT:
                    yield key, value
            if len(keys) < _FEW:
                break
            start, end = (start, keys[-1]) if reverse else (keys[-1] + b"\x00", end)
        if head is not None:
            yield head
            yield from committed

    def approximate_num_entries(self) -> int:
        """Return the engine's estimate plus the dirty keys."""
        return self._store.approximate_num_entries()


def sees_commits_only(store: BufferedKeyValueStore, isolation_level: IsolationLevel) -> bool:
    """Return whether readers at an isolation level see what is committed, and nothing else.

    A store that is not transactional has no committed data apart: all see what is written.
    """
    return isolation_level is IsolationLevel.READ_COMMITTED and store.transactional


def view_of(store: BufferedKeyValueStore, isolation_level: IsolationLevel) -> BytesReader:
    """Return the view of a store at an isolation level."""
    if sees_commits_only(store, isolation_level):
        return CommittedView(store)
    return UncommittedView(store)
