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
- Each row has an entry, not later than its timestamp. What becomes of an entry is seen when it is
  due: if its row is there and later, it moves to the row's timestamp; else it goes. So a write
  need not read what it replaces, and a row that is known to be there is written over without a
  look at the index.
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
from pystreams.stores.files.metadata import pack_long, unpack_long
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
_DROPPED_ENTRIES = 10_000
"""How many entries that lead to no row that is over go at once, beside those rows: how many there
are depends on when commits were, and what leaves in a portion must not."""
NEVER = sys.maxsize
_NOT_KNOWN = -sys.maxsize


class LiveRows:
    """Reads rows that are not over, by plain keys, from a reader of stored ones.

    Args:
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
        plain: Whether what is written is the bare value, to be stored behind the timestamp.

    Attributes:
        stream_time: The highest timestamp (ms) written here, -1 before the first.
        on_expiry: Called within a write, before it, when rows are over that have not left (True);
            and after a write of one that is over by then (False). Lets a portion leave, or sees
            to it that one does before the next record; by default the first, and tells nobody.
    """

    __slots__ = (
        "_buffer",
        "_droppable",
        "_due_row",
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
        self._droppable = 0
        self._due_row: tuple[bytes, bytes] | None = None
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
        if self._earliest_time < self.stream_time - self._ttl_ms:
            self._let_leave()

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

    def sent(self, key: bytes) -> bytes | None:
        """Return a row as it was sent downstream, or None; one that is over until that is told."""
        return self._buffer.get_sent(ROW + key)

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
            self._let_leave()
        buffer, row_key = self._buffer, ROW + key
        if stored is not None:
            if self._plain:
                stored = pack_long(timestamp) + stored
            known, before = self._last_read
            if known != key:
                before = buffer.known_get(row_key)
            if before is None or timestamp < unpack_long(before)[0]:
                self._index(timestamp, key)
        self._last_read = None, None
        buffer.write(row_key, stored, plain, timestamp, record)
        if stored is not None and max(timestamp, 0) < self.stream_time - self._ttl_ms:
            self.on_expiry(False)

    def leave(self) -> Iterator[tuple[bytes, bytes]]:
        """Delete a portion of the rows that are over, earliest first.

        Yields:
            Key and row of each, when it has been deleted.
        """
        room_bytes, self._droppable = PORTION_BYTES, _DROPPED_ENTRIES
        while room_bytes > 0 and (row := self._due_row or self._next_due()) is not None:
            self._due_row = None
            key, stored = row
            room_bytes -= max(len(stored), _LEAST_BYTES)
            self._drop_entry(index_key(self._earliest_time, key))
            self._delete(key)
            yield row
        first = self._upcoming.first()
        self._earliest_time = NEVER if first is None else indexed_time(first)

    def leave_as_read(self) -> tuple[bytes, bytes] | None:
        """Delete the row that was read last, if it is over; return its key and it, else None."""
        key, stored = self._last_read
        if key is None or stored is None:
            return None
        timestamp = timestamp_of(stored)
        if timestamp >= self.stream_time - self._ttl_ms:
            return None
        self._delete(key)
        return key, stored

    def forget(self, stream_time: int) -> None:
        """Know nothing but what is committed, with its stream time (ms)."""
        self.stream_time = stream_time
        self._upcoming.forget()
        self._earliest_time = _NOT_KNOWN
        self._due_row = None
        self._last_read = None, None

    def _let_leave(self) -> None:
        """Let what is over leave, if it is more than entries that lead to nothing."""
        self._droppable = _DROPPED_ENTRIES
        self._due_row = self._next_due()
        if self.has_expired:
            self.on_expiry(True)
            self._due_row = None

    def _next_due(self) -> tuple[bytes, bytes] | None:
        """Return key and row of the first entry if that row is over; see to entries before it."""
        upcoming, buffer = self._upcoming, self._buffer
        end = index_key(self.stream_time - self._ttl_ms, b"")
        while (entry := upcoming.first()) is not None and entry < end and self._droppable:
            key = indexed_key(entry)
            stored = buffer.get(ROW + key)
            if stored is not None and timestamp_of(stored) <= indexed_time(entry):
                self._earliest_time = indexed_time(entry)
                return key, stored
            self._droppable -= 1
            self._drop_entry(entry)
            if stored is not None:
                self._index(timestamp_of(stored), key)
        self._earliest_time = NEVER if entry is None else indexed_time(entry)
        return None

    def _drop_entry(self, entry: bytes) -> None:
        """Delete an entry, which is the first."""
        self._upcoming.leave()
        if self._buffer.dirty_get(entry, ABSENT) is not None:
            write_entry(self._buffer, entry, present=False)

    def _index(self, timestamp: int, key: bytes) -> None:
        """Write the entry of a key at a timestamp (ms)."""
        entry = index_key(timestamp, key)
        write_entry(self._buffer, entry, present=True)
        if self._upcoming.came(entry) and timestamp < self._earliest_time:
            self._earliest_time = max(timestamp, 0)

    def _delete(self, key: bytes) -> None:
        self._last_read = None, None
        self._buffer.write(ROW + key, None, None, self.stream_time, NO_RECORD)

    def _drop_portion(self, at_once: bool) -> None:  # noqa: FBT001 - the form of `on_expiry`
        if at_once:
            for _ in self.leave():
                pass
