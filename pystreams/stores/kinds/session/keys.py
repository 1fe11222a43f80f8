"""The bytes a session is kept under, and the bounds that find sessions.

    key | end (int64, big-endian, ms) | start (int64, big-endian, ms)

The end stands first because a search asks for sessions that end at or after a moment: of one key
those are neighbours, and the segment a session belongs to is that of its end. Example: the session
of the key "a" from 1 to 258 ms is kept under

    61 00 00 00 00 00 00 01 02 00 00 00 00 00 00 00 01

A changelog and a topic of sessions have the same key. Keys of different lengths interleave: what
lies between two bounds may belong to another key, and `is_found` has the last word.

Spec: Kafka SessionKeySchema, OrderedBytes.
"""

from __future__ import annotations

import struct

from pystreams.record import MAX_TIME
from pystreams.stores.contracts.window import Window

SUFFIX_BYTES = 16
"""Bytes of end and start behind a key."""

_TIMES = struct.Struct(">qq")
_pack_times = _TIMES.pack
_unpack_times = _TIMES.unpack_from
_MIN_KEY_BYTES = 1


def session_key(key: bytes, start: int, end: int) -> bytes:
    """Return what a session of a key from `start` to `end` (ms) is kept under."""
    return key + _pack_times(end, start)


def key_of(session: bytes) -> bytes:
    """Return the record's key."""
    return session[:-SUFFIX_BYTES]


def window_of(session: bytes) -> Window:
    """Return the time from the session's first to its last record."""
    end, start = _unpack_times(session, len(session) - SUFFIX_BYTES)
    return Window(start, end)


def lower_bound_of_key(key: bytes, earliest_end: int) -> bytes:
    """Return the lowest a session of `key` can have that ends at `earliest_end` (ms) or later."""
    return key + _pack_times(earliest_end, 0)


def upper_bound_of_key(key: bytes, latest_start: int) -> bytes:
    """Return the highest a session of `key` can have that starts at `latest_start` or before."""
    return key + _pack_times(MAX_TIME, latest_start)


def lower_bound(key_from: bytes) -> bytes:
    """Return the lowest a session of `key_from` or of any key after it can have."""
    return key_from + bytes(SUFFIX_BYTES)


def upper_bound(key_to: bytes, latest_start: int) -> bytes:
    """Return at least the highest a session of `key_to` or of any key before it can have.

    A key that `key_to` begins with comes before it, while its sessions may come after those of
    `key_to`: the bytes of an end may be above what `key_to` has in their place. So the bound is
    the highest of all beginnings of `key_to` with the highest end. Keys have a byte or more.

    Differs from Kafka, which misses ends close to the highest there is.
    """
    suffix = _pack_times(MAX_TIME, latest_start)
    shortest = min(len(key_to), _MIN_KEY_BYTES)
    return max(key_to[:length] + suffix for length in range(shortest, len(key_to) + 1))


def is_found(
    session: bytes,
    key_from: bytes | None,
    key_to: bytes | None,
    earliest_end: int,
    latest_start: int,
) -> bool:
    """Return whether a session is of the keys asked for and overlaps the time asked for.

    Args:
        session: What the session is kept under.
        key_from: The first key asked for; None leaves the end open.
        key_to: The last key asked for; None leaves the end open.
        earliest_end: It ends at this time (ms) or later.
        latest_start: It starts at this time (ms) or before.
    """
    end, start = _unpack_times(session, len(session) - SUFFIX_BYTES)
    if end < earliest_end or start > latest_start:
        return False
    key = session[:-SUFFIX_BYTES]
    return (key_from is None or key >= key_from) and (key_to is None or key <= key_to)
