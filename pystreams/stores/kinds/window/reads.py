"""Typed reads of window stores, for the owner and for the views of other threads.

Windows that start before stream time - retention + 1 are not found, even while their segment is
still there. Nothing starts after the newest segment; so a stretch of time with an open end is cut
there, which keeps the bounds of key ranges close.

Spec: Kafka AbstractRocksDBSegmentedBytesStore.getActualFrom, WindowKeySchema.
"""

from __future__ import annotations

import struct
from collections.abc import Generator
from typing import TYPE_CHECKING, TypeVar, overload

from pystreams.record import MAX_TIME
from pystreams.stores.contracts.window import Windowed
from pystreams.stores.kinds.window.keys import (
    bounds_of_key,
    key_of,
    lower_bound,
    start_of,
    upper_bound,
    window_key,
    window_of,
)
from pystreams.stores.typed_stores.typed_state_store import TypedParts
from pystreams.stores.typed_stores.wrong_arguments import refuse_times

if TYPE_CHECKING:
    from pystreams.stores.contracts.key_value import KeyValueIterator
    from pystreams.stores.contracts.spec import Retention
    from pystreams.stores.time_segments.segmented_reader import SegmentedReader

K = TypeVar("K")
R = TypeVar("R")

StoredEntries = Generator[tuple[bytes, bytes], None, None]
WindowedEntries = Generator[tuple[Windowed[K], R], None, None]


