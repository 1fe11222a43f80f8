"""The keys of window stores: Kafka Streams' bytes, and bounds for reading many of them.

A key is the record's key, the window's start (int64, ms) and a sequence number (int32), all
big-endian. Example: key 61 (the string "a"), start 50, sequence 0 is
61 | 00 00 00 00 00 00 00 32 | 00 00 00 00.

The sequence number is 0, but for stores that retain duplicates: those count their puts, so that
two values of one key and window have two keys.

Keys differ in length, so that order of bytes is not order of (key, start): between two windows of
one key may stand windows of longer keys that begin with it. Bounds are therefore those of bytes,
and what lies between them has to be looked at. Starts are never negative.

Spec: Kafka WindowKeySchema, OrderedBytes.
"""

from __future__ import annotations

import struct

from pystreams.record import MAX_TIME
from pystreams.stores.contracts.window import Window

SUFFIX_BYTES = 12
"""Bytes of the window's start and the sequence number behind the key."""

SEQUENCE_BYTES = 4
"""Those of the sequence number, at its end."""

MAX_SEQUENCE = (1 << 31) - 1
"""The highest sequence number; after it comes 0."""

_SUFFIX = struct.Struct(">qi")
_PACK_SUFFIX = _SUFFIX.pack
_LONG = struct.Struct(">q")
_START_OF = _LONG.unpack_from
_INT = struct.Struct(">i")


def window_key(key: bytes, start: int, sequence: int = 0) -> bytes:
    """Return the store's key of a record's key and the start (ms) of its window."""
    return key + _PACK_SUFFIX(start, sequence)


def key_of(window_key: bytes) -> bytes:
    """Return the record's key."""
    return window_key[:-SUFFIX_BYTES]


def start_of(window_key: bytes) -> int:
    """Return the window's start (ms)."""
    start: int = _START_OF(window_key, len(window_key) - SUFFIX_BYTES)[0]
    return start


def sequence_of(window_key: bytes) -> int:
    """Return the sequence number."""
    sequence: int = _INT.unpack_from(window_key, len(window_key) - 4)[0]
    return sequence


def window_of(start: int, size_ms: int) -> Window:
    """Return a window of a size; one that would end after all time ends with it."""
    return Window(start, min(start + size_ms, MAX_TIME))


def bounds_of_key(key: bytes, time_from: int, time_to: int) -> tuple[bytes, bytes]:
    """Return bounds, both inclusive, of one key's windows that start in a stretch of time (ms).

    What lies between and is as long as the bounds is one of them; what is longer is another key's.
    """
    low = key + _PACK_SUFFIX(max(0, time_from), 0)
    return low, key + _PACK_SUFFIX(time_to, MAX_SEQUENCE)


def lower_bound(key_from: bytes) -> bytes:
    """Return bytes that no window of a key is below, if the key is not below `key_from`.

    Only the lowest start will do: a longer key that goes on with zeros is below later ones.
    """
    return key_from + bytes(SUFFIX_BYTES)


def upper_bound(key_to: bytes, time_to: int) -> bytes:
    """Return bytes that no window is above, if its key is not above `key_to` and it starts in time.

    A key below `key_to` either differs from it, and then its windows are below as well; or it is
    a beginning of it, and then the start that follows may be above the rest of `key_to`. So the
    bound is the highest of all its beginnings with the last start.

    Differs from Kafka: its bound misses a short key where the longer one goes on with bytes that
    are not above the start's first, as zeros; and counts no key without bytes.

    Args:
        key_to: The highest key.
        time_to: The last start (ms).
    """
    suffix = _PACK_SUFFIX(time_to, MAX_SEQUENCE)
    return max(key_to[:length] + suffix for length in range(len(key_to) + 1))
