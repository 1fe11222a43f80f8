"""The session store: aggregates of sessions by key, end and start, with serdes.

Stored bytes are the plain aggregate, without a timestamp; the changelog record has the same value
and the timestamp of the record that was processed.

Differs from Kafka: a put that is dropped because its segment expired is not logged; with a record
cache it is dropped when it is put, not when the cache is flushed; and the store in memory drops by
the segment too, not by the millisecond. Removing a session that expired does nothing.

Spec: Kafka MeteredSessionStore, ChangeLoggingSessionBytesStore, CachingSessionStore,
RocksDBSessionStore, InMemorySessionStore.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, ClassVar, TypeVar

from pystreams.record import MAX_TIME
from pystreams.serdes import serialize_or_raise
from pystreams.stores.contracts.window import Windowed
from pystreams.stores.kinds.session.keys import (
    SUFFIX_BYTES,
    key_of,
    lower_bound_of_key,
    session_key,
    upper_bound_of_key,
    window_of,
)
from pystreams.stores.kinds.session.reads import SessionReads, SessionView
from pystreams.stores.time_segments.segmented import SegmentedStateStore
from pystreams.stores.time_segments.segmented_reader import segmented_view
from pystreams.stores.typed_stores.wrong_arguments import refuse_session

if TYPE_CHECKING:
    from pystreams.config.guarantee import IsolationLevel
    from pystreams.stores.contracts.key_value import KeyValueIterator

K = TypeVar("K")
V = TypeVar("V")


class TypedSessionStore(SessionReads[K, V], SegmentedStateStore[K, V]):
    """`SessionStore` (see the contracts) with serdes; logged with the current record's time.

    Threads: belongs to the task's thread; others use `read_only`.

    Args:
        segments: Which segments are alive; owned by this object.
    """

    __slots__ = ()

    suffix_bytes = SUFFIX_BYTES

    metered_methods: ClassVar[Mapping[str, str]] = {
        "backward_fetch": "fetch",
        "backward_fetch_range": "fetch",
        "backward_find_sessions": "fetch",
        "backward_find_sessions_range": "fetch",
        "fetch": "fetch",
        "fetch_range": "fetch",
        "fetch_session": "fetch",
        "find_kept_sessions": "fetch",
        "find_sessions": "fetch",
        "find_sessions_by_end": "fetch",
        "find_sessions_range": "fetch",
        "put": "put",
        "remove": "remove",
        "sent_with_timestamp": "fetch",
        "sessions_near": "fetch",
    }

    def put(self, session: Windowed[K], aggregate: V | None) -> None:
        """Write the aggregate of a session; None removes it."""
        raw_session, end = self._raw(session)
        raw = None if aggregate is None else self._value_bytes(aggregate)
        prefix = self._live_prefix(end)
        if prefix is None:
            self._drop_expired(end)
        else:
            self._write_in_segment(prefix, raw_session, raw, raw, self._record.timestamp)

    def remove(self, session: Windowed[K]) -> None:
        """Remove a session; one that does not exist may be removed."""
        raw_session, end = self._raw(session)
        prefix = self._live_prefix(end)
        if prefix is not None:
            self._write_in_segment(prefix, raw_session, None, None, self._record.timestamp)

    def sent_with_timestamp(self, session: Windowed[K]) -> tuple[V | None, int]:
        """Return (aggregate, end in ms) of a session as it was sent, without what the cache holds.

        (None, -1) when there is none.
        """
        stored = self.sent_bytes(session)
        if stored is None:
            return None, -1
        try:
            return self._decode(stored), session.window.end
        except Exception as error:  # noqa: BLE001 - a serde may raise anything
            self._raise_undecodable(error, stored)

    def sent_bytes(self, session: Windowed[K]) -> bytes | None:
        """Return the bytes of the aggregate that `sent_with_timestamp` returns."""
        raw_session, end = self._raw(session)
        return self._sent(raw_session, end) if end >= self._reader.oldest_readable() else None

    def sessions_near(
        self, key: K, earliest_end: int, latest_start: int
    ) -> list[tuple[Windowed[K], V]]:
        """Return what `find_sessions` iterates over, as it is now."""
        raw_key, decode, reader = self._key_bytes(key), self._decode, self._reader
        earliest_end = max(earliest_end, reader.oldest_readable())
        low = lower_bound_of_key(raw_key, earliest_end)
        high = upper_bound_of_key(raw_key, min(latest_start, MAX_TIME))
        sessions: list[tuple[Windowed[K], V]] = []
        for session, stored in reader.entries((earliest_end, MAX_TIME), low, high):
            window = window_of(session)
            if window[0] <= latest_start and window[1] >= earliest_end:
                try:
                    sessions.append((Windowed(key, window), decode(stored)))
                except Exception as error:  # noqa: BLE001 - a serde may raise anything
                    self._raise_undecodable(error, session)
        return sessions

    def find_kept_sessions(
        self, earliest_end: int, latest_end: int
    ) -> KeyValueIterator[Windowed[K], V]:
        """Iterate as `find_sessions_by_end` does, also over those that only `keep_from` keeps."""
        times = max(0, earliest_end), latest_end
        entries = self._reader.range(times, b"", None, beyond_retention=True)
        return self._ended(entries, times)

    def read_only(self, isolation_level: IsolationLevel) -> SessionView[K, V]:
        """Return a view that other threads may read; its serde functions are its own.

        Raises:
            StoreNotAvailableError: The store is not open.
        """
        parts = self._view_parts()
        reader = segmented_view(self._buffer, self._segments, isolation_level, self._order)
        return SessionView(reader, **parts)

    def _logged_keys(self) -> Callable[[bytes], Windowed[K]]:
        deserialize_key = self._deserialize_key
        prefix_bytes = self._buffer.key_prefix_bytes

        def windowed(key: bytes) -> Windowed[K]:
            session = key[prefix_bytes:]
            return Windowed(deserialize_key(key_of(session)), window_of(session))

        return windowed

    def _raw(self, session: Windowed[K]) -> tuple[bytes, int]:
        """Return what a session is kept under, and its end (ms)."""
        if not self._buffer.is_open:
            raise self._unavailable()  # Before the stream time moves.
        try:
            key, (start, end) = session
            is_sound = 0 <= start <= end <= MAX_TIME
        except (TypeError, ValueError) as error:
            refuse_session(self._name, error, session)
        if not is_sound:
            raise ValueError(
                f"state store {self._name!r}: a session can't last from {start} to {end}; it "
                "starts at 0 or later, and ends when it starts or later (ms)"
            )
        if key is None:
            self._refuse_null_key()
        try:
            raw_key = self._serialize_key(key)
        except Exception:  # noqa: BLE001 - a serde may raise anything
            raw_key = serialize_or_raise(self._serialize_key, key, self._topic, "key")
        try:
            return session_key(raw_key, start, end), end
        except struct.error as error:
            refuse_session(self._name, error, session)
