"""Stores of a user's own that keep entries by time: windows, sessions and versions, in a dict.

They have the least: nothing outlives them, and what is written can't be taken back.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import Any

from pystreams import (
    PUT_RETURN_CODE_NOT_PUT,
    PUT_RETURN_CODE_VALID_TO_UNDEFINED,
    StateStore,
    StateStoreContext,
    StateStoreError,
    VersionedRecord,
    Window,
    Windowed,
)
from pystreams.record import ConsumedMessage

WINDOW_SIZE_MS = 10_000
RETENTION_MS = 60_000
Entry = tuple[Windowed[str], str]

_LONG = struct.Struct(">q")
_TWO_LONGS = struct.Struct(">qq")


class DictStore(StateStore):
    """What the three have in common: entries by key and times, and a stream time."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._open = False

    @property
    def name(self) -> str:
        return self._name

    @property
    def persistent(self) -> bool:
        return False

    @property
    def is_open(self) -> bool:
        return self._open

    def init(self, context: StateStoreContext) -> None:
        self._context = context
        self._entries: dict[Any, Any] = {}
        self._stream_time = -1
        self._open = True

    def close(self) -> None:
        self._open = False

    def destroy(self) -> None:
        self.close()

    def oldest(self) -> int:
        """The oldest time (ms) there is something to see of."""
        return self._stream_time - RETENTION_MS + 1

    def keep(self, entry: Any, value: str | None, time: int) -> bool:
        """Write, unless it is too late; return whether it was written."""
        self._stream_time = max(self._stream_time, time)
        if time < self.oldest():
            return False
        if value is None:
            self._entries.pop(entry, None)
        else:
            self._entries[entry] = value
        return True

    def drop(self) -> None:
        """Count the write at hand as dropped."""
        self._context.dropped.count += 1

    def log(self, key: bytes, value: str | None, timestamp: int | None = None) -> None:
        if self._context.changelog is not None:
            if timestamp is None:
                timestamp = self._context.record.timestamp
            raw = None if value is None else value.encode()
            self._context.changelog.records.append((key, raw, timestamp, ()))


def text_of(message: ConsumedMessage) -> str | None:
    value = message.value()
    return None if value is None else value.decode()


class DictWindowStore(DictStore):
    """Values by key and start."""

    def put(self, key: str, value: str | None, window_start: int) -> None:
        if self.keep((key, window_start), value, window_start):
            self.log(key.encode() + _LONG.pack(window_start), value)
        else:
            self.drop()

    def restore(self, messages: Sequence[ConsumedMessage]) -> None:
        for message in messages:
            raw = message.key() or b""
            (start,) = _LONG.unpack(raw[-8:])
            self.keep((raw[:-8].decode(), start), text_of(message), start)

    def fetch(self, key: str, time_from: int, time_to: int | None = None) -> Any:
        found = self._found(key, key, time_from, time_from if time_to is None else time_to)
        starts = [(windowed.window.start, value) for windowed, value in found]
        if time_to is None:
            return starts[0][1] if starts else None
        return iter(starts)

    def backward_fetch(self, key: str, time_from: int, time_to: int) -> Iterator[tuple[int, str]]:
        found: list[tuple[int, str]] = list(self.fetch(key, time_from, time_to))
        return reversed(found)

    def fetch_range(
        self, key_from: str | None, key_to: str | None, time_from: int, time_to: int
    ) -> Iterator[Entry]:
        return iter(self._found(key_from, key_to, time_from, time_to))

    def backward_fetch_range(
        self, key_from: str | None, key_to: str | None, time_from: int, time_to: int
    ) -> Iterator[Entry]:
        return reversed(self._found(key_from, key_to, time_from, time_to))

    def fetch_all(self, time_from: int, time_to: int) -> Iterator[Entry]:
        return self.fetch_range(None, None, time_from, time_to)

    def backward_fetch_all(self, time_from: int, time_to: int) -> Iterator[Entry]:
        return self.backward_fetch_range(None, None, time_from, time_to)

    def all(self) -> Iterator[Entry]:
        return self.fetch_all(0, self._stream_time)

    def backward_all(self) -> Iterator[Entry]:
        return self.backward_fetch_all(0, self._stream_time)

    def _found(
        self, key_from: str | None, key_to: str | None, time_from: int, time_to: int
    ) -> list[Entry]:
        return [
            (Windowed(key, Window(start, start + WINDOW_SIZE_MS)), value)
            for (key, start), value in sorted(self._entries.items())
            if max(time_from, self.oldest()) <= start <= time_to
            and (key_from is None or key >= key_from)
            and (key_to is None or key <= key_to)
        ]


