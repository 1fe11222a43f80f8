"""Windows, keys in windows, and the contracts of window stores.

`Window` and `Windowed` are what windows and sessions are keyed by: a key, and the stretch of time
an aggregate of it covers. A window store keeps a value for each key and start of a window; how
long its windows are, it is told once.

Spec: Kafka Window, Windowed, ReadOnlyWindowStore, WindowStore.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, NamedTuple, Protocol, TypeVar, overload

from pystreams.stores.contracts.key_value import FlushListener, KeyValueIterator, ValueAndTimestamp

if TYPE_CHECKING:
    from pystreams.config.guarantee import IsolationLevel

K = TypeVar("K")
V = TypeVar("V")
V_co = TypeVar("V_co", covariant=True)


class Window(NamedTuple):
    """A stretch of event time (ms).

    `end` is the first millisecond after a time window, and the last record of a session.
    """

    start: int
    end: int


class Windowed(NamedTuple, Generic[K]):
    """A record's key together with one of its windows.

    Written as `[key@start/end]`, as Kafka Streams does.
    """

    key: K
    window: Window

    def __str__(self) -> str:
        """Return `[key@start/end]`."""
        return f"[{self.key}@{self.window.start}/{self.window.end}]"


class ReadOnlyWindowStore(Protocol[K, V_co]):
    """Reads of a window store: values by key and start of their window.

    Times are in ms and inclusive on both ends. Windows that are older than the retention are not
    found: those that start before stream time - retention + 1. Results come segment by segment;
    within one, by bytes of key and start. So windows of one key come in order of time, those of
    different keys in no order to rely on.

    An iterator sees the store as it was when it was made or later, and goes on over writes and
    commits of the owner. Closing the store closes its iterators.
    """

    @overload
    def fetch(self, key: K, time_from: int, /) -> V_co | None: ...

    @overload
    def fetch(self, key: K, time_from: int, time_to: int, /) -> KeyValueIterator[int, V_co]: ...

    def fetch(
        self, key: K, time_from: int, time_to: int | None = None, /
    ) -> V_co | KeyValueIterator[int, V_co] | None:
        """Return the value of one window; or, given two times, iterate over many.

        Args:
            time_from: The window's start; the earliest start, if `time_to` is given.
            time_to: The latest start.

        Returns:
            Without `time_to` the window's value, or None. A store that retains duplicates returns
            the value that was put last. With it (start, value) of each window of the key, earliest
            first; duplicates in the order they were put.
        """

    def backward_fetch(
        self, key: K, time_from: int, time_to: int, /
    ) -> KeyValueIterator[int, V_co]:
        """Iterate over the same windows as `fetch` with two times, latest first."""

    def fetch_range(
        self, key_from: K | None, key_to: K | None, time_from: int, time_to: int, /
    ) -> KeyValueIterator[Windowed[K], V_co]:
        """Iterate over windows of several keys. Was: fetch with four arguments.

        Args:
            key_from: The first key in order of bytes; None leaves the end open.
            key_to: The last key, inclusive; None leaves the end open.
            time_from: The earliest start.
            time_to: The latest start.
        """

    def backward_fetch_range(
        self, key_from: K | None, key_to: K | None, time_from: int, time_to: int, /
    ) -> KeyValueIterator[Windowed[K], V_co]:
        """Iterate over the same windows as `fetch_range`, in the opposite order."""

    def fetch_all(self, time_from: int, time_to: int, /) -> KeyValueIterator[Windowed[K], V_co]:
        """Iterate over windows of all keys that start in a stretch of time."""

    def backward_fetch_all(
        self, time_from: int, time_to: int, /
    ) -> KeyValueIterator[Windowed[K], V_co]:
        """Iterate over the same windows as `fetch_all`, in the opposite order."""

    def all(self) -> KeyValueIterator[Windowed[K], V_co]:
        """Iterate over all windows."""

    def backward_all(self) -> KeyValueIterator[Windowed[K], V_co]:
        """Iterate over all windows, in the opposite order."""


class WindowStore(ReadOnlyWindowStore[K, V], Protocol[K, V]):
    """A window store as the owning processor sees it."""

    def put(self, key: K, value: V | None, window_start: int) -> None:
        """Write the value of a window; None deletes it.

        A store that retains duplicates adds the value to those of the key and start, and ignores
        None. A window in a segment that has expired is not written: it is counted in
        `dropped-records-total` of the task, and the first is logged.

        Raises:
            SerializationError: The key or value does not fit its serde.
        """

    def read_only(self, isolation_level: IsolationLevel) -> ReadOnlyWindowStore[K, V]:
        """Return a view that other threads may read at the given isolation level."""

    def set_flush_listener(
        self, listener: FlushListener[Windowed[K], V], *, send_old_values: bool
    ) -> bool:
        """Say who hears of a cache flush, as `KeyValueStore.set_flush_listener`."""


class TimestampedWindowStore(ReadOnlyWindowStore[K, ValueAndTimestamp[V]], Protocol[K, V]):
    """A window store that keeps with each value the event time it was written at.

    `fetch_with_timestamp` and `put_with_timestamp` are `fetch` and `put` without the
    `ValueAndTimestamp` object, for operators that call them once a record. `fetch_row` and
    `put_row` are the same, given the bytes that `row_key` returns: for who reads and writes several
    windows of a key.
    """

    @property
    def stream_time(self) -> int:
        """The highest start (ms) the store was written with; -1 before the first."""

    @property
    def segment_interval_ms(self) -> int:
        """What goes away at once, in stream time."""

    def keep_from(self, time: int) -> None:
        """Keep what starts at a time (ms) or later until told otherwise, however old it becomes.

        For final results that are still to be sent on; to be said anew after each start.
        """

    def fetch_kept(
        self, time_from: int, time_to: int
    ) -> KeyValueIterator[Windowed[K], ValueAndTimestamp[V]]:
        """Iterate as `fetch_all` does, also over windows that only `keep_from` keeps."""

    def fetch_with_timestamp(self, key: K, window_start: int) -> tuple[V | None, int]:
        """Return (value, timestamp in ms) of a window; (None, -1) when it has no value."""

    def put_with_timestamp(
        self, key: K, value: V | None, timestamp: int, window_start: int
    ) -> None:
        """Write the value of a window and its timestamp (ms); a value of None deletes it."""

    def row_key(self, key: K) -> bytes:
        """Return the bytes of a key."""

    def fetch_row(self, row_key: bytes, window_start: int) -> tuple[V | None, int]:
        """Do as `fetch_with_timestamp`, given the key's bytes."""

    def put_row(
        self,
        row_key: bytes,
        value: V | None,
        timestamp: int,
        window_start: int,
        *,
        replaces: bool = False,
    ) -> None:
        """Do as `put_with_timestamp`, given the key's bytes.

        Args:
            row_key: What `row_key` returned.
            value: None deletes it.
            timestamp: Its timestamp (ms).
            window_start: When the window starts (ms).
            replaces: Whether the window is known to have a value, as `fetch_row` has just given it:
                that saves the store to note that there is one.
        """

    def put(self, key: K, value: ValueAndTimestamp[V] | None, window_start: int) -> None:
        """Write the value of a window with its timestamp; None deletes it."""

    def read_only(
        self, isolation_level: IsolationLevel
    ) -> ReadOnlyWindowStore[K, ValueAndTimestamp[V]]:
        """Return a view that other threads may read at the given isolation level."""

    def set_flush_listener(
        self, listener: FlushListener[Windowed[K], V], *, send_old_values: bool
    ) -> bool:
        """Say who hears of a cache flush; values come plain."""
