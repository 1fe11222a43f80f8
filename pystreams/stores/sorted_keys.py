"""The keys of a growing dict in order, sorted only when somebody asks.

Invariants:
- `keys` holds, in ascending order, the first `len(keys)` keys of the dict in insertion order.
- The dict only grows between two calls of `clear`; a deletion is a value, not a missing key.

So the keys not yet sorted are the last ones of the dict, `reversed(dict)` finds them, and a write
to the dict pays nothing for the order. Rejected: a sorted container kept up to date by every put
(1 to 2 microseconds on the hot path, for reads that most stores never see); a sorted copy a range
read (the copy is what KIP-892's implementation pays).
"""

from __future__ import annotations

from bisect import bisect_left, insort
from itertools import islice
from typing import Any

_FEW = 16
"""Up to this many new keys are inserted one by one; more are appended and sorted together."""
_RECENT_SHARE = 16
"""One in this many of a reader's keys may be in the small list; above that the lists are joined."""


class SortedKeys:
    """The ordered keys of one dict. Belongs to the thread that owns the dict.

    Attributes:
        keys: The sorted keys; changed in place, read-only for others.
        version: Changes whenever a position in `keys` may have moved.
    """

    __slots__ = ("_source", "keys", "version")

    def __init__(self, source: dict[bytes, Any]) -> None:
        """Order the keys of `source`, a dict that only grows until it is cleared."""
        self._source = source
        self.keys: list[bytes] = []
        self.version = 0

    def refresh(self) -> None:
        """Take in the keys added since the last call.

        Costs nothing when there are none, a binary search each when there are few, and a merge
        of two sorted runs when there are many.
        """
        keys = self.keys
        missing = len(self._source) - len(keys)
        if missing:
            fresh = islice(reversed(self._source), missing)
            if missing <= _FEW:
                for key in fresh:
                    insort(keys, key)
            else:
                keys.extend(fresh)
                keys.sort()
            self.version += 1

    def first_position(self, start: bytes | None, end: bytes | None, *, reverse: bool) -> int:
        """Return where a walk from `start` to `end` (exclusive) begins; may be off the list."""
        if reverse:
            return (len(self.keys) if end is None else bisect_left(self.keys, end)) - 1
        return 0 if start is None else bisect_left(self.keys, start)

    def key_at(self, position: int, start: bytes | None, end: bytes | None) -> bytes | None:
        """Return the key at a position, or None off the list or out of bounds."""
        if not 0 <= position < len(self.keys):
            return None
        key = self.keys[position]
        if (start is not None and key < start) or (end is not None and key >= end):
            return None
        return key

    def clear(self) -> None:
        """Forget all keys; called when the dict is cleared."""
        self.keys.clear()
        self.version += 1


class ReadersKeys:
    """The ordered keys of one dict for threads that do not own it, shared by all of them.

    A reader takes in the keys that are new since the last one asked, so that a read costs what it
    asks for and not what the dict holds. They go into a second, small list first, which joins the
    large one now and then. What a reader got is never changed, only replaced.

    Threads: the owner calls `clear`, any thread `between`. Under the GIL taking the newest keys
    out of the dict is one step: no Python code runs in it. If the dict changed just before it,
    the interpreter says so, and the reader looks again.
    """

    __slots__ = ("_known", "_life", "_source")

    def __init__(self, source: dict[bytes, Any]) -> None:
        """Order the keys of `source`, a dict that only grows until it is cleared."""
        self._source = source
        self._life = 0
        self._known: tuple[int, list[bytes], list[bytes]] = (0, [], [])

    def between(self, start: bytes | None, end: bytes | None) -> list[bytes]:
        """Return the keys from `start` (inclusive) to `end` (exclusive), ascending.

        They may be of a dict that has been cleared by now: a key that is not found is gone.
        """
        keys, recent = self._look()
        found = _between(keys, start, end)
        found_recent = _between(recent, start, end)
        return sorted(found + found_recent) if found_recent else found

    def clear(self) -> None:
        """Forget all keys; called by the owner after the dict was cleared."""
        self._life += 1
        self._known = (self._life, [], [])

    def _look(self) -> tuple[list[bytes], list[bytes]]:
        """Return all keys, in two lists that are each in order."""
        source = self._source
        while True:
            life = self._life
            known_life, keys, recent = self._known
            if known_life != life:
                keys, recent = [], []
            newest_first = reversed(source)
            missing = len(source) - len(keys) - len(recent)
            try:
                fresh = list(islice(newest_first, missing)) if missing > 0 else []
            except RuntimeError:  # The owner wrote or committed meanwhile.
                continue
            if self._life == life:
                break
        if fresh:
            recent = sorted(recent + fresh)
            if len(recent) * _RECENT_SHARE > len(keys):
                keys, recent = sorted(keys + recent), []
            self._known = (life, keys, recent)
        return keys, recent


def _between(keys: list[bytes], start: bytes | None, end: bytes | None) -> list[bytes]:
    first = 0 if start is None else bisect_left(keys, start)
    last = len(keys) if end is None else bisect_left(keys, end)
    return keys[first:last]