class DictSessionStore(DictStore):
    """Aggregates by end, start and key."""

    def put(self, session: Windowed[str], aggregate: str | None) -> None:
        key, (start, end) = session
        if not 0 <= start <= end:
            raise ValueError(f"session from {start} to {end}")
        if self.keep((end, start, key), aggregate, end):
            self.log(key.encode() + _TWO_LONGS.pack(end, start), aggregate)
        else:
            self.drop()

    def remove(self, session: Windowed[str]) -> None:
        self.put(session, None)

    def restore(self, messages: Sequence[ConsumedMessage]) -> None:
        for message in messages:
            raw = message.key() or b""
            end, start = _TWO_LONGS.unpack(raw[-16:])
            self.keep((end, start, raw[:-16].decode()), text_of(message), end)

    def fetch_session(self, key: str, start: int, end: int) -> str | None:
        found: str | None = self._entries.get((end, start, key))
        return found if end >= self.oldest() else None

    def fetch(self, key: str) -> Iterator[Entry]:
        return self.fetch_range(key, key)

    def backward_fetch(self, key: str) -> Iterator[Entry]:
        return self.backward_fetch_range(key, key)

    def fetch_range(self, key_from: str | None, key_to: str | None) -> Iterator[Entry]:
        return self.find_sessions_range(key_from, key_to, 0, self._stream_time)

    def backward_fetch_range(self, key_from: str | None, key_to: str | None) -> Iterator[Entry]:
        return reversed(list(self.fetch_range(key_from, key_to)))

    def find_sessions(self, key: str, earliest_end: int, latest_start: int) -> Iterator[Entry]:
        return self.find_sessions_range(key, key, earliest_end, latest_start)

    def backward_find_sessions(
        self, key: str, earliest_end: int, latest_start: int
    ) -> Iterator[Entry]:
        return self.backward_find_sessions_range(key, key, earliest_end, latest_start)

    def find_sessions_range(
        self, key_from: str | None, key_to: str | None, earliest_end: int, latest_start: int
    ) -> Iterator[Entry]:
        return iter(
            [
                (Windowed(key, Window(start, end)), value)
                for (end, start, key), value in sorted(self._entries.items())
                if end >= max(earliest_end, self.oldest())
                and start <= latest_start
                and (key_from is None or key >= key_from)
                and (key_to is None or key <= key_to)
            ]
        )

    def backward_find_sessions_range(
        self, key_from: str | None, key_to: str | None, earliest_end: int, latest_start: int
    ) -> Iterator[Entry]:
        found = self.find_sessions_range(key_from, key_to, earliest_end, latest_start)
        return reversed(list(found))

    def find_sessions_by_end(self, earliest_end: int, latest_end: int) -> Iterator[Entry]:
        found = self.find_sessions_range(None, None, earliest_end, self._stream_time)
        return (entry for entry in found if entry[0].window.end <= latest_end)


class DictVersionedStore(DictStore):
    """Versions by key and time; deletions are versions without a value."""

    def oldest(self) -> int:
        return self._stream_time - RETENTION_MS

    def keep(self, entry: Any, value: str | None, time: int) -> bool:
        if time < self.oldest():
            return False
        self._stream_time = max(self._stream_time, time)
        self._entries[entry] = value
        return True

    def put(self, key: str, value: str | None, timestamp: int) -> int:
        if timestamp < 0:
            raise StateStoreError(self._name, f"can't put a version at {timestamp} ms")
        if not self.keep((key, timestamp), value, timestamp):
            self.drop()
            return PUT_RETURN_CODE_NOT_PUT
        self.log(key.encode(), value, timestamp)
        end = self.end_of(key, timestamp)
        return PUT_RETURN_CODE_VALID_TO_UNDEFINED if end is None else end

    def delete(self, key: str, timestamp: int) -> VersionedRecord[str] | None:
        found = self.get(key, timestamp)
        return None if self.put(key, None, timestamp) == PUT_RETURN_CODE_NOT_PUT else found

    def restore(self, messages: Sequence[ConsumedMessage]) -> None:
        for message in messages:
            _, timestamp = message.timestamp()
            key = (message.key() or b"").decode()
            self.keep((key, timestamp), text_of(message), timestamp)

    def get(self, key: str, as_of: int | None = None) -> VersionedRecord[str] | None:
        found = [
            record for record in self._versions(key) if as_of is None or record.timestamp <= as_of
        ]
        if not found:
            return None
        latest = found[-1]
        if latest.valid_to is None:
            return latest
        over = as_of is None or latest.valid_to <= as_of or as_of < self.oldest()
        return None if over else latest

    def get_range(
        self,
        key: str,
        from_time: int | None = None,
        to_time: int | None = None,
        *,
        descending: bool = False,
    ) -> Iterator[VersionedRecord[str]]:
        if from_time is not None and to_time is not None and from_time > to_time:
            raise ValueError(f"range from {from_time} to {to_time}")
        found = [
            record
            for record in self._versions(key)
            if (to_time is None or record.timestamp <= to_time)
            and (from_time is None or record.valid_to is None or record.valid_to > from_time)
        ]
        return iter(found[::-1] if descending else found)

    def end_of(self, key: str, timestamp: int) -> int | None:
        later = (time for found, time in self._entries if found == key and time > timestamp)
        return min(later, default=None)

    def _versions(self, key: str) -> list[VersionedRecord[str]]:
        """The versions of a key that have a value, oldest first."""
        return [
            VersionedRecord(value, time, self.end_of(key, time))
            for (found, time), value in sorted(self._entries.items())
            if found == key and value is not None
        ]
