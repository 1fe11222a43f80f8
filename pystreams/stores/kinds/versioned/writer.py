"""What a put changes in the rows of a versioned store.

`versioned_reader` says where versions are and what always holds; here is how a put keeps it so.
A put replaces the version of the same timestamp, if there is one. Otherwise it cuts the version
that was valid at its timestamp, which moves to the segment of its new end, and takes the rest of
its time.

Spec: KIP-889 "Proposed Changes"; Kafka RocksDBVersionedStore.doPut.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pystreams.stores.contracts.versioned import PUT_RETURN_CODE_VALID_TO_UNDEFINED
from pystreams.stores.kinds.versioned.reader import (
    LATEST_PREFIX,
    RowReader,
    SegmentIndex,
    latest_timestamp,
    pack_latest,
)
from pystreams.stores.kinds.versioned.segment import (
    find,
    min_timestamp,
    new_row,
    next_timestamp,
    with_earliest,
    with_inserted,
    with_latest,
    with_updated,
)
from pystreams.stores.time_segments.segments import Segments, segment_prefix

RowWriter = Callable[[bytes, bytes | None], None]
"""Writes a row under a stored key; None deletes."""


@dataclass(frozen=True, slots=True)
class VersionWriter:
    """Applies puts to rows; of a store, or of a batch being restored.

    Every put is one that history retention admits, so that the segments it touches are live.

    Attributes:
        index: Where there are rows; kept up to date.
        read: Returns rows, with what was written before.
    """

    segments: Segments
    index: SegmentIndex
    read: RowReader
    write: RowWriter

    def put(self, key: bytes, value: bytes | None, timestamp: int) -> int:
        """Put a version; return its end (ms), or that it is the latest.

        Differs from Kafka: a tombstone at the very timestamp of the latest value is remembered
        like any other. Kafka deletes the value only, and a late put then becomes the latest.
        """
        latest_key = LATEST_PREFIX + key
        latest = self.read(latest_key)
        if latest is None:
            return self._put_into_history(key, value, timestamp, None)
        newest = latest_timestamp(latest)
        if timestamp < newest:
            return self._put_into_history(key, value, timestamp, newest)
        if timestamp > newest:
            self._append(key, newest, timestamp, latest[8:])
        elif value is None:
            self._put_tombstone(key, timestamp)
        self.write(latest_key, None if value is None else pack_latest(value, timestamp))
        return PUT_RETURN_CODE_VALID_TO_UNDEFINED

    def _put_into_history(
        self, key: bytes, value: bytes | None, timestamp: int, end: int | None
    ) -> int:
        """Put a version that is older than the latest value, or of a key that has none.

        Args:
            timestamp: The version's beginning.
            end: Its end as far as it is known: the latest value's timestamp, or None. Each row
                passed on the way back brings it closer.
        """
        put_segment = self.segments.id_of(timestamp)
        for segment_id in self.index.newest_first(put_segment):
            row = self.read(segment_prefix(segment_id) + key)
            if row is None:
                continue
            if next_timestamp(row) <= timestamp:
                break
            begins = min_timestamp(row)
            if begins <= timestamp:
                return self._put_into_row(key, value, timestamp, (segment_id, row))
            end = begins
        if end is not None:
            self._put_before(key, value, timestamp, end)
            return end
        if value is None:
            self._put_tombstone(key, timestamp)
        else:
            self.write(LATEST_PREFIX + key, pack_latest(value, timestamp))
        return PUT_RETURN_CODE_VALID_TO_UNDEFINED

    def _put_into_row(
        self, key: bytes, value: bytes | None, timestamp: int, place: tuple[int, bytes]
    ) -> int:
        """Put a version between those of a row.

        The version before it now ends at `timestamp`, which may be in an older segment.
        """
        segment_id, row = place
        found = find(row, timestamp)
        if found.valid_from == timestamp:
            row = with_updated(row, found.position, timestamp, value)
        elif self.segments.id_of(timestamp) == segment_id:
            row = with_inserted(row, found.position, timestamp, value)
        else:
            self._append(key, found.valid_from, timestamp, found.value)
            row = with_updated(row, found.position, timestamp, value)
        self.write(segment_prefix(segment_id) + key, row)
        return found.valid_to

    def _put_before(self, key: bytes, value: bytes | None, timestamp: int, end: int) -> None:
        """Put a version that ends where the next newer one begins, and overlaps none before it."""
        stored_key, row = self._row_of(key, end)
        if row is None:
            row = new_row(value, timestamp, end)
        elif next_timestamp(row) <= timestamp:
            row = with_latest(row, timestamp, end, value)
        else:
            row = with_earliest(row, timestamp, value)
        self.write(stored_key, row)

    def _put_tombstone(self, key: bytes, timestamp: int) -> None:
        """Remember a tombstone that is the latest of its key."""
        stored_key, row = self._row_of(key, timestamp)
        if row is None:
            self.write(stored_key, new_row(None, timestamp, timestamp))
        elif (ends := next_timestamp(row)) != timestamp:
            self.write(stored_key, with_latest(row, ends, timestamp, None))

    def _append(self, key: bytes, valid_from: int, valid_to: int, value: bytes | None) -> None:
        """Move a version into the segment of its end, as the newest of its row there."""
        stored_key, row = self._row_of(key, valid_to)
        if row is None:
            row = new_row(value, valid_from, valid_to)
        else:
            row = with_latest(row, valid_from, valid_to, value)
        self.write(stored_key, row)

    def _row_of(self, key: bytes, timestamp: int) -> tuple[bytes, bytes | None]:
        """Return the key of the row in a timestamp's segment, and the row if there is one."""
        segment_id = self.segments.id_of(timestamp)
        self.index.add(segment_id)
        stored_key = segment_prefix(segment_id) + key
        return stored_key, self.read(stored_key)
