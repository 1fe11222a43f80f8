"""Committed values that were read or written lately, kept before the engine.

A get from RocksDB costs a third of what a counted record costs in all; most keys that are read
were read or written a moment ago. So what a commit writes, and what a read finds, stays in a dict.

Invariants:
- A key in the cache has the value it has in the engine (None: the engine has no such key): commits
  and reads put it there, and a restore, which goes past the cache, empties it.
- The younger generation is asked first; where both know a key, the younger is right.
- All caches of a thread together hold at most the budget: when the younger generations hold half
  of it, all of them become the older ones, and the older ones are dropped. No list of uses is kept:
  a key that is used again comes back into the younger generation by that very use.

Threads: belongs to the thread that owns the stores; views of other threads ask the engine.
Rejected: an order of uses (a move a read costs as much as it saves); a cache a store with a share
of its own (shares have to be dealt out again whenever tasks come and go).
Was: the clean entries of Kafka Streams' ThreadCache and NamedCache.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping
from typing import Any

_ABSENT: Any = object()


class ReadCacheBudget:
    """What the read caches of one thread may hold together.

    Args:
        max_bytes: Bytes of keys and values over both generations of all caches; 0 for no cache.
    """

    __slots__ = ("_caches", "_half_bytes", "_young_bytes")

    def __init__(self, max_bytes: int) -> None:
        self._half_bytes = max_bytes // 2
        self._young_bytes = 0
        self._caches: weakref.WeakSet[ReadCache] = weakref.WeakSet()

    def cache(self, engine_get: Callable[[bytes], bytes | None]) -> ReadCache | None:
        """Return a new cache before an engine; None when there is nothing to give."""
        if not self._half_bytes:
            return None
        cache = ReadCache(self, engine_get)
        self._caches.add(cache)
        return cache

    def take(self, count: int) -> None:
        """Count bytes that came into a younger generation."""
        self._young_bytes += count
        if self._young_bytes > self._half_bytes:
            self._young_bytes = 0
            for cache in self._caches:
                cache.age()

    def fits(self, count: int) -> bool:
        """Return whether so many bytes can be taken at once at all."""
        return count <= self._half_bytes


class ReadCache:
    """The cache of one store; made by `ReadCacheBudget.cache`."""

    __slots__ = ("__weakref__", "_budget", "_engine_get", "_old", "_young")

    def __init__(
        self, budget: ReadCacheBudget, engine_get: Callable[[bytes], bytes | None]
    ) -> None:
        self._budget = budget
        self._engine_get = engine_get
        self._young: dict[bytes, bytes | None] = {}
        self._old: dict[bytes, bytes | None] = {}

    def get(self, key: bytes) -> bytes | None:
        """Return the committed value of a key, or None."""
        value: bytes | None = self._young.get(key, _ABSENT)
        if value is not _ABSENT:
            return value
        value = self._old.get(key, _ABSENT)
        if value is _ABSENT:
            value = self._engine_get(key)
        self._young[key] = value
        self._budget.take(len(key) if value is None else len(key) + len(value))
        return value

    def peek(self, key: bytes) -> bytes | None:
        """Return the committed value of a key if it is here; None says nothing."""
        value: bytes | None = self._young.get(key, _ABSENT)
        return self._old.get(key) if value is _ABSENT else value

    def committed(self, changes: Mapping[bytes, bytes | None], size_bytes: int) -> None:
        """Take in what was just written to the engine.

        Args:
            changes: Values by key; None was deleted.
        """
        if self._budget.fits(size_bytes):
            self._young.update(changes)
            self._budget.take(size_bytes)
        else:
            self.clear()

    def age(self) -> None:
        """Drop the older generation; the younger takes its place."""
        self._old = self._young
        self._young = {}

    def clear(self) -> None:
        """Forget everything: the engine was written past the cache, or is gone."""
        self._young = {}
        self._old = {}
