"""The keys of a growing dict in order, sorted only when somebody asks.

Invariants:
- `_keys` and `_recent` are in ascending order; together they hold the first
  `len(_keys) + len(_recent)` keys of the dict in insertion order.
- The dict only grows between two calls of `clear`; a deletion is a value, not a missing key.

So the keys not yet sorted are the last ones of the dict, `reversed(dict)` finds them, and a write
to the dict pays nothing for the order. Once there are many, new keys go into the small list, which
joins the large one now and then: one more key costs a binary search, however many there are.
Rejected: a sorted container kept up to date by every put (1 to 2 microseconds on the hot path, for
reads that most stores never see); a sorted copy a range read (the copy is what KIP-892's
implementation pays).
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator
from heapq import merge
from itertools import islice
from typing import Any

_FEW = 16
"""Up to this many new keys are inserted one by one; more are appended and sorted together."""
_RECENT_SHARE = 16
"""One in this many keys may be in the small list; above that the lists are joined."""


class SortedKeys:
    """The ordered keys of one dict. Belongs to the thread that owns the dict.

    Args:
        source: The dict; only grows until it is cleared.
        one_list_max: Up to this many keys are in one list.
    """

    __slots__ = ("_keys", "_one_list_max", "_recent", "_source")

    def __init__(self, source: dict[bytes, Any], one_list_max: int = 4096) -> None:
        self._source = source
        self._one_list_max = one_list_max
        self._keys: list[bytes] = []
        self._recent: list[bytes] = []

    def walk(self, start: bytes | None, end: bytes | None, *, reverse: bool) -> Iterator[bytes]:
        """Iterate from `start` (inclusive) to `end` (exclusive), in or against key order.

        Nothing is copied: the iterator is of no use any more once the dict has another key.
        """
        if len(self._source) > len(self._keys) + len(self._recent):
            self._refresh()
        keys, recent = self._keys, self._recent
        first, last = _bounds(keys, start, end)
        if not recent:
            return _walk(keys, first, last, reverse=reverse)
        first_recent, last_recent = _bounds(recent, start, end)
        if first_recent >= last_recent:
            return _walk(keys, first, last, reverse=reverse)
        recent_walk = _walk(recent, first_recent, last_recent, reverse=reverse)
        if first >= last:
            return recent_walk
        return merge(_walk(keys, first, last, reverse=reverse), recent_walk, reverse=reverse)

    def between(self, start: bytes | None, end: bytes | None) -> list[bytes]:
        """Return the keys from `start` (inclusive) to `end` (exclusive), in order."""
        if len(self._source) > len(self._keys) + len(self._recent):
            self._refresh()
        keys, recent = self._keys, self._recent
        first, last = _bounds(keys, start, end)
        found = keys[first:last]
        if recent:
            first, last = _bounds(recent, start, end)
            if first < last:
                found += recent[first:last]
                found.sort()
        return found

    def clear(self) -> None:
        """Forget all keys; called when the dict is cleared."""
        self._keys.clear()
        self._recent.clear()

    def _refresh(self) -> None:
        """Take in the keys added since the last call."""
        keys, recent = self._keys, self._recent
        missing = len(self._source) - len(keys) - len(recent)
        fresh = islice(reversed(self._source), missing)
        target = recent if len(keys) > self._one_list_max else keys
        if missing <= _FEW:
            for key in fresh:
                insort(target, key)
        else:
            target.extend(fresh)
            target.sort()
        if len(recent) * _RECENT_SHARE > len(keys):
            keys.extend(recent)
            keys.sort()
            recent.clear()


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

    def between(
        self, start: bytes | None, end: bytes | None, limit: int, *, reverse: bool = False
    ) -> list[bytes]:
        """Return the first keys from `start` (inclusive) to `end` (exclusive).

        They may be of a dict that has been cleared by now: a key that is not found is gone.

        Args:
            start: Where they begin; None for the first key.
            end: Where they end; None for behind the last key.
            limit: How many to return at most.
            reverse: Whether to begin at `end`, and go against key order.
        """
        keys, recent = self._look()
        found = _between(keys, start, end, limit, reverse=reverse)
        found_recent = _between(recent, start, end, limit, reverse=reverse)
        if not found_recent:
            return found
        return sorted(found + found_recent, reverse=reverse)[:limit]

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


def _between(
    keys: list[bytes], start: bytes | None, end: bytes | None, limit: int, *, reverse: bool
) -> list[bytes]:
    first, last = _bounds(keys, start, end)
    if reverse:
        return keys[max(first, last - limit) : last][::-1]
    return keys[first : min(last, first + limit)]


def _walk(keys: list[bytes], first: int, last: int, *, reverse: bool) -> Iterator[bytes]:
    positions = range(last - 1, first - 1, -1) if reverse else range(first, last)
    return map(keys.__getitem__, positions)


def _bounds(keys: list[bytes], start: bytes | None, end: bytes | None) -> tuple[int, int]:
    """Return the positions from `start` (inclusive) to `end` (exclusive); may be crossed."""
    first = 0 if start is None else bisect_left(keys, start)
    return first, len(keys) if end is None else bisect_left(keys, end)
