"""Window stores: typed keys, windows and values over the dirty map and its engine.

    put(key, value, window_start) --> key | window_start | sequence --> segmented, buffered

The changelog has the same keys and plain values; a timestamped store's records carry the value's
timestamp. Stored values of a timestamped store are those of `timestamped`.

A store that retains duplicates numbers its puts, so that none takes another's place. A put that is
dropped has a number as well, and no rollback takes one back, so that numbers do not depend on when
commits come. Differs from Kafka, which starts from 1 again after a restart and may then overwrite:
here numbers go on behind the last one that was given, which is committed beside the data, and
behind those of the changelog's records.

Differs from Kafka: a put that is dropped because its segment expired is not logged; and with a
record cache it is dropped when it is put, not when the cache is flushed. Deletions of windows that
are older than the retention, in a segment that is still live, are written like any other.

Spec: Kafka RocksDBWindowStore, MeteredWindowStore, MeteredTimestampedWindowStore,
ChangeLoggingWindowBytesStore, CachingWindowStore.
"""

from __future__ import annotations

import struct
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from pystreams.ids import TopicPartition
from pystreams.record import MAX_TIME
from pystreams.serdes import Serde
from pystreams.stores.contracts.key_value import UNKNOWN_TIMESTAMP, ValueAndTimestamp
from pystreams.stores.contracts.window import Window, Windowed
from pystreams.stores.kinds.window.keys import (
    MAX_SEQUENCE,
    SUFFIX_BYTES,
    bounds_of_key,
    sequence_of,
    start_of,
    window_key,
)
from pystreams.stores.kinds.window.reads import WindowReads
from pystreams.stores.time_segments.segmented import SegmentedStateStore
from pystreams.stores.time_segments.segmented_reader import (
    SegmentedReader,
    segmented_view,
)
from pystreams.stores.time_segments.segments import Segments, segment_prefix
from pystreams.stores.typed_stores.typed_state_store import TypedView
from pystreams.stores.typed_stores.wrong_arguments import refuse_row, refuse_times

if TYPE_CHECKING:
    from pystreams.config.guarantee import IsolationLevel
    from pystreams.record import ConsumedMessage
    from pystreams.stores.contracts.key_value import KeyValueIterator, StateStoreContext
    from pystreams.stores.contracts.spec import Retention
    from pystreams.stores.dirty_map.buffered import BufferedKeyValueStore
    from pystreams.stores.time_segments.time_order import TimeOrder

K = TypeVar("K")
V = TypeVar("V")
R = TypeVar("R")

_new_tuple = tuple.__new__
_PACK_SUFFIX = struct.Struct(">qi").pack
_PACK_LONG = struct.Struct(">q").pack
_UNPACK_LONG = struct.Struct(">q").unpack_from

_FEW = 8
"""So many keys are looked at one by one as fast as the first is searched for."""


class WindowsView(WindowReads[K, R], TypedView[K, R]):
    """What other threads read a window store with.

    Args:
        reader: Reads by key and start.
        retention: How long windows are, and whether duplicates are retained.
        parts: What `TypedView` takes.
    """

    __slots__ = ("_retention",)

    def __init__(self, reader: SegmentedReader, retention: Retention, **parts: Any) -> None:
        super().__init__(reader, **parts)
        self._retention = retention


