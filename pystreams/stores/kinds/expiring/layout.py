"""The layout of rows that expire: each under its key, and its key in order of time.

    00 | int64 time | key      nothing: the index
    01 | key                   int64 timestamp | value, as in every timestamped store

The time of an entry is the timestamp of its row, or an earlier one that the row had before. Times
are milliseconds; one below 0, which stands for an unknown timestamp, counts as 0. Example, the key
"a" (61) with the value "v" (76) written at 50:

    00 0000000000000032 61
    01 61                      0000000000000032 76

The changelog has the plain key and value, and the timestamp as the record's own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pystreams.record import ConsumedMessage
from pystreams.stores.dirty_map.restoring import TIMESTAMP_BYTES, Changes
from pystreams.stores.files.metadata import pack_long, unpack_long

if TYPE_CHECKING:
    from collections.abc import Callable

ROW = b"\x01"
"""Begins the stored keys of rows."""
ROWS_END = b"\x02"
INDEX = b"\x00"
"""Begins those of the index."""

_KEY_AT = len(INDEX) + TIMESTAMP_BYTES


def index_key(timestamp: int, key: bytes) -> bytes:
    """Return the entry of a key in order of time."""
    return INDEX + pack_long(max(timestamp, 0)) + key


def indexed_time(entry: bytes) -> int:
    """Return the time (ms) of an entry."""
    time: int = unpack_long(entry, len(INDEX))[0]
    return time


def indexed_key(entry: bytes) -> bytes:
    """Return the key of an entry."""
    return entry[_KEY_AT:]


def timestamp_of(stored: bytes) -> int:
    """Return the timestamp (ms) of a row; 0 for one that is not known."""
    timestamp: int = unpack_long(stored)[0]
    return max(0, timestamp)


def row_changes(messages: Sequence[ConsumedMessage], saw: Callable[[int], None]) -> Changes:
    """Return what changelog records change: the last of each key its row, and the index.

    Rows that were there before keep their entries as well; what becomes of them is seen when they
    are due.

    Args:
        saw: Called with the highest of their timestamps (ms).
    """
    last = {key: message for message in messages if (key := message.key()) is not None}
    changes: Changes = {}
    for key, message in last.items():
        value, timestamp = message.value(), message.timestamp()[1]
        if value is None:
            changes[ROW + key] = None
        else:
            changes[ROW + key] = pack_long(timestamp) + value
            changes[index_key(timestamp, key)] = b""
    saw(max((message.timestamp()[1] for message in messages), default=-1))
    return changes
