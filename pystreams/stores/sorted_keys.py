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
