"""Bytes-level reads of keys that are kept by segment: what the owner and other threads share.

Segments are walked one after another, with a range in each; so a walk over several of them may see
a commit that came in between. What is older than the retention is not read, even while its segment
is still there. Who sees commits only goes by the stream time of the last one.

Spec: Kafka SegmentIterator, AbstractRocksDBSegmentedBytesStore.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from pystreams.record import MAX_TIME
from pystreams.stores.dirty_map.merged_range import merged_entries
from pystreams.stores.time_segments.segments import (
    SEGMENT_ID_BYTES,
    Segments,
    segment_id_of,
    segment_prefix,
)
from pystreams.stores.typed_stores.views import BytesReader, sees_commits_only, view_of

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from pystreams.config.guarantee import IsolationLevel
    from pystreams.stores.dirty_map.buffered import BufferedKeyValueStore
    from pystreams.stores.time_segments.time_order import TimeOrder
    from pystreams.stores.time_segments.uncommitted_keys import UncommittedKeys

    StoredEntries = Generator[tuple[bytes, bytes], None, None]

_MANY_SEGMENTS = 64
"""To find the next that holds anything costs about as much as to look into so few."""


class BytesRange(Protocol):
    """Reads a stretch of stored keys."""

    def __call__(
        self, start: bytes | None, end: bytes | None, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        """Iterate from `start` (inclusive) to `end` (exclusive), in or against key order."""


class CommittedTime:
    """The stream time of a store's committed data."""

    __slots__ = ("_segments", "interval_ms")

    def __init__(self, segments: Segments) -> None:
        self._segments = segments
        self.interval_ms = segments.interval_ms

    @property
    def stream_time(self) -> int:
        """The highest timestamp (ms) of what is committed."""
        return self._segments.committed_stream_time

    @property
    def oldest_readable(self) -> int:
        """The oldest time (ms) that is not older than the retention; never below 0."""
        segments = self._segments
        return max(0, self.stream_time - segments.retention_ms + segments.too_old_by)