class _WindowStateStore(WindowReads[K, R], SegmentedStateStore[K, R]):
    """What the plain and the timestamped window store have in common.

    Threads: belongs to the task's thread; others use `read_only`.

    Args:
        segments: Shared with what the buffer restores by.
        retention: Retention, window size, and whether duplicates are retained.
    """

    __slots__ = ("_retention", "_sequence")

    suffix_bytes = SUFFIX_BYTES

    metered_methods: ClassVar[Mapping[str, str]] = {
        "all": "fetch",
        "backward_all": "fetch",
        "backward_fetch": "fetch",
        "backward_fetch_all": "fetch",
        "backward_fetch_range": "fetch",
        "fetch": "fetch",
        "fetch_all": "fetch",
        "fetch_kept": "fetch",
        "fetch_range": "fetch",
        "put": "put",
        "values_near": "fetch",
    }

    def __init__(
        self,
        buffer: BufferedKeyValueStore,
        segments: Segments,
        retention: Retention,
        key_serde: Serde[Any] | None,
        value_serde: Serde[Any] | None,
        order: TimeOrder | None = None,
    ) -> None:
        self._retention = retention
        self._sequence = 0
        super().__init__(buffer, segments, key_serde, value_serde, order)

    def init(self, context: StateStoreContext) -> None:
        """Open the store."""
        super().init(context)
        changelog = TopicPartition(context.changelog_topic, context.task_id.partition)
        offset = self._buffer.committed_offset(changelog)
        self._sequence = self._buffer.metadata.committed_sequence()
        self._number_behind(0 if offset is None else (offset + 1) & MAX_SEQUENCE)

    def restore(self, messages: Sequence[ConsumedMessage]) -> None:
        """Apply a batch of changelog records and remember the last one's offset, atomically."""
        if self._retention.retain_duplicates:
            keys = (message.key() for message in messages)
            self._number_behind(max((sequence_of(key) for key in keys if key), default=0))
            self._buffer.metadata.sequence = self._sequence
        super().restore(messages)

    def commit(self, changelog_offsets: Mapping[TopicPartition, int]) -> None:
        """Make everything written since the last commit durable; expired segments are dropped."""
        if self._retention.retain_duplicates:
            self._buffer.metadata.sequence = self._sequence
        super().commit(changelog_offsets)

    def read_only(self, isolation_level: IsolationLevel) -> WindowsView[K, R]:
        """Return a view that other threads may read; its serde functions are its own.

        Raises:
            StoreNotAvailableError: The store is not open.
        """
        parts = self._view_parts()
        reader = segmented_view(self._buffer, self._segments, isolation_level, self._order)
        return WindowsView(reader, self._retention, **parts)

    def values_near(self, key: K, time_from: int, time_to: int) -> list[tuple[int, R]]:
        """Return what `fetch` with two times iterates over, as it is now: (start in ms, value)."""
        raw_key, segments = self._key_bytes(key), self._segments
        first = max(time_from, segments.oldest_readable)
        if first > segments.engine_time and self._finds_uncommitted:
            entries = self._written_near(raw_key, first, time_to)
        else:
            entries = self._stored_near(raw_key, time_from, time_to)
        found: list[tuple[int, R]] = []
        decode, stored = self._decode, b""
        try:
            for start, stored in entries:
                found.append((start, decode(stored)))
        except Exception as error:  # noqa: BLE001 - a serde may raise anything
            self._raise_undecodable(error, stored)
        return found

    def _written_near(self, raw_key: bytes, first: int, last: int) -> list[tuple[int, bytes]]:
        """Return what was written since the last commit for a key and some time (ms)."""
        keys = self._keys.of(raw_key)
        if len(keys) > _FEW:
            segment = segment_prefix(first // self._segments.interval_ms)
            keys = keys[bisect_left(keys, segment + window_key(raw_key, first)) :]
        dirty, entries = self._buffer.dirty, []
        for key in keys:
            start = _UNPACK_LONG(key, len(key) - SUFFIX_BYTES)[0]
            if start > last:
                break
            if start >= first and (stored := dirty[key]) is not None:
                entries.append((start, stored))
        return entries

    def _stored_near(self, raw_key: bytes, first: int, last: int) -> list[tuple[int, bytes]]:
        """Return what is stored for a key and some time (ms), written lately or not."""
        first, last = times = self._times(first, last)
        if first > last:
            return []
        found = self._reader.entries(times, *bounds_of_key(raw_key, first, last))
        return [(start_of(key), stored) for key, stored in found]

    def fetch_kept(self, time_from: int, time_to: int) -> KeyValueIterator[Windowed[K], R]:
        """Iterate as `fetch_all` does, also over windows that only `keep_from` keeps."""
        times = max(0, time_from), min(time_to, self._reader.newest_readable())
        entries = self._reader.range(times, b"", None, beyond_retention=True)
        return self._typed(entries, times)

    def _write_window(
        self,
        raw_key: bytes,
        stored: bytes | None,
        plain: bytes | None,
        timestamp: int,
        start: int,
        *,
        replaces: bool = False,
    ) -> None:
        """Write and log a window's value, unless its segment has expired."""
        sequence = 0
        if self._retention.retain_duplicates:
            if stored is None:
                return
            sequence = self._sequence = (self._sequence + 1) & MAX_SEQUENCE
        try:
            window_key = raw_key + _PACK_SUFFIX(start, sequence)
        except struct.error as error:  # Before the stream time moves.
            refuse_times(self._name, error, window_start=start)
        prefix = self._live_prefix(start)
        if prefix is None:
            self._drop_expired(start)
        else:
            self._write_in_segment(prefix, window_key, stored, plain, timestamp, replaces=replaces)

    def _number_behind(self, sequence: int) -> None:
        self._sequence = max(self._sequence, sequence)

    def _logged_keys(self) -> Callable[[bytes], Windowed[K]]:
        deserialize_key, size_ms = self._deserialize_key, self._retention.window_size_ms or 0
        prefix_bytes = self._buffer.key_prefix_bytes

        # Once for each window that a cache lets go: no calls but those it needs.
        def windowed(key: bytes) -> Windowed[K]:
            start = _UNPACK_LONG(key, len(key) - SUFFIX_BYTES)[0]
            window = _new_tuple(Window, (start, min(start + size_ms, MAX_TIME)))
            return _new_tuple(Windowed, (deserialize_key(key[prefix_bytes:-SUFFIX_BYTES]), window))

        return windowed


class TypedWindowStore(_WindowStateStore[K, V]):
    """`WindowStore` (see the contracts) with serdes; logged with the current record's time."""

    __slots__ = ()

    def put(self, key: K, value: V | None, window_start: int) -> None:
        """Write the value of a window; None deletes it."""
        raw = None if value is None else self._value_bytes(value)
        self._write_window(self._key_bytes(key), raw, raw, self._record.timestamp, window_start)


class TypedTimestampedWindowStore(_WindowStateStore[K, ValueAndTimestamp[V]]):
    """`TimestampedWindowStore` (see the contracts) with serdes.

    Over an engine that holds plain values, one that a plain supplier asked for, timestamps go to
    the changelog only and are read back as -1.
    """

    __slots__ = ()

    metered_methods: ClassVar[Mapping[str, str]] = {
        **_WindowStateStore.metered_methods,
        "fetch_row": "fetch",
        "fetch_with_timestamp": "fetch",
        "put_row": "put",
        "put_with_timestamp": "put",
        "rows_latest_first": "fetch",
        "sent_with_timestamp": "fetch",
    }

    def row_key(self, key: K) -> bytes:
        """Return what `fetch_row` and `put_row` take for a key.

        Raises:
            SerializationError: The key does not fit its serde.
        """
        return self._key_bytes(key)

    def fetch_with_timestamp(self, key: K, window_start: int) -> tuple[V | None, int]:
        """Return (value, timestamp in ms) of a window; (None, -1) when it has no value."""
        return self.fetch_row(self._key_bytes(key), window_start)

    def fetch_row(self, row_key: bytes, window_start: int) -> tuple[V | None, int]:
        """Do as `fetch_with_timestamp`, given the key's bytes."""
        stored = self._stored(row_key, window_start)
        if stored is None:
            return None, UNKNOWN_TIMESTAMP
        try:
            if self._buffer.value_prefix_bytes:
                return self._deserialize_value(stored[8:]), _UNPACK_LONG(stored)[0]
            return self._deserialize_value(stored), UNKNOWN_TIMESTAMP
        except Exception as error:  # noqa: BLE001 - a serde may raise anything
            self._raise_undecodable(error, stored)

    def sent_with_timestamp(self, windowed: Windowed[K]) -> tuple[V | None, int]:
        """Return the same as it was sent downstream, without what the record cache holds back."""
        stored = self._sent_row(windowed)
        if stored is None:
            return None, UNKNOWN_TIMESTAMP
        try:
            row = self._decode(stored)
        except Exception as error:  # noqa: BLE001 - a serde may raise anything
            self._raise_undecodable(error, stored)
        return row.value, row.timestamp

    def sent_bytes(self, windowed: Windowed[K]) -> bytes | None:
        """Return the bytes of the value that `sent_with_timestamp` returns."""
        stored = self._sent_row(windowed)
        return None if stored is None else stored[self._buffer.value_prefix_bytes :]

    def _sent_row(self, windowed: Windowed[K]) -> bytes | None:
        key, (start, _) = windowed
        row_key = self._key_bytes(key)
        if start < self._reader.oldest_readable():
            return None
        return self._sent(window_key(row_key, start), start)

    def rows_latest_first(
        self, row_key: bytes, time_from: int, time_to: int
    ) -> Iterator[tuple[int, ValueAndTimestamp[V]]]:
        """Do as `backward_fetch`, given the key's bytes, over the windows there are now."""
        first, last = times = self._times(time_from, time_to)
        if first > last:
            return
        low, high = bounds_of_key(row_key, first, last)
        for stored_key, stored in reversed(self._reader.entries(times, low, high)):
            try:
                row = self._decode(stored)
            except Exception as error:  # noqa: BLE001 - a serde may raise anything
                self._raise_undecodable(error, stored)
            yield start_of(stored_key), row

    def put_with_timestamp(
        self, key: K, value: V | None, timestamp: int, window_start: int
    ) -> None:
        """Write the value of a window and its timestamp (ms); a value of None deletes it.

        A deletion is logged with the current record's timestamp, as in Kafka.

        Raises:
            SerializationError: The key or value does not fit its serde.
        """
        self.put_row(self._key_bytes(key), value, timestamp, window_start)

    def put_row(
        self,
        row_key: bytes,
        value: V | None,
        timestamp: int,
        window_start: int,
        *,
        replaces: bool = False,
    ) -> None:
        """Do as `put_with_timestamp`, given the key's bytes; see the contract."""
        if value is None:
            self._write_window(row_key, None, None, self._record.timestamp, window_start)
            return
        plain = self._value_bytes(value)
        try:
            stored = _PACK_LONG(timestamp) + plain
        except struct.error as error:
            refuse_times(self._name, error, timestamp=timestamp)
        if not self._buffer.value_prefix_bytes:
            stored = plain
        self._write_window(row_key, stored, plain, timestamp, window_start, replaces=replaces)

    def put(self, key: K, value: ValueAndTimestamp[V] | None, window_start: int) -> None:
        """Write the value of a window with its timestamp; None deletes it."""
        if value is None:
            self.put_with_timestamp(key, None, UNKNOWN_TIMESTAMP, window_start)
            return
        try:
            self.put_with_timestamp(key, value.value, value.timestamp, window_start)
        except AttributeError as error:
            refuse_row(self._name, error, value)

    def _decoder(
        self, deserialize: Callable[[bytes], V]
    ) -> Callable[[bytes], ValueAndTimestamp[V]]:
        if not self._buffer.value_prefix_bytes:
            return lambda stored: ValueAndTimestamp(deserialize(stored), UNKNOWN_TIMESTAMP)
        return lambda stored: ValueAndTimestamp(deserialize(stored[8:]), _UNPACK_LONG(stored)[0])
