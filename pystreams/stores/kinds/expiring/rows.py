"""Rows that expire, on the level of bytes: what a typed store reads and writes, by plain keys.

    write --> stream time goes on --> is the earliest row over? --> `on_expiry`: a portion leaves
        |
        +--> the row, and its entry in order of time       (one batch at the commit)

A row is over once the stream time has passed its timestamp by more than the time to live. Nobody
sees it from then on, whether or not it has left. How many have to leave costs nobody a walk: the
first entries in order of time lead to them, a portion at a time.

The stream time is the highest timestamp that was written here; it is committed with the data, and
found in the changelog.

Invariants:
- Each row has an entry at its timestamp. An entry without such a row is of one that was written
  over; it goes when it would be due. So a write need not read what it replaces.
- `earliest_time` is not above the time of any entry.

Rejected: the time in the row's key (a read by key would be a walk); an index in memory; segments as
windows have them, in which a row would outlive its time by half of it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator, Iterator
from typing import TYPE_CHECKING, Any

from pystreams.record import NO_RECORD, PresentRecord
from pystreams.stores.dirty_map.buffered import ABSENT
from pystreams.stores.dirty_map.index_entries import write_entry
from pystreams.stores.dirty_map.upcoming_keys import UpcomingKeys
from pystreams.stores.files.metadata import pack_long
from pystreams.stores.kinds.expiring.layout import (
    INDEX,
    ROW,
    ROWS_END,
    index_key,
    indexed_key,
    indexed_time,
    timestamp_of,
)

if TYPE_CHECKING:
    from pystreams.stores.contracts.key_value import KeyValueIterator
    from pystreams.stores.dirty_map.buffered import BufferedKeyValueStore
    from pystreams.stores.typed_stores.views import BytesReader

PORTION_BYTES = 1 << 20
"""How much leaves at once."""
_LEAST_BYTES = 1 << 10
"""What each row counts in that, at least; many small ones take room as well."""
_STALE_ENTRIES = 10_000
"""How many entries that lead to nothing go at once, beside those rows: how many there are depends
on when commits were, and what leaves in a portion must not."""
NEVER = sys.maxsize
_NOT_KNOWN = -sys.maxsize


class LiveRows:
    """Reads rows that are not over, by plain keys, from a reader of stored ones.

    Args:
        reader: Reads stored keys.
        ttl_ms: How long a row lives.
        stream_time: Returns the stream time (ms) that the reads are to go by.
    """

    __slots__ = ("_reader", "_stream_time", "_ttl_ms")

    def __init__(self, reader: BytesReader, ttl_ms: int, stream_time: Callable[[], int]) -> None:
        self._reader = reader
        self._ttl_ms = ttl_ms
        self._stream_time = stream_time

    def get(self, key: bytes) -> bytes | None:
        """Return a row, or None."""
        stored = self._reader.get(ROW + key)
        if stored is None or timestamp_of(stored) < self._stream_time() - self._ttl_ms:
            return None
        return stored

    def range(
        self, start: bytes | None, end: bytes | None, *, reverse: bool = False
    ) -> KeyValueIterator[bytes, bytes]:
        """Iterate over rows from `start` (inclusive) to `end` (exclusive)."""
        first = ROW if start is None else ROW + start
        last = ROWS_END if end is None else ROW + end
        return self._live(self._reader.range(first, last, reverse=reverse))

    def approximate_num_entries(self) -> int:
        """Return about how many rows there are; each has an entry in the index as well."""
        return (self._reader.approximate_num_entries() + 1) // 2

    def _live(
        self, entries: KeyValueIterator[bytes, bytes]
    ) -> Generator[tuple[bytes, bytes], None, None]:
        try:
            for key, stored in entries:
                if timestamp_of(stored) >= self._stream_time() - self._ttl_ms:
                    yield key[1:], stored
        finally:
            entries.close()


class ExpiringRows(LiveRows):
    """The rows of one store, for its owner.

    Args:
        buffer: Holds them.
        ttl_ms: How long a row lives.
        plain: Whether what is written is the bare value, to be stored behind the timestamp.

    Attributes:
        stream_time: The highest timestamp (ms) written here, -1 before the first.
        on_expiry: Called within a write, before it, when rows are over that have not left (True);
            and after a write of one that is over by then (False). Lets a portion leave, or sees
            to it that one does before the next record; by default the first, and tells nobody.
    """

    __slots__ = (
        "_buffer",
        "_earliest_time",
        "_last_read",
        "_plain",
        "_upcoming",
        "on_expiry",
        "stream_time",
    )

    def __init__(self, buffer: BufferedKeyValueStore, ttl_ms: int, *, plain: bool) -> None:
        self.stream_time = -1
        super().__init__(buffer, ttl_ms, lambda: self.stream_time)
        self._buffer = buffer
        self._plain = plain
        self._upcoming = UpcomingKeys(buffer, INDEX, ROW)
        self._earliest_time = _NOT_KNOWN
        # What was read last is mostly what is written next.
        self._last_read: tuple[bytes | None, bytes | None] = (None, None)
        self.on_expiry: Callable[[bool], None] = self._drop_portion

    def saw(self, timestamp: int) -> None:
        """Let the stream time (ms) be not below a timestamp; nothing leaves yet."""
        self.stream_time = max(self.stream_time, timestamp)

    def move_to(self, timestamp: int) -> None:
        """Let the stream time (ms) be not below a timestamp, before something is written."""
        if timestamp > self.stream_time:
            self.stream_time = timestamp
        if self.has_expired:
            self.on_expiry(True)

    @property
    def has_expired(self) -> bool:
        """Whether rows may be over that have not left."""
        return self._earliest_time < self.stream_time - self._ttl_ms

    def read(self, key: bytes, default: Any = None) -> bytes | None:
        """Return a row, or None: what `get` does, on the path of each record."""
        buffer, row_key = self._buffer, ROW + key
        stored: bytes | None = buffer.dirty_get(row_key, ABSENT)
        if stored is ABSENT:
            stored = buffer.committed_get(row_key)
        self._last_read = key, stored
        if stored is None or timestamp_of(stored) < self.stream_time - self._ttl_ms:
            return None
        return stored

    def get(self, key: bytes) -> bytes | None:
        """Return a row, or None."""
        return self.read(key)

    def write(
        self,
        key: bytes,
        stored: bytes | None,
        plain: bytes | None,
        timestamp: int,
        record: PresentRecord,
    ) -> None:
        """Write a row with its timestamp (ms), or delete it; see `BufferedKeyValueStore.write`."""
        if timestamp > self.stream_time:
            self.stream_time = timestamp
        if self._earliest_time < self.stream_time - self._ttl_ms:
            self.on_expiry(True)
        buffer = self._buffer
        before = self._known(key)
        if before is not None and (stored is None or timestamp_of(before) != max(timestamp, 0)):
            write_entry(buffer, index_key(timestamp_of(before), key), present=False)
            before = None
        if stored is not None:
            if self._plain:
                stored = pack_long(timestamp) + stored
            if before is None:
                entry = index_key(timestamp, key)
                write_entry(buffer, entry, present=True)
                if self._upcoming.came(entry):
                    self._earliest_time = min(self._earliest_time, max(timestamp, 0))
        self._last_read = None, None
        buffer.write(ROW + key, stored, plain, timestamp, record)
        if stored is not None and max(timestamp, 0) < self.stream_time - self._ttl_ms:
            self.on_expiry(False)

    def leave(self) -> Iterator[tuple[bytes, bytes]]:
        """Delete a portion of the rows that are over, earliest first.

        Yields:
            Key and row of each, when it has been deleted.
        """
        buffer, upcoming = self._buffer, self._upcoming
        room_bytes, stale_entries = PORTION_BYTES, _STALE_ENTRIES
        due = self.stream_time - self._ttl_ms
        while (entry := upcoming.first()) is not None:
            time, key = indexed_time(entry), indexed_key(entry)
            if room_bytes <= 0 or not stale_entries or time >= due:
                break
            upcoming.leave()
            if buffer.dirty_get(entry, ABSENT) is not None:
                write_entry(buffer, entry, present=False)
            stored = buffer.get(ROW + key)
            if stored is None or timestamp_of(stored) != time:
                stale_entries -= 1
                continue
            room_bytes -= max(len(stored), _LEAST_BYTES)
            self._delete(key)
            yield key, stored
        self._earliest_time = NEVER if entry is None else indexed_time(entry)

    def leave_as_read(self) -> tuple[bytes, bytes] | None:
        """Delete the row that was read last, if it is over; return its key and it, else None."""
        key, stored = self._last_read
        if key is None or stored is None:
            return None
        timestamp = timestamp_of(stored)
        if timestamp >= self.stream_time - self._ttl_ms:
            return None
        write_entry(self._buffer, index_key(timestamp, key), present=False)
        self._delete(key)
        return key, stored

    def forget(self, stream_time: int) -> None:
        """Know nothing but what is committed, with its stream time (ms)."""
        self.stream_time = stream_time
        self._upcoming.forget()
        self._earliest_time = _NOT_KNOWN
        self._last_read = None, None

    def _known(self, key: bytes) -> bytes | None:
        """Return the row of a key if it is known without asking the engine."""
        known, stored = self._last_read
        if known == key:
            return stored
        written: bytes | None = self._buffer.dirty_get(ROW + key, None)
        return written

    def _delete(self, key: bytes) -> None:
        self._last_read = None, None
        self._buffer.write(ROW + key, None, None, self.stream_time, NO_RECORD)

    def _drop_portion(self, at_once: bool) -> None:  # noqa: FBT001 - the form of `on_expiry`
        if at_once:
            for _ in self.leave():
                pass