class SegmentedReader:
    """Reads by key and time.

    Args:
        time: Stream time, retention and interval.
        order: How stored keys are laid out; None for segment and key.
    """

    __slots__ = ("_interval_ms", "_order", "_reader", "_time")

    def __init__(
        self, reader: BytesReader, time: Segments | CommittedTime, order: TimeOrder | None = None
    ) -> None:
        self._reader = reader
        self._time = time
        self._order = order
        self._interval_ms = time.interval_ms

    def oldest_readable(self) -> int:
        """Return the oldest time (ms) that is read; never below 0."""
        return self._time.oldest_readable

    def newest_readable(self) -> int:
        """Return the latest time (ms) there may be: the last of the newest segment.

        After a restart the stream time is a lower bound, but one of the newest segment.
        """
        interval_ms = self._interval_ms
        last = self._time.stream_time // interval_ms * interval_ms + interval_ms - 1
        return min(last, MAX_TIME)

    def get(self, key: bytes, time: int) -> bytes | None:
        """Return what is stored under a key of a time (ms), or None."""
        if time < self._time.oldest_readable:
            return None
        segment, order = segment_prefix(time // self._interval_ms), self._order
        return self._reader.get(segment + key if order is None else order.stored(segment, key))

    def range(
        self,
        times: tuple[int, int],
        low: bytes,
        high: bytes | None,
        *,
        reverse: bool = False,
        beyond_retention: bool = False,
    ) -> StoredEntries:
        """Iterate over the segments of some times, and over some keys in each.

        Gives more than was asked for: the caller leaves out what is of another time, or older than
        `oldest_readable`. Where all keys of a store in order of time are asked for, they come in
        that order, and none of another time.

        Args:
            times: First and last time (ms), both inclusive.
            low: First key in each segment.
            high: Last key in each segment, inclusive; None leaves the end open.
            reverse: Whether to go from the newest segment to the oldest, highest keys first.
            beyond_retention: Whether to give what is older, too, as far as it is still there.
        """
        if not beyond_retention:
            times = max(times[0], self.oldest_readable()), times[1]
        order = self._order
        if order is None:
            return self._by_key(times, low, high, reverse=reverse)
        if not low and high is None:
            return self._by_time(order, times, reverse=reverse)
        return self._through_index(order, times, (low, high), reverse=reverse)

    def entries(self, times: tuple[int, int], low: bytes, high: bytes) -> list[tuple[bytes, bytes]]:
        """Return what there is now of one record key and some times, in order of time.

        Cheaper than an iterator; what is written meanwhile does not disturb it.

        Args:
            times: See `range`.
            low: The first key, in each segment.
            high: The last key, inclusive; of the same record key, and so of the same length.
        """
        first, get, order = max(times[0], self.oldest_readable()), self._reader.get, self._order
        found: list[tuple[bytes, bytes]] = []
        for segment_id in self._segments_of((first, times[1]), reverse=False):
            prefix = segment_prefix(segment_id)
            if order is None:
                entries = self._entries_between(prefix + low, prefix + high + b"\x00")
                found += [(key[SEGMENT_ID_BYTES:], stored) for key, stored in entries]
                continue
            for entry, _ in self._entries_between(*order.entries(prefix, low, high)):
                key = order.key_of_entry(entry)
                stored = get(order.stored(prefix, key))
                assert stored is not None, "the owner's index has what is stored"
                found.append((key, stored))
        # Between them may be longer keys that begin as these do.
        return [entry for entry in found if len(entry[0]) == len(low)]

    def _by_key(
        self, times: tuple[int, int], low: bytes, high: bytes | None, *, reverse: bool
    ) -> StoredEntries:
        for segment_id in self._segments_of(times, reverse=reverse):
            prefix = segment_prefix(segment_id)
            end = segment_prefix(segment_id + 1) if high is None else prefix + high + b"\x00"
            read = self._range_from(times[0])
            for key, stored in read(prefix + low, end, reverse=reverse):
                yield key[SEGMENT_ID_BYTES:], stored

    def _by_time(self, order: TimeOrder, times: tuple[int, int], *, reverse: bool) -> StoredEntries:
        prefix_bytes = order.prefix_bytes
        for segment_id in self._segments_of(times, reverse=reverse):
            start, end = order.between(segment_prefix(segment_id), *times)
            for key, stored in self._range_from(times[0])(start, end, reverse=reverse):
                yield key[prefix_bytes:], stored

    def _through_index(
        self,
        order: TimeOrder,
        times: tuple[int, int],
        keys: tuple[bytes, bytes | None],
        *,
        reverse: bool,
    ) -> StoredEntries:
        get = self._reader.get
        for segment_id in self._segments_of(times, reverse=reverse):
            prefix = segment_prefix(segment_id)
            start, end = order.entries(prefix, *keys)
            for entry, _ in self._range_from(times[0])(start, end, reverse=reverse):
                key = order.key_of_entry(entry)
                stored = get(order.stored(prefix, key))
                if stored is not None:  # Another thread's reader may be behind the owner.
                    yield key, stored

    def _segments_of(self, times: tuple[int, int], *, reverse: bool) -> Iterator[int]:
        """Iterate over the segments there may be of some times; wide holes are passed over."""
        first, wanted = times[0] // self._interval_ms, times[1] // self._interval_ms
        last = self._last_segment(times[1])
        segment_id = last if reverse else first
        while first <= segment_id <= last:
            if (segment_id - first if reverse else last - segment_id) > _MANY_SEGMENTS:
                segment_id = self._next_there_is(segment_id, reverse=reverse)
                if not first <= segment_id <= last:
                    return
            yield segment_id
            segment_id += -1 if reverse else 1
            if not reverse and last < wanted:
                last = self._last_segment(times[1])  # The owner may have moved it meanwhile.

    def _next_there_is(self, segment_id: int, *, reverse: bool) -> int:
        """Return the next segment, from one on, that holds anything; -1 without any."""
        if reverse:
            entries = self._reader.range(None, segment_prefix(segment_id + 1), reverse=True)
        else:
            entries = self._reader.range(segment_prefix(segment_id), None)
        entry = next(entries, None)
        return -1 if entry is None else segment_id_of(entry[0])

    def _range_from(self, first_time: int) -> BytesRange:
        """Return what iterates over stored keys of a time (ms) or later."""
        return self._reader.range

    def _entries_between(self, start: bytes, end: bytes | None) -> list[tuple[bytes, bytes]]:
        """Return stored keys from `start` to `end` (exclusive), as they are now."""
        return list(self._reader.range(start, end))

    def _last_segment(self, time_to: int) -> int:
        """Return the newest segment there may be, up to a time (ms)."""
        return min(time_to, max(0, self._time.stream_time)) // self._interval_ms


class OwnersReader(SegmentedReader):
    """Reads for the owner of a transactional store, which knows until when its engine has data.

    What was written since the last commit, as the other side of a join mostly was, is then read
    without the engine: to open an iterator there costs more than all the rest.

    Args:
        order: See `SegmentedReader`.
    """

    __slots__ = ("_buffer", "_keys", "_segments")

    def __init__(
        self,
        buffer: BufferedKeyValueStore,
        segments: Segments,
        order: TimeOrder | None,
        keys: UncommittedKeys,
    ) -> None:
        super().__init__(buffer, segments, order)
        self._buffer = buffer
        self._segments = segments
        self._keys = keys

    def entries(self, times: tuple[int, int], low: bytes, high: bytes) -> list[tuple[bytes, bytes]]:
        """Return what there is now of one record key and some times: see `SegmentedReader`."""
        segments, buffer = self._segments, self._buffer
        first, last = times
        if first < segments.oldest_readable:
            first = segments.oldest_readable
        if first <= segments.engine_time or not buffer.is_open:
            return super().entries(times, low, high)
        interval_ms, order, dirty = self._interval_ms, self._order, buffer.dirty
        begin, end = segment_prefix(first // interval_ms), segment_prefix(last // interval_ms)
        if order is None:
            keys = self._keys.between(begin + low, end + high)
            return [
                (key[SEGMENT_ID_BYTES:], stored)
                for key in keys
                if (stored := dirty[key]) is not None
            ]
        keys = self._keys.between(order.entry(begin, low), order.entry(end, high))
        found: list[tuple[bytes, bytes]] = []
        for entry in keys:
            key = order.key_of_entry(entry)
            stored = dirty[order.stored(entry[:SEGMENT_ID_BYTES], key)]
            assert stored is not None, "an entry is there as long as its key"
            found.append((key, stored))
        return found

    def _range_from(self, first_time: int) -> BytesRange:
        # The engine of one that is not open refuses.
        if first_time > self._segments.engine_time and self._buffer.is_open:
            return self._buffer.uncommitted_range
        return self._buffer.range

    def _entries_between(self, start: bytes, end: bytes | None) -> list[tuple[bytes, bytes]]:
        return merged_entries(self._buffer, start, end)


def owners_reader(
    buffer: BufferedKeyValueStore,
    segments: Segments,
    order: TimeOrder | None,
    keys: UncommittedKeys,
) -> SegmentedReader:
    """Return what the owner of a store reads with; see `OwnersReader`."""
    if buffer.transactional:
        return OwnersReader(buffer, segments, order, keys)
    return SegmentedReader(buffer, segments, order)


def segmented_view(
    store: BufferedKeyValueStore,
    segments: Segments,
    isolation_level: IsolationLevel,
    order: TimeOrder | None = None,
) -> SegmentedReader:
    """Return the view of a store at an isolation level, for other threads."""
    committed = sees_commits_only(store, isolation_level)
    time = CommittedTime(segments) if committed else segments
    return SegmentedReader(view_of(store, isolation_level), time, order)
