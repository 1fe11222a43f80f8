"""Time cut into segments, so that what is too old goes away a segment at a time.

A segment covers `interval_ms`; its id is timestamp // interval_ms. Windows, sessions and versions
are stored by segment: the key in the store is the segment's id (int64, big-endian) and then
Kafka Streams' key, in memory as on disk, so that one ordered walk goes segment by segment. In the
RocksDB engine of window and session stores the prefix chooses the column family and is not stored;
in versioned stores it is part of the key on disk, as in Kafka Streams.

Invariants:
- Stream time never falls, but for `rollback`, which takes it back to the last commit.
- A segment is live while it may hold a record that is not older than the retention:
  id >= (stream time - retention_ms) // interval_ms. Nothing is written into or read from one that
  is not live.

Spec: Kafka AbstractSegments, KIP-889 "Proposed Changes" (segments of versioned stores).
"""

from __future__ import annotations

import struct
from collections.abc import Callable

from pystreams.record import MAX_TIME

_ID = struct.Struct(">q")
SEGMENT_ID_BYTES = 8
"""Bytes of the segment's id in front of a stored key."""

NO_TIME = -1
"""Stream time of a store that has seen no record."""


class Segments:
    """Which segments of one store are alive. Belongs to the thread of the store.

    Args:
        retention_ms: How long records are kept, in stream time.
        interval_ms: What one segment covers.
        reads_while_live: Whether the owner reads all that is live, however old.
        too_old_by: By how much (ms) what is not read any more is older than the retention.
        spare_ms: How much longer they are kept as long as nobody has said what is still to be sent
            on: while the store is restored, and in a standby.

    Attributes:
        stream_time: The highest timestamp (ms) the store was given; `NO_TIME` before the first.
        committed_stream_time: What it was at the last commit; readers of committed data go by it.
        engine_time: The engine of a transactional store holds nothing of a later time (ms).
        kept_from: What is of this time (ms) or later is kept beyond the retention, because it is
            still to be sent on; `MAX_TIME` where nothing is.
        oldest_live: The id of the oldest segment that is live; never below 0.
    """

    __slots__ = (
        "_kept_ms",
        "_moves_at",
        "_spare_ms",
        "committed_stream_time",
        "engine_time",
        "interval_ms",
        "kept_from",
        "oldest_live",
        "reads_while_live",
        "retention_ms",
        "stream_time",
        "too_old_by",
    )

    def __init__(
        self,
        retention_ms: int,
        interval_ms: int,
        spare_ms: int = 0,
        *,
        reads_while_live: bool = False,
        too_old_by: int = 1,
    ) -> None:
        self._kept_ms = retention_ms + spare_ms
        self._spare_ms = spare_ms
        self.retention_ms = retention_ms
        self.interval_ms = interval_ms
        self.reads_while_live = reads_while_live
        self.too_old_by = too_old_by
        self.stream_time = NO_TIME
        self.committed_stream_time = NO_TIME
        self.engine_time = NO_TIME
        self.kept_from = MAX_TIME
        self.oldest_live = 0
        self._moves_at = interval_ms + self._kept_ms

    @property
    def oldest_readable(self) -> int:
        """The oldest time (ms) that the owner reads; never below 0."""
        if self.reads_while_live:
            return self.oldest_live * self.interval_ms
        return max(0, self.stream_time - self.retention_ms + self.too_old_by)

    def id_of(self, timestamp: int) -> int:
        """Return the id of the segment a timestamp (ms) falls into."""
        return timestamp // self.interval_ms

    def keep_from(self, time: int) -> bool:
        """Say what is to be kept however old; return whether that moves the oldest live segment."""
        self._kept_ms, self.kept_from = self.retention_ms, time
        return self._moved()

    def advance(self, timestamp: int) -> bool:
        """Take note of a timestamp (ms); return whether a segment may have expired by it."""
        if timestamp <= self.stream_time:
            return False
        self.stream_time = timestamp
        return timestamp >= self._moves_at and self._moved()

    def reopen(self, committed_stream_time: int, newest_segment: int | None) -> None:
        """Go on from where the store was at its last commit.

        Differs from Kafka, which starts without a stream time: until the next record it gives out
        expired ones, and takes puts that an undisturbed run drops.

        Args:
            committed_stream_time: What is committed beside the data (ms); `NO_TIME` if nothing is.
            newest_segment: The newest segment that was found, None in an empty store. The stream
                time has reached its first millisecond, whatever is beside the data: they may have
                been written by an earlier version, or through, ahead of a commit that never came.
        """
        self._kept_ms, self.kept_from = self.retention_ms + self._spare_ms, MAX_TIME
        stream_time = max(committed_stream_time, self._begin_of(newest_segment))
        self.stream_time = self.committed_stream_time = stream_time
        self.engine_time = stream_time
        if newest_segment is not None:  # Of which the time that is committed may know a part only.
            self.engine_time = max(stream_time, (newest_segment + 1) * self.interval_ms - 1)
        self._moved()

    def commit(self) -> None:
        """Keep the stream time as it is: what was written is in the engine."""
        self.committed_stream_time = self.stream_time
        self.engine_time = max(self.engine_time, self.stream_time)

    def rollback(self, newest_segment: Callable[[], int | None]) -> None:
        """Take the stream time back to the last commit: what moved it did not happen.

        Records are processed again, and none may be too late that was not before. What a store has
        written through did happen: as after `reopen`, its newest segment tells how far that went.

        Args:
            newest_segment: Returns it; asked only when the time has moved.
        """
        if self.stream_time != self.committed_stream_time:
            written = self._begin_of(newest_segment())
            self.stream_time = max(self.committed_stream_time, written)
            self._moved()

    def _moved(self) -> bool:
        """See what is live now, and when that may move next; return whether it moved."""
        before = self.oldest_live
        kept_from = min(self.stream_time - self._kept_ms, self.kept_from)
        self.oldest_live = oldest_live = max(0, kept_from) // self.interval_ms
        self._moves_at = (oldest_live + 1) * self.interval_ms + self._kept_ms
        return oldest_live != before

    def _begin_of(self, segment: int | None) -> int:
        return NO_TIME if segment is None else segment * self.interval_ms


segment_prefix = _ID.pack
"""Returns the eight bytes that stand for a segment's id in front of a stored key."""


def segment_id_of(stored_key: bytes) -> int:
    """Return the segment a stored key is in."""
    segment_id: int = _ID.unpack_from(stored_key)[0]
    return segment_id
