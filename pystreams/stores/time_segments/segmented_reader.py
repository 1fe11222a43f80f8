"""Bytes-level reads of keys that are kept by segment: what the owner and other threads share.

Segments are walked one after another, with a range in each; so a walk over several of them may see
a commit that came in between. What is older than the retention is not read, even while its segment
is still there. Who sees commits only goes by the stream time of the last one.

Spec: Kafka SegmentIterator, AbstractRocksDBSegmentedBytesStore.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from pystreams.stores.time_segments.segments import SEGMENT_ID_BYTES, Segments, segment_prefix
from pystreams.stores.typed_stores.views import BytesReader, sees_commits_only, view_of

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from pystreams.config.guarantee import IsolationLevel
    from pystreams.stores.dirty_map.buffered import BufferedKeyValueStore


class BytesRange(Protocol):
    """Reads a stretch of stored keys."""

    def __call__(
        self, start: bytes | None, end: bytes | None, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        """Iterate from `start` (inclusive) to `end` (exclusive), in or against key order."""


class StreamTime(Protocol):
    """What a reader goes by."""

    @property
    def retention_ms(self) -> int:
        """How long records are kept, in stream time."""

    @property
    def interval_ms(self) -> int:
        """What one segment covers."""

    @property
    def stream_time(self) -> int:
        """The highest timestamp (ms) there was; -1 before the first."""


class CommittedTime:
    """The stream time of a store's committed data."""

    __slots__ = ("_segments", "interval_ms", "retention_ms")

    def __init__(self, segments: Segments) -> None:
        self._segments = segments
        self.interval_ms = segments.interval_ms
        self.retention_ms = segments.retention_ms

    @property
    def stream_time(self) -> int:
        """The highest timestamp (ms) of what is committed."""
        return self._segments.committed_stream_time


class SegmentedReader:
    """Reads by key and time.

    Args:
        reader: Reads stored keys.
        time: Stream time, retention and interval.
    """

    __slots__ = ("_interval_ms", "_reader", "_time")

    def __init__(self, reader: BytesReader, time: StreamTime) -> None:
        self._reader = reader
        self._time = time
        self._interval_ms = time.interval_ms

    def oldest_readable(self) -> int:
        """Return the oldest time (ms) that is not older than the retention; never below 0."""
        time = self._time
        return max(0, time.stream_time - time.retention_ms + 1)

    def newest_readable(self) -> int:
        """Return the latest time (ms) there may be: the last of the newest segment.

        After a restart the stream time is a lower bound, but one of the newest segment.
        """
        interval_ms = self._interval_ms
        return self._time.stream_time // interval_ms * interval_ms + interval_ms - 1

    def get(self, key: bytes, time: int) -> bytes | None:
        """Return what is stored under a key of a time (ms), or None."""
        if time < self.oldest_readable():
            return None
        return self._reader.get(segment_prefix(time // self._interval_ms) + key)

    def range(
        self,
        times: tuple[int, int],
        low: bytes,
        high: bytes | None,
        *,
        reverse: bool = False,
    ) -> Generator[tuple[bytes, bytes], None, None]:
        """Iterate over the segments of some times, and over some keys in each.

        Gives more than was asked for: the caller leaves out what is of another time, or older than
        `oldest_readable`.

        Args:
            times: First and last time (ms), both inclusive.
            low: First key in each segment.
            high: Last key in each segment, inclusive; None leaves the end open.
            reverse: Whether to go from the newest segment to the oldest, highest keys first.
        """
        first_time = max(times[0], self.oldest_readable())
        first, wanted = first_time // self._interval_ms, times[1] // self._interval_ms
        last = self._last_segment(times[1])
        segment_id = last if reverse else first
        while first <= segment_id <= last:
            prefix = segment_prefix(segment_id)
            end = segment_prefix(segment_id + 1) if high is None else prefix + high + b"\x00"
            read = self._range_from(first_time)
            for key, stored in read(prefix + low, end, reverse=reverse):
                yield key[SEGMENT_ID_BYTES:], stored
            segment_id += -1 if reverse else 1
            if not reverse and last < wanted:
                last = self._last_segment(times[1])  # The owner may have moved it meanwhile.

    def _range_from(self, first_time: int) -> BytesRange:
        """Return what iterates over stored keys of a time (ms) or later."""
        return self._reader.range

    def _last_segment(self, time_to: int) -> int:
        """Return the newest segment there may be, up to a time (ms)."""
        return min(time_to, max(0, self._time.stream_time)) // self._interval_ms


class OwnersReader(SegmentedReader):
    """Reads for the owner of a transactional store, which knows until when its engine has data.

    What was written since the last commit, as the other side of a join mostly was, is then read
    without the engine: to open an iterator there costs more than all the rest.

    Args:
        buffer: The store.
        segments: Its segments.
    """

    __slots__ = ("_buffer", "_segments")

    def __init__(self, buffer: BufferedKeyValueStore, segments: Segments) -> None:
        super().__init__(buffer, segments)
        self._buffer = buffer
        self._segments = segments

    def _range_from(self, first_time: int) -> BytesRange:
        if first_time > self._segments.engine_time:
            return self._buffer.uncommitted_range
        return self._buffer.range


def owners_reader(buffer: BufferedKeyValueStore, segments: Segments) -> SegmentedReader:
    """Return what the owner of a store reads with."""
    return (OwnersReader if buffer.transactional else SegmentedReader)(buffer, segments)


def segmented_view(
    store: BufferedKeyValueStore, segments: Segments, isolation_level: IsolationLevel
) -> SegmentedReader:
    """Return the view of a store at an isolation level, for other threads."""
    committed = sees_commits_only(store, isolation_level)
    time = CommittedTime(segments) if committed else segments
    return SegmentedReader(view_of(store, isolation_level), time)