class WindowReads(TypedParts[K, R]):
    """`ReadOnlyWindowStore` over the bytes-level reader `_reader`."""

    __slots__ = ()

    _reader: SegmentedReader
    _retention: Retention

    @overload
    def fetch(self, key: K, time_from: int, /) -> R | None: ...

    @overload
    def fetch(self, key: K, time_from: int, time_to: int, /) -> KeyValueIterator[int, R]: ...

    def fetch(
        self, key: K, time_from: int, time_to: int | None = None, /
    ) -> R | KeyValueIterator[int, R] | None:
        """Return the value of one window; or, given two times, iterate over many."""
        if time_to is not None:
            return self._windows_of(key, time_from, time_to, reverse=False)
        raw_key = self._key_bytes(key)
        try:
            stored = self._stored(raw_key, time_from)
        except (TypeError, struct.error) as error:
            refuse_times(self._name, error, time_from=time_from)
        if stored is None:
            return None
        try:
            return self._decode(stored)
        except Exception as error:  # noqa: BLE001 - a serde may raise anything
            self._raise_undecodable(error, stored)

    def backward_fetch(self, key: K, time_from: int, time_to: int, /) -> KeyValueIterator[int, R]:
        """Iterate over the same windows as `fetch` with two times, latest first."""
        return self._windows_of(key, time_from, time_to, reverse=True)

    def fetch_range(
        self, key_from: K | None, key_to: K | None, time_from: int, time_to: int, /
    ) -> KeyValueIterator[Windowed[K], R]:
        """Iterate over windows of several keys; None leaves an end open."""
        return self._range(key_from, key_to, time_from, time_to, reverse=False)

    def backward_fetch_range(
        self, key_from: K | None, key_to: K | None, time_from: int, time_to: int, /
    ) -> KeyValueIterator[Windowed[K], R]:
        """Iterate over the same windows as `fetch_range`, in the opposite order."""
        return self._range(key_from, key_to, time_from, time_to, reverse=True)

    def fetch_all(self, time_from: int, time_to: int, /) -> KeyValueIterator[Windowed[K], R]:
        """Iterate over windows of all keys that start in a stretch of time (ms)."""
        return self._range(None, None, time_from, time_to, reverse=False)

    def backward_fetch_all(
        self, time_from: int, time_to: int, /
    ) -> KeyValueIterator[Windowed[K], R]:
        """Iterate over the same windows as `fetch_all`, in the opposite order."""
        return self._range(None, None, time_from, time_to, reverse=True)

    def all(self) -> KeyValueIterator[Windowed[K], R]:
        """Iterate over all windows."""
        return self._range(None, None, 0, MAX_TIME, reverse=False)

    def backward_all(self) -> KeyValueIterator[Windowed[K], R]:
        """Iterate over all windows, in the opposite order."""
        return self._range(None, None, 0, MAX_TIME, reverse=True)

    def _stored(self, raw_key: bytes, start: int) -> bytes | None:
        """Return what is stored for the window of a key that starts at a time, or None."""
        if self._retention.retain_duplicates:
            newest = next(self._entries_of(raw_key, start, start, reverse=True), None)
            return None if newest is None else newest[1]
        return self._reader.get(window_key(raw_key, start), start) if start >= 0 else None

    def _times(self, time_from: int, time_to: int) -> tuple[int, int]:
        """Return the first and the last start that there may be in a stretch of time."""
        reader = self._reader
        return max(time_from, reader.oldest_readable()), min(time_to, reader.newest_readable())

    def _entries_of(
        self, raw_key: bytes, time_from: int, time_to: int, *, reverse: bool
    ) -> StoredEntries:
        """Iterate over what is stored for windows of one key."""
        try:
            first, last = times = self._times(time_from, time_to)
            if first > last:
                return
            low, high = bounds_of_key(raw_key, first, last)
            for entry in self._reader.range(times, low, high, reverse=reverse):
                if len(entry[0]) == len(low):
                    yield entry
        except (TypeError, struct.error) as error:
            refuse_times(self._name, error, time_from=time_from, time_to=time_to)

    def _windows_of(
        self, key: K, time_from: int, time_to: int, *, reverse: bool
    ) -> Generator[tuple[int, R], None, None]:
        decode = self._decode
        raw_key = self._key_bytes(key)
        for stored_key, stored in self._entries_of(raw_key, time_from, time_to, reverse=reverse):
            try:
                entry = start_of(stored_key), decode(stored)
            except Exception as error:  # noqa: BLE001 - a serde may raise anything
                self._raise_undecodable(error, stored)
            yield entry

    def _range(
        self, key_from: K | None, key_to: K | None, time_from: int, time_to: int, *, reverse: bool
    ) -> KeyValueIterator[Windowed[K], R]:
        low = None if key_from is None else self._key_bytes(key_from)
        high = None if key_to is None else self._key_bytes(key_to)
        if low is not None and high is not None and low > high:
            return self._nothing_between(key_from, key_to)
        return self._windows(low, high, time_from, time_to, reverse=reverse)

    def _windows(
        self,
        low: bytes | None,
        high: bytes | None,
        time_from: int,
        time_to: int,
        *,
        reverse: bool,
    ) -> WindowedEntries[K, R]:
        try:
            first, last = times = self._times(time_from, time_to)
            if first > last:
                return
            lowest = b"" if low is None else lower_bound(low)
            highest = None if high is None else upper_bound(high, last)
            entries = self._reader.range(times, lowest, highest, reverse=reverse)
            yield from self._typed(entries, times, (low, high))
        except (TypeError, struct.error) as error:
            refuse_times(self._name, error, time_from=time_from, time_to=time_to)

    def _typed(
        self,
        entries: StoredEntries,
        times: tuple[int, int],
        keys: tuple[bytes | None, bytes | None] = (None, None),
    ) -> WindowedEntries[K, R]:
        """Deserialize what was asked for of some entries, and leave out the rest."""
        deserialize_key, decode = self._deserialize_key, self._decode
        size_ms = self._retention.window_size_ms or 0
        (first, last), (low, high) = times, keys
        for stored_key, stored in entries:
            start, raw_key = start_of(stored_key), key_of(stored_key)
            if (
                not first <= start <= last
                or (low is not None and raw_key < low)
                or (high is not None and raw_key > high)
            ):
                continue
            try:
                key, value = deserialize_key(raw_key), decode(stored)
            except Exception as error:  # noqa: BLE001 - a serde may raise anything
                self._raise_undecodable(error, stored_key)
            yield Windowed(key, window_of(start, size_ms)), value
