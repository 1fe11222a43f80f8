"""The layout of stores that are read in order of time: for final results of windows.

    segment's id | times | key      the value, in order of time
    segment's id | FF    | key      nothing: an index, in order of keys

`key` is the plain one, as it is logged; `times` are those bytes of it that it is to be ordered by,
times (int64, ms) that are never negative, so that no entry begins as those of the index do.
Example, a window of the key "a" (61) that starts at 50, in segment 0:

    0000000000000000 | 0000000000000032 | 61 0000000000000032 00000000
    0000000000000000 | FF               | 61 0000000000000032 00000000

What has closed since a moment is then one stretch, whatever else is open; and the entries of a key
are found through the index. Both are written in one batch. The index is not logged: it follows from
the keys.

Spec: Kafka PrefixedWindowKeySchemas, PrefixedSessionKeySchemas, KIP-825.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pystreams.record import MAX_TIME
from pystreams.stores.time_segments.segments import SEGMENT_ID_BYTES

if TYPE_CHECKING:
    from pystreams.stores.dirty_map.restoring import Changes

_LONG = struct.Struct(">q")
INDEX = b"\xff"
"""What stands behind the segment in an entry of the index."""

_BEHIND_ALL_TIMES = b"\x80"
_ENTRY = b""


@dataclass(frozen=True, slots=True)
class TimeOrder:
    """By which of its bytes a key is ordered.

    Attributes:
        from_end: How many bytes before the key's end they begin; the first eight are the time that
            says in which segment it is.
        num_bytes: How many they are.
        reads_retention: Whether what is exactly as old as the retention is still read, as Kafka
            reads windows in this layout, and no others.
    """

    from_end: int
    num_bytes: int
    reads_retention: bool = False

    @property
    def prefix_bytes(self) -> int:
        """Bytes before the key in what is stored."""
        return SEGMENT_ID_BYTES + self.num_bytes

    def stored(self, segment: bytes, key: bytes) -> bytes:
        """Return under what a key's value is stored, in the segment of these eight bytes."""
        begin = len(key) - self.from_end
        return segment + key[begin : begin + self.num_bytes] + key

    def entry(self, segment: bytes, key: bytes) -> bytes:
        """Return the entry of the index for a key."""
        return segment + INDEX + key

    def entries(self, segment: bytes, low: bytes, high: bytes | None) -> tuple[bytes, bytes | None]:
        """Return bounds of the entries for keys from `low` to `high` (inclusive; None: all)."""
        first = segment + INDEX + low
        if high is None:
            return first, _LONG.pack(_LONG.unpack(segment)[0] + 1)
        return first, segment + INDEX + high + b"\x00"

    def key_of_entry(self, entry: bytes) -> bytes:
        """Return the key an entry of the index is for."""
        return entry[SEGMENT_ID_BYTES + len(INDEX) :]

    def between(self, segment: bytes, first: int, last: int) -> tuple[bytes, bytes]:
        """Return bounds of the values of some times (ms, both inclusive) in a segment."""
        end = _BEHIND_ALL_TIMES if last >= MAX_TIME else _LONG.pack(last + 1)
        return segment + _LONG.pack(max(0, first)), segment + end

    def change(self, changes: Changes, segment: bytes, key: bytes, value: bytes | None) -> None:
        """Add what writing a key means: its value, and its entry in the index."""
        changes[self.stored(segment, key)] = value
        changes[self.entry(segment, key)] = None if value is None else _ENTRY


def is_entry(stored_key: bytes) -> bool:
    """Return whether a stored key is an entry of the index."""
    return stored_key[SEGMENT_ID_BYTES] == INDEX[0]
