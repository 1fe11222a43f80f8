"""How many bytes a store holds uncommitted, and who is told when they are many.

A store compares its bytes with one number at each write: with the high-water mark, or with the
bound the runtime has set, whichever is lower. So the bound costs nothing until it is reached.
"""

from __future__ import annotations

import sys

from pystreams.record import GrowthWatch


class UncommittedBytes:
    """The count of a store; the store adds to it, and calls `note` above `watched_bytes`.

    Attributes:
        uncommitted_bytes: Bytes of keys and values that wait for a commit.
        max_uncommitted_bytes: The highest value `uncommitted_bytes` ever had since `init`.
        watched_bytes: What must not be exceeded without a call of `note`.
    """

    __slots__ = (
        "_bound_bytes",
        "_growth",
        "max_uncommitted_bytes",
        "uncommitted_bytes",
        "watched_bytes",
    )

    def __init__(self) -> None:
        self.uncommitted_bytes = 0
        self.count_from_zero(GrowthWatch())

    def count_from_zero(self, growth: GrowthWatch) -> None:
        """Start anew, at the store's `init`; `growth` is told from now on."""
        self.max_uncommitted_bytes = self.watched_bytes = 0
        self._bound_bytes = sys.maxsize
        self._growth = growth
        growth.add(self)

    def watch(self, bound_bytes: int) -> None:
        """Say so at each write that leaves more than `bound_bytes` uncommitted."""
        self._bound_bytes = bound_bytes
        self.watched_bytes = min(bound_bytes, self.max_uncommitted_bytes)

    def add(self, size_bytes: int) -> None:
        """Count more bytes."""
        self.uncommitted_bytes = uncommitted = self.uncommitted_bytes + size_bytes
        if uncommitted > self.watched_bytes:
            self.note(uncommitted)

    def note(self, uncommitted_bytes: int) -> None:
        """Raise the high-water mark, and say so when the bound is exceeded."""
        if uncommitted_bytes > self.max_uncommitted_bytes:
            self.max_uncommitted_bytes = uncommitted_bytes
        self.watched_bytes = min(self._bound_bytes, self.max_uncommitted_bytes)
        if uncommitted_bytes > self._bound_bytes:
            self._growth.used_up()
