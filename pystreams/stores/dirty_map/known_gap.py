"""A stretch of keys that is known to be empty: what ordered reads need not walk over again.

What was deleted is still in the way of an ordered read: in the dirty map up to the commit, in
RocksDB as tombstones up to a compaction. Who works off a store from its beginning (the oldest
first, what has expired) would walk over all of it each time. So the store remembers the stretch
between where a read began and the first entry it found, and begins the next one behind it.

Invariants:
- No key from `_first` (inclusive) to `_last` (exclusive; None: the end) has a value, but for keys
  that came into the dirty map after the first `_seen` ones. Those are looked at before the stretch
  is used, and before the map is cleared: a write pays nothing for it.
- A key that the dirty map has as deleted, and that gets a value again, is told by `fill`.

One stretch only: the one that reads from the beginning meet, or else one that has cost something.
"""

from __future__ import annotations

from itertools import islice

_FEW = 16
"""Up to this many deletions a read may walk over, wherever it begins."""


class KnownGap:
    """The stretch of one store. Belongs to the thread of the store.

    Args:
        dirty: The store's uncommitted writes; grows until it is cleared.
    """

    __slots__ = ("_dirty", "_first", "_last", "_seen")

    def __init__(self, dirty: dict[bytes, bytes | None]) -> None:
        self._dirty = dirty
        self._first: bytes | None = None
        self._last: bytes | None = None
        self._seen = 0

    def start_behind(self, start: bytes | None, end: bytes | None) -> tuple[bytes | None, bool]:
        """Return where a read from `start` to `end` may begin as well, and whether it need not."""
        first, begin = self._first, start or b""
        if first is None or begin < first or self._is_before(begin):
            return start, False
        self.take_in()
        last = self._last
        if last is None or (end is not None and last >= end):
            return None, True
        return max(begin, last) or None, False

    def found(self, start: bytes | None, end: bytes | None, skipped: int) -> None:
        """Take note of a read that found nothing from `start` to `end`, None for the end.

        Args:
            start: As it was asked for.
            end: The first key it found, or its own end.
            skipped: How many deletions of the dirty map it walked over.
        """
        begin = start or b""
        self.take_in()
        first, last = self._first, self._last
        if first is None or begin < first or (last is not None and last < begin):
            if begin and skipped <= _FEW:
                return
            self._first = begin
        self._last = end

    def fill(self, key: bytes) -> None:
        """Take note of a key that has a value, whatever the dirty map had before."""
        if self._first is not None and self._first <= key and not self._is_before(key):
            self._last = key

    def take_in(self) -> None:
        """Take note of what came into the dirty map."""
        dirty = self._dirty
        if self._first is not None:
            for key in islice(reversed(dirty), len(dirty) - self._seen):
                if dirty[key] is not None:
                    self.fill(key)
        self._seen = len(dirty)

    def written_out(self) -> None:
        """Take note that the engine has what the dirty map held, which is about to be cleared."""
        self.take_in()
        self._seen = 0

    def forget(self) -> None:
        """Know nothing: the store may hold something else now."""
        self._first = self._last = None
        self._seen = 0

    def _is_before(self, key: bytes) -> bool:
        """Return whether the stretch ends at a key or before it."""
        return self._last is not None and self._last <= key
