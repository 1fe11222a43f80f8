"""Contracts of session stores: aggregates of a key's sessions, found by the time they overlap.

A session lasts from the time of its first record to the time of its last, both inclusive:
`Windowed(key, Window(start, end))`. Spec: Kafka ReadOnlySessionStore, SessionStore.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeVar

from pystreams.stores.contracts.window import Windowed

if TYPE_CHECKING:
    from pystreams.config.guarantee import IsolationLevel
    from pystreams.stores.contracts.key_value import FlushListener, KeyValueIterator

K = TypeVar("K")
V = TypeVar("V")
V_co = TypeVar("V_co", covariant=True)


class ReadOnlySessionStore(Protocol[K, V_co]):
    """Reads of a session store; what is older than its retention is not found.

    Iterators go by segments of time, from the oldest to the newest: sessions of one key come in
    order of their end, then of their start. Sessions of several keys come, within a segment, in
    order of the bytes of key, end and start. Backward forms go the other way round. As in a
    key-value store, an iterator goes on over writes and commits of the owner, and closing the
    store closes it.

    Differs from Kafka: the store in memory has the same order as the one on disk.
    """

    def fetch_session(self, key: K, start: int, end: int) -> V_co | None:
        """Return the aggregate of the session from `start` to `end` (ms) exactly, or None."""

    def fetch(self, key: K) -> KeyValueIterator[Windowed[K], V_co]:
        """Iterate over all sessions of a key."""

    def backward_fetch(self, key: K) -> KeyValueIterator[Windowed[K], V_co]:
        """Iterate over the same sessions as `fetch`, newest first."""

    def fetch_range(
        self, key_from: K | None, key_to: K | None
    ) -> KeyValueIterator[Windowed[K], V_co]:
        """Iterate over all sessions of some keys, both inclusive; None leaves an end open.

        Was: `fetch(keyFrom, keyTo)`.
        """

    def backward_fetch_range(
        self, key_from: K | None, key_to: K | None
    ) -> KeyValueIterator[Windowed[K], V_co]:
        """Iterate over the same sessions as `fetch_range`, newest first."""

    def find_sessions(
        self, key: K, earliest_end: int, latest_start: int
    ) -> KeyValueIterator[Windowed[K], V_co]:
        """Iterate over the sessions of a key that overlap some time.

        Args:
            earliest_end: They end at this time (ms) or later.
            latest_start: They start at this time (ms) or before.
        """

    def backward_find_sessions(
        self, key: K, earliest_end: int, latest_start: int
    ) -> KeyValueIterator[Windowed[K], V_co]:
        """Iterate over the same sessions as `find_sessions`, newest first."""

    def find_sessions_range(
        self, key_from: K | None, key_to: K | None, earliest_end: int, latest_start: int
    ) -> KeyValueIterator[Windowed[K], V_co]:
        """Iterate over the sessions of some keys that overlap some time (ms).

        Keys are inclusive, None leaves an end open. Was: `findSessions` with four arguments.
        """

    def backward_find_sessions_range(
        self, key_from: K | None, key_to: K | None, earliest_end: int, latest_start: int
    ) -> KeyValueIterator[Windowed[K], V_co]:
        """Iterate over the same sessions as `find_sessions_range`, newest first."""

    def find_sessions_by_end(
        self, earliest_end: int, latest_end: int
    ) -> KeyValueIterator[Windowed[K], V_co]:
        """Iterate over the sessions of all keys that end in some time (ms), both inclusive.

        Was: `findSessions(earliestSessionEndTime, latestSessionEndTime)`. Differs from Kafka: its
        store on disk can't do that, unless it is ordered by time.
        """


class SessionStore(ReadOnlySessionStore[K, V], Protocol[K, V]):
    """A session store as the owning processor sees it."""

    def put(self, session: Windowed[K], aggregate: V | None) -> None:
        """Write the aggregate of a session; None removes it.

        One that ended longer ago than the retention is dropped when its segment is gone: it is
        counted in the task's dropped records, and warned of once.

        Raises:
            SerializationError: The key or aggregate does not fit its serde.
            ValueError: The session starts before 0 or after its end.
        """

    def remove(self, session: Windowed[K]) -> None:
        """Remove a session; one that does not exist may be removed.

        Raises:
            SerializationError: The key does not fit its serde.
            ValueError: The session starts before 0 or after its end.
        """

    def read_only(self, isolation_level: IsolationLevel) -> ReadOnlySessionStore[K, V]:
        """Return a view that other threads may read at the given isolation level."""

    def set_flush_listener(
        self, listener: FlushListener[Windowed[K], V], *, send_old_values: bool
    ) -> bool:
        """Say who hears of a cache flush, as `KeyValueStore.set_flush_listener`."""
