"""Bytes-level reads for threads that do not own the store. Spec: KIP-892 "Interactive Queries".

Safe beside a writing owner, without a lock:
- A dict operation on bytes keys runs no Python code, so that under the GIL each is atomic.
- A commit writes the engine first and clears the dirty map second; a reader asks the dirty map
  first and the engine second. Whatever was in the map is therefore found in one or the other.
- A range copies what the dirty map holds between its bounds before it opens the engine's iterator,
  for the same reason: a key that is gone from the map when its turn comes is in the engine, or was
  rolled back. The copy is the reader's price, the owner pays nothing; the map as a whole is not
  copied.
"""

from __future__ import annotations

from heapq import merge
from operator import itemgetter
from typing import Protocol

from pystreams.config.guarantee import IsolationLevel
from pystreams.stores.api import KeyValueIterator
from pystreams.stores.buffered import ABSENT, BufferedKeyValueStore, Entries


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
        """Iterate over the dirty map as it is now and the engine as it is now or later."""
        store = self._store
        dirty_get = store.dirty.get
        written: dict[bytes, bytes | None] = {}
        for key in store.readers_keys.between(start, end):
            stored = dirty_get(key, ABSENT)
            if stored is not ABSENT:
                written[key] = stored
        committed = (
            entry
            for entry in store.engine_range(start, end, reverse=reverse)
            if entry[0] not in written
        )
        overlay = reversed(written.items()) if reverse else written.items()
        for key, value in merge(overlay, committed, key=itemgetter(0), reverse=reverse):
            if value is not None:
                yield key, value

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
