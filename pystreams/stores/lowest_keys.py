"""The lowest keys of a store whose entries leave from below, known without looking into it.

What has left is still in the way of an ordered read for a while: as deletions in the dirty map up
to the commit, as tombstones in RocksDB up to a compaction. Who asks the store for its first entry
walks over all of them. So the lowest keys are kept in memory, and the store is asked for the next
ones, from behind the last that was known, when they have run out.

Invariants:
- Every key below `_beyond` is in `_known`, a heap, and none else; every key is, when `_beyond` is
  None.
- `_beyond` lies above every key that was taken, but for keys that came later and are lower. So a
  read that starts there meets hardly anything that has left.

Rejected: all keys in memory (a grace period of hours); a lower bound alone (a read opens an
iterator for each record that leaves, and those of one time hide behind the ones that left).
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from heapq import heappop, heappush
from itertools import islice

KNOWN_KEYS = 1024

EntriesFrom = Callable[[bytes], Generator[tuple[bytes, bytes], None, None]]
"""Iterates over the store's entries from a key on, in order."""


class LowestKeys:
    """The lowest keys of one store. Belongs to the store's thread.

    Args:
        entries_from: Reads the store; asked only when the known keys have run out.
        asked_keys: How many it is asked for at once; twice as many are kept from one commit to the
            next.
    """

    __slots__ = ("_asked_keys", "_beyond", "_entries_from", "_known")

    def __init__(self, entries_from: EntriesFrom, asked_keys: int = KNOWN_KEYS) -> None:
        self._entries_from = entries_from
        self._asked_keys = asked_keys
        self._known: list[bytes] = []
        self._beyond: bytes | None = b""

    def add(self, keys: Iterable[bytes]) -> None:
        """Take in keys that the store has got."""
        known, beyond = self._known, self._beyond
        for key in keys:
            if beyond is None or key < beyond:
                heappush(known, key)
        if len(known) > 2 * self._asked_keys:
            known.sort()
            self._beyond = known[self._asked_keys]
            del known[self._asked_keys :]

    def lowest(self) -> bytes | None:
        """Return the lowest key, None when there is none."""
        if not self._known and self._beyond is not None:
            self._look_beyond(self._beyond)
        return self._known[0] if self._known else None

    def take(self) -> None:
        """Forget the key that `lowest` has returned: its entry leaves."""
        heappop(self._known)

    def forget(self) -> None:
        """Know nothing: the store holds something else now."""
        self._known.clear()
        self._beyond = b""

    def _look_beyond(self, beyond: bytes) -> None:
        entries = self._entries_from(beyond)
        found = [key for key, _ in islice(entries, self._asked_keys)]
        entries.close()
        self._beyond = found[-1] + b"\x00" if len(found) == self._asked_keys else None
        self._known[:] = found  # In order, which is a heap.
