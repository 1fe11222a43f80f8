"""Typed reads of session stores, for the owner and for the views of other threads.

A search goes segment by segment from the earliest end that is asked for and not older than the
retention. Sessions that end later are looked at as well, because they may have started in time.
Spec: Kafka RocksDBSessionStore, AbstractRocksDBSegmentedBytesStore.getActualFrom.
"""

from __future__ import annotations

import struct
from operator import index
from typing import TYPE_CHECKING, TypeVar

from pystreams.record import MAX_TIME
from pystreams.stores.contracts.window import Windowed
from pystreams.stores.kinds.session.keys import (
    is_found,
    key_of,
    lower_bound,
    lower_bound_of_key,
    session_key,
    upper_bound,
    upper_bound_of_key,
    window_of,
)
from pystreams.stores.typed_stores.typed_state_store import TypedParts, TypedView
from pystreams.stores.typed_stores.wrong_arguments import refuse_times

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from pystreams.stores.contracts.key_value import KeyValueIterator
    from pystreams.stores.time_segments.segmented_reader import SegmentedReader

K = TypeVar("K")
R = TypeVar("R")

_KeyBounds = tuple[bytes | None, bytes | None]


class SessionReads(TypedParts[K, R]):
    """`ReadOnlySessionStore` over the bytes-level reader `_reader`."""

    __slots__ = ()

    _reader: SegmentedReader

    def fetch_session(self, key: K, start: int, end: int) -> R | None:
        """Return the aggregate of the session from `start` to `end` (ms) exactly, or None."""
        raw_key = self._key_bytes(key)
        try:
            if not 0 <= start <= end <= MAX_TIME:
                return None
            stored = self._reader.get(session_key(raw_key, start, end), end)
        except (TypeError, struct.error) as error:
            refuse_times(self._name, error, start=start, end=end)
        if stored is None:
            return None
        try:
            return self._decode(stored)
        except Exception as error:  # noqa: BLE001 - a serde may raise anything
            self._raise_undecodable(error, stored)

    def fetch(self, key: K) -> KeyValueIterator[Windowed[K], R]:
        """Iterate over all sessions of a key."""
        return self._of_key(key, 0, MAX_TIME, reverse=False)

    def backward_fetch(self, key: K) -> KeyValueIterator[Windowed[K], R]:
        """Iterate over the same sessions as `fetch`, newest first."""
        return self._of_key(key, 0, MAX_TIME, reverse=True)

    def fetch_range(self, key_from: K | None, key_to: K | None) -> KeyValueIterator[Windowed[K], R]:
        """Iterate over all sessions of some keys, both inclusive; None leaves an end open."""
        return self._of_keys((key_from, key_to), 0, MAX_TIME, reverse=False)

    def backward_fetch_range(
        self, key_from: K | None, key_to: K | None
    ) -> KeyValueIterator[Windowed[K], R]:
        """Iterate over the same sessions as `fetch_range`, newest first."""
        return self._of_keys((key_from, key_to), 0, MAX_TIME, reverse=True)

    def find_sessions(
        self, key: K, earliest_end: int, latest_start: int
    ) -> KeyValueIterator[Windowed[K], R]:
        """Iterate over the sessions of a key that overlap some time (ms)."""
        return self._of_key(key, earliest_end, latest_start, reverse=False)

    def backward_find_sessions(
        self, key: K, earliest_end: int, latest_start: int
    ) -> KeyValueIterator[Windowed[K], R]:
        """Iterate over the same sessions as `find_sessions`, newest first."""
        return self._of_key(key, earliest_end, latest_start, reverse=True)

    def find_sessions_range(
        self, key_from: K | None, key_to: K | None, earliest_end: int, latest_start: int
    ) -> KeyValueIterator[Windowed[K], R]:
        """Iterate over the sessions of some keys that overlap some time (ms)."""
        return self._of_keys((key_from, key_to), earliest_end, latest_start, reverse=False)

    def backward_find_sessions_range(
        self, key_from: K | None, key_to: K | None, earliest_end: int, latest_start: int
    ) -> KeyValueIterator[Windowed[K], R]:
        """Iterate over the same sessions as `find_sessions_range`, newest first."""
        return self._of_keys((key_from, key_to), earliest_end, latest_start, reverse=True)

    def find_sessions_by_end(
        self, earliest_end: int, latest_end: int
    ) -> KeyValueIterator[Windowed[K], R]:
        """Iterate over the sessions of all keys that end in some time (ms), both inclusive."""
        try:
            times = max(index(earliest_end), self._reader.oldest_readable()), index(latest_end)
        except TypeError as error:
            refuse_times(self._name, error, earliest_end=earliest_end, latest_end=latest_end)
        return self._ended(self._reader.range(times, b"", None), times)

    def _of_key(
        self, key: K, earliest_end: int, latest_start: int, *, reverse: bool
    ) -> KeyValueIterator[Windowed[K], R]:
        raw_key = self._key_bytes(key)
        first, last = self._in_time(earliest_end, latest_start)
        entries = self._reader.range(
            (earliest_end, MAX_TIME),
            lower_bound_of_key(raw_key, first),
            upper_bound_of_key(raw_key, last),
            reverse=reverse,
        )
        return self._found(entries, (raw_key, raw_key), (earliest_end, latest_start))

    def _of_keys(
        self,
        keys: tuple[K | None, K | None],
        earliest_end: int,
        latest_start: int,
        *,
        reverse: bool,
    ) -> KeyValueIterator[Windowed[K], R]:
        low, high = (None if key is None else self._key_bytes(key) for key in keys)
        if low is not None and high is not None and low > high:
            return self._nothing_between(*keys)
        _, last = self._in_time(earliest_end, latest_start)
        entries = self._reader.range(
            (earliest_end, MAX_TIME),
            b"" if low is None else lower_bound(low),
            None if high is None else upper_bound(high, last),
            reverse=reverse,
        )
        return self._found(entries, (low, high), (earliest_end, latest_start))

    def _in_time(self, earliest_end: int, latest_start: int) -> tuple[int, int]:
        """Return times (ms) that a key can hold, the nearest to those that are asked for."""
        try:
            return (
                max(0, min(index(earliest_end), MAX_TIME)),
                max(0, min(index(latest_start), MAX_TIME)),
            )
        except TypeError as error:
            refuse_times(self._name, error, earliest_end=earliest_end, latest_start=latest_start)

    def _found(
        self,
        entries: Iterator[tuple[bytes, bytes]],
        keys: _KeyBounds,
        times: tuple[int, int],
    ) -> Generator[tuple[Windowed[K], R], None, None]:
        """Leave out what was not asked for, or has become older than the retention."""
        oldest_readable = self._reader.oldest_readable
        (key_from, key_to), (earliest_end, latest_start) = keys, times
        found = (
            entry
            for entry in entries
            if is_found(
                entry[0], key_from, key_to, max(earliest_end, oldest_readable()), latest_start
            )
        )
        return self._typed(found)

    def _ended(
        self, entries: Iterator[tuple[bytes, bytes]], ends: tuple[int, int]
    ) -> Generator[tuple[Windowed[K], R], None, None]:
        """Leave out what does not end in some time (ms), both inclusive."""
        first, last = ends
        return self._typed(entry for entry in entries if first <= window_of(entry[0]).end <= last)

    def _typed(
        self, entries: Iterator[tuple[bytes, bytes]]
    ) -> Generator[tuple[Windowed[K], R], None, None]:
        deserialize_key, decode = self._deserialize_key, self._decode
        for session, stored in entries:
            try:
                key = deserialize_key(key_of(session))
                entry = Windowed(key, window_of(session)), decode(stored)
            except Exception as error:  # noqa: BLE001 - a serde may raise anything
                self._raise_undecodable(error, session)
            yield entry


class SessionView(SessionReads[K, R], TypedView[K, R]):
    """What other threads read a session store with."""

    __slots__ = ()
