"""Where the versions of a key are stored, and how they are found.

A version lives in one of two places:
- the latest one under the segment id -1 (eight bytes ff), as int64 timestamp (big-endian, ms) and
  value: "v" from 1 on, key "k", is stored as

      ff ff ff ff ff ff ff ff 6b  ->  00 00 00 00 00 00 00 01 76

- an older one in the segment its END falls into, in the key's row there (`versioned_segment`).
  A tombstone is the end of a version; only one that ends none has a row of its own.

Invariants, for each key:
- The latest value is newer than whatever is in segments; a tombstone is never the latest value.
- Rows do not overlap, and those of newer segments hold newer versions.
- A version only ever moves from the latest value into a segment, and from a newer segment into an
  older one. Puts take note of the older segment, write there, and write the newer place last;
  reads look into the newer place first, and once more from the start if a segment came meanwhile.
  So a reader of another thread finds a version before its move or after it, never neither. (A
  rollback takes all back at once: it may hide a version from a read that is under way.)

Spec: KIP-889 "Proposed Changes"; Kafka RocksDBVersionedStore.get, LogicalSegmentIterator.
"""

from __future__ import annotations

import struct
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass

from pystreams.stores.kinds.versioned.segment import find, find_all, min_timestamp, next_timestamp
from pystreams.stores.time_segments.segments import Segments, segment_prefix

RowReader = Callable[[bytes], bytes | None]
"""Returns the row under a stored key, or None."""

Version = tuple[bytes, int, int | None]
"""(value, timestamp, end; None for the latest)."""

ExpiredRead = Callable[[int, int], None]
"""Hears of a read before the beginning of history that found nothing: (its time, stream time)."""

LATEST_PREFIX = segment_prefix(-1)
"""The segment of the latest values; above all others in order of bytes."""

_LONG = struct.Struct(">q")


def pack_latest(value: bytes, timestamp: int) -> bytes:
    """Return what is stored for a latest value."""
    return _LONG.pack(timestamp) + value


def latest_timestamp(stored: bytes) -> int:
    """Return the timestamp (ms) of a stored latest value."""
    timestamp: int = _LONG.unpack_from(stored)[0]
    return timestamp


class SegmentIndex:
    """Which segments hold rows. Belongs to the store's thread; others may iterate.

    An id whose rows are gone does no harm: there is nothing to find. The tuple is replaced, never
    changed, so that a reader walks one and the same.

    Attributes:
        ids: The segments' ids, ascending.
    """

    __slots__ = ("ids",)

    def __init__(self) -> None:
        self.ids: tuple[int, ...] = ()

    def add(self, segment_id: int) -> None:
        """Take note of a segment that gets a row."""
        ids = self.ids
        if ids and ids[-1] == segment_id:
            return
        position = bisect_left(ids, segment_id)
        if position == len(ids) or ids[position] != segment_id:
            self.ids = (*ids[:position], segment_id, *ids[position:])

    def drop_below(self, segment_id: int) -> None:
        """Forget segments that are gone for good."""
        if self.ids and self.ids[0] < segment_id:
            self.ids = self.ids[bisect_left(self.ids, segment_id) :]

    def newest_first(self, oldest: int) -> tuple[int, ...]:
        """Return the segments down to `oldest`, inclusive."""
        ids = self.ids
        return ids[bisect_left(ids, oldest) :][::-1]


@dataclass(slots=True)
class VersionReader:
    """Reads versions: for the store's owner, or for other threads.

    Attributes:
        index: Where there are rows.
        segments: Stream time and history retention.
        committed: Go by the stream time of the last commit, not by the present one.
        expired_read: Hears of reads of what history has left; in the reader's thread.
    """

    read: RowReader
    index: SegmentIndex
    segments: Segments
    committed: bool = False
    expired_read: ExpiredRead = lambda _time, _stream_time: None

    def history_begins(self) -> int:
        """Return the oldest time (ms) that history retention covers; may be negative."""
        segments = self.segments
        now = segments.committed_stream_time if self.committed else segments.stream_time
        return now - segments.retention_ms

    def latest(self, key: bytes) -> Version | None:
        """Return the latest version of a key, or None."""
        stored = self.read(LATEST_PREFIX + key)
        return None if stored is None else (stored[8:], latest_timestamp(stored), None)

    def as_of(self, key: bytes, timestamp: int) -> Version | None:
        """Return the version of a key that is valid at a time (ms), or None.

        Before the beginning of history the latest version, if it is as old, and else nothing.
        """
        while True:
            ids = self.index.ids
            found = self._look_as_of(key, timestamp)
            if found is not None or self.index.ids is ids:
                return found

    def between(self, key: bytes, from_time: int | None, to_time: int | None) -> list[Version]:
        """Return the versions of a key valid somewhere between two times, newest first.

        A version that a writer moves meanwhile is found once. Differs from Kafka, which does not
        look into segments newer than `to_time`, and misses the version that is valid at
        `to_time` when it ended in one of those.

        Args:
            from_time: The first millisecond; None leaves it open.
            to_time: The last millisecond; None leaves it open.
        """
        while True:
            ids = self.index.ids
            found = self._look_between(key, from_time, to_time)
            if self.index.ids is ids:
                return found

    def _look_as_of(self, key: bytes, timestamp: int) -> Version | None:
        latest = self.latest(key)
        if latest is not None and latest[1] <= timestamp:
            return latest
        history_begins = self.history_begins()
        if timestamp < history_begins:
            self.expired_read(timestamp, history_begins + self.segments.retention_ms)
            return None
        read = self.read
        for segment_id in self.index.newest_first(self.segments.id_of(timestamp)):
            row = read(segment_prefix(segment_id) + key)
            if row is None:
                continue
            if next_timestamp(row) <= timestamp:
                return None
            if min_timestamp(row) <= timestamp:
                _, valid_from, valid_to, value = find(row, timestamp)
                return None if value is None else (value, valid_from, valid_to)
        return None

    def _look_between(
        self, key: bytes, from_time: int | None, to_time: int | None
    ) -> list[Version]:
        versions: list[Version] = []
        latest = self.latest(key)
        if latest is not None and (to_time is None or latest[1] <= to_time):
            versions.append(latest)
        history_begins = self.history_begins()
        if to_time is not None and to_time < history_begins:
            if not versions:
                self.expired_read(to_time, history_begins + self.segments.retention_ms)
            return versions
        id_of = self.segments.id_of
        oldest_live = id_of(max(0, history_begins))
        oldest = oldest_live if from_time is None else max(oldest_live, id_of(from_time))
        for segment_id in self.index.newest_first(oldest):
            row = self.read(segment_prefix(segment_id) + key)
            if row is None:
                continue
            for found in find_all(row, from_time, to_time):
                if found.value is not None and (not versions or found.valid_from < versions[-1][1]):
                    versions.append((found.value, found.valid_from, found.valid_to))
        return versions
