"""One row of a versioned store's segment: all versions of a key that ended in that segment.

    int64 nextTimestamp | int64 minTimestamp | entries, newest first | values, oldest first

All numbers are big-endian, timestamps are milliseconds. `nextTimestamp` is the end of the newest
version in the row, `minTimestamp` the beginning of the oldest. An entry is an int64 timestamp, the
beginning of its version (its end is the beginning of the next newer one), and an int32 size of the
value; a negative size is a tombstone: no value from then on. There is no count: the entry whose
timestamp is `minTimestamp` is the last one.

Example: "a" from 1 to 3, nothing from 3 to 5, "bc" from 5 to 9:

    00 00 00 00 00 00 00 09                  nextTimestamp 9
    00 00 00 00 00 00 00 01                  minTimestamp 1
    00 00 00 00 00 00 00 05  00 00 00 02     from 5: two bytes
    00 00 00 00 00 00 00 03  ff ff ff ff     from 3: a tombstone
    00 00 00 00 00 00 00 01  00 00 00 01     from 1: one byte
    61  62 63                                "a", "bc"

A tombstone that is the latest of its key has no end to choose a segment by. If no version ends in
it, it is kept in a row of its own in the segment of its own timestamp, with `nextTimestamp` equal
to `minTimestamp`: a degenerate row, in which nothing is ever found, but which tells a late put
where its version ends.

Rows are values: each function returns a new one. Appending the newest version, the rule, copies
bytes and parses nothing.

Spec: KIP-889; Kafka RocksDBVersionedStoreSegmentValueFormatter.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

from pystreams.kernel.loggers import get_logger

_BOUNDS = struct.Struct(">qq")
_ENTRY = struct.Struct(">qi")
_LONG = struct.Struct(">q")
_TOMBSTONE_SIZE = -1
BOUNDS_BYTES = _BOUNDS.size
"""What a row begins with: its two bounds."""

_log = get_logger(__name__)


class FoundVersion(NamedTuple):
    """A version in a row.

    Attributes:
        position: Its place in the row, 0 for the newest.
        valid_from: Its beginning (ms).
        valid_to: Its end (ms).
        value: Its value, or None for a tombstone.
    """

    position: int
    valid_from: int
    valid_to: int
    value: bytes | None


def next_timestamp(row: bytes) -> int:
    """Return the end of the newest version (ms)."""
    timestamp: int = _LONG.unpack_from(row)[0]
    return timestamp


def min_timestamp(row: bytes) -> int:
    """Return the beginning of the oldest version (ms)."""
    timestamp: int = _LONG.unpack_from(row, 8)[0]
    return timestamp


def new_row(value: bytes | None, valid_from: int, valid_to: int) -> bytes:
    """Return a row of one version; degenerate if it is a tombstone that ends where it begins."""
    return _BOUNDS.pack(valid_to, valid_from) + _entry(valid_from, value) + (value or b"")


def find(row: bytes, timestamp: int) -> FoundVersion:
    """Return the version, or tombstone, that is valid at a time (ms) within the row.

    Raises:
        ValueError: The time is not between the row's `minTimestamp` and `nextTimestamp`.
    """
    ends, begins = _BOUNDS.unpack_from(row)
    if not begins <= timestamp < ends:
        message = f"time {timestamp} is not in the row, which covers {begins} to {ends}"
        raise ValueError(message)
    unpack = _ENTRY.unpack_from
    begin_of_value = len(row)
    position = 0
    while True:
        valid_from, size = unpack(row, 16 + 12 * position)
        if size > 0:
            begin_of_value -= size
        if valid_from <= timestamp:
            value = None if size < 0 else row[begin_of_value : begin_of_value + size]
            return FoundVersion(position, valid_from, ends, value)
        ends = valid_from
        position += 1


def find_all(row: bytes, from_time: int | None, to_time: int | None) -> list[FoundVersion]:
    """Return the versions valid somewhere between two times (ms, inclusive), newest first.

    Tombstones are not among them. None leaves an end open.
    """
    return [
        found
        for found in newest_first(row)
        if found.value is not None
        and (to_time is None or found.valid_from <= to_time)
        and (from_time is None or found.valid_to > from_time)
    ]


def newest_first(row: bytes) -> Iterator[FoundVersion]:
    """Iterate over versions and tombstones, the newest first."""
    ends, begins = _BOUNDS.unpack_from(row)
    unpack = _ENTRY.unpack_from
    values_end = len(row)
    index = 0
    while True:
        timestamp, size = unpack(row, 16 + 12 * index)
        if size < 0:
            value = None
        else:
            value = row[values_end - size : values_end]
            values_end -= size
        yield FoundVersion(index, timestamp, ends, value)
        if timestamp == begins:
            return
        ends = timestamp
        index += 1


def with_latest(row: bytes, valid_from: int, valid_to: int, value: bytes | None) -> bytes:
    """Return the row with a version added after all others.

    A gap between the row's end and the new version's beginning becomes a tombstone. Versions that
    begin at or after the new one are dropped with a warning: only a store whose writer failed
    between two rows has such, and ours writes them together.
    """
    ends, begins = _BOUNDS.unpack_from(row)
    if valid_from < ends:
        return _with_latest_instead(row, valid_from, valid_to, value)
    if ends == begins:
        if valid_from == ends:
            return new_row(value, valid_from, valid_to)
        entries = _entry(valid_from, value)  # The tombstone of the row covers the gap.
    elif valid_from == ends:
        entries = _entry(valid_from, value)
    else:
        entries = _entry(valid_from, value) + _entry(ends, None)
    bounds, others = _BOUNDS.pack(valid_to, begins), memoryview(row)[BOUNDS_BYTES:]
    return b"".join((bounds, entries, others, value or b""))  # The row is copied once.


def with_earliest(row: bytes, timestamp: int, value: bytes | None) -> bytes:
    """Return the row with a version added before all others; it ends where the oldest begins."""
    ends, begins = _BOUNDS.unpack_from(row)
    if ends == begins:
        return new_row(value, timestamp, ends)
    return _row(ends, [*_versions(row), (timestamp, value)])


def with_inserted(row: bytes, index: int, timestamp: int, value: bytes | None) -> bytes:
    """Return the row with a version added at a place (0 for the newest).

    The caller sees to it that the timestamp fits between its neighbours.
    """
    versions = _versions(row)
    versions.insert(index, (timestamp, value))
    return _row(next_timestamp(row), versions)


def with_updated(row: bytes, index: int, timestamp: int, value: bytes | None) -> bytes:
    """Return the row with the version at a place replaced; the timestamp may move as well."""
    versions = _versions(row)
    versions[index] = (timestamp, value)
    return _row(next_timestamp(row), versions)


def _with_latest_instead(row: bytes, valid_from: int, valid_to: int, value: bytes | None) -> bytes:
    versions = _versions(row)
    kept = [version for version in versions if version[0] < valid_from]
    _log.warning(
        "versioned store: a segment overlaps a newer one, left by a writer that failed; mended",
        versions_dropped=len(versions) - len(kept),
    )
    if not kept:
        return new_row(value, valid_from, valid_to)
    return _row(valid_to, [(valid_from, value), *kept])


def _entry(timestamp: int, value: bytes | None) -> bytes:
    return _ENTRY.pack(timestamp, _TOMBSTONE_SIZE if value is None else len(value))


def _row(ends: int, versions: list[tuple[int, bytes | None]]) -> bytes:
    """Return the row of versions, newest first."""
    return b"".join(
        [
            _BOUNDS.pack(ends, versions[-1][0]),
            *[_entry(timestamp, value) for timestamp, value in versions],
            *[value for _, value in reversed(versions) if value],
        ]
    )


def _versions(row: bytes) -> list[tuple[int, bytes | None]]:
    return [(found.valid_from, found.value) for found in newest_first(row)]
