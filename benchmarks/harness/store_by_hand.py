"""What a program without a framework writes for each kind of store: rocksdict, a layout of keys.

One put, one get or one iterator an operation; no write-ahead log, nothing kept back, no expiry.
Kinds in memory have no such program.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

from rocksdict import DBCompressionType, Options, Rdict, ReadOptions, WriteOptions

from benchmarks.harness.store_jobs import SPAN_MS, Subject, name_of
from benchmarks.harness.store_kinds import Operations
from pystreams.stores.engines.rocksdb.options import WRITE_BUFFER_BYTES

_SECOND_MS = 1000
_pack = struct.Struct(">q").pack
_unpack = struct.Struct(">q").unpack_from
_NAME_BYTES = len(name_of(0))


def by_hand(kind: str, directory: Path) -> Subject:
    """Return rocksdict for one of `BY_HAND`; sessions last half a second."""
    table = _Table(directory / "by-hand")
    put, get, scan = _OPERATIONS[kind](table)
    return Subject(put, get, scan, commit=lambda: None, close=table.database.close)


class _Table:
    """A database, and the entries of a range of its keys."""

    def __init__(self, path: Path) -> None:
        options = Options(raw_mode=True)
        options.create_if_missing(True)
        # As ours: with the default of 64 MiB nothing would ever be read from a file.
        options.set_write_buffer_size(WRITE_BUFFER_BYTES)
        options.set_compression_type(DBCompressionType.none())
        self.database: Any = Rdict(str(path), options)
        self._no_log = WriteOptions()
        self._no_log.disable_wal = True  # type: ignore[method-assign, assignment]

    def put(self, key: bytes, value: bytes) -> None:
        self.database.put(key, value, write_opt=self._no_log)

    def between(self, first: bytes, end: bytes) -> Iterator[bytes]:
        """Return the values of keys from the first to before the end."""
        bounds = ReadOptions()
        bounds.set_iterate_upper_bound(end)
        entries = self.database.iter(bounds)
        entries.seek(first)
        while entries.valid():
            yield entries.value()
            entries.next()

    def last_up_to(self, key: bytes) -> bytes | None:
        """Return the value of the last key that is not above one and begins with the same name."""
        entries = self.database.iter(ReadOptions())
        entries.seek_for_prev(key)
        if not entries.valid() or not entries.key().startswith(key[:_NAME_BYTES]):
            return None
        value: bytes = entries.value()
        return value


def _key_value(table: _Table) -> Operations:
    def scan(key: int, keys: int) -> int:
        found = table.between(name_of(key).encode(), name_of(min(key + 100, keys)).encode())
        return sum(_unpack(value)[0] for value in found)

    return (
        lambda key, value, _: table.put(key.encode(), value),
        lambda key, _: table.database.get(key.encode()),
        scan,
    )


def _timestamped(table: _Table) -> Operations:
    def get(key: str, _: int) -> bytes | None:
        found = table.database.get(key.encode())
        return None if found is None else found[8:]

    def scan(key: int, keys: int) -> int:
        found = table.between(name_of(key).encode(), name_of(min(key + 100, keys)).encode())
        return sum(_unpack(value, 8)[0] for value in found)

    return lambda key, value, at: table.put(key.encode(), _pack(at) + value), get, scan


def _window(table: _Table) -> Operations:
    def stored(key: str, at: int) -> bytes:
        return key.encode() + _pack(at // _SECOND_MS * _SECOND_MS)

    return (
        lambda key, value, at: table.put(stored(key, at), value),
        lambda key, at: table.database.get(stored(key, at)),
        lambda key, _: _sum_of_span(table, key),
    )


def _timestamped_window(table: _Table) -> Operations:
    def stored(key: str, at: int) -> bytes:
        return key.encode() + _pack(at // _SECOND_MS * _SECOND_MS)

    def get(key: str, at: int) -> bytes | None:
        found = table.database.get(stored(key, at))
        return None if found is None else found[8:]

    return (
        lambda key, value, at: table.put(stored(key, at), _pack(at) + value),
        get,
        lambda key, _: _sum_of_span(table, key, value_at=8),
    )


def _duplicates(table: _Table) -> Operations:
    numbers = count(time.time_ns())  # Never one of before a restart.

    def put(key: str, value: bytes, at: int) -> None:
        start = _pack(at // _SECOND_MS * _SECOND_MS)
        table.put(key.encode() + start + _pack(next(numbers)), value)

    return put, None, lambda key, _: _sum_of_span(table, key)


def _session(table: _Table) -> Operations:
    def stored(key: str, at: int) -> bytes:
        start = at // _SECOND_MS * _SECOND_MS
        return key.encode() + _pack(start + _SECOND_MS // 2) + _pack(start)

    return (
        lambda key, value, at: table.put(stored(key, at), value),
        lambda key, at: table.database.get(stored(key, at)),
        lambda key, _: _sum_of_span(table, key),
    )


def _versioned(table: _Table) -> Operations:
    last = _pack((1 << 63) - 1)

    def scan(key: int, _: int) -> int:
        name = name_of(key).encode()
        found = [table.last_up_to(name + _pack(SPAN_MS * part // 10)) for part in range(10)]
        return sum(_unpack(value)[0] for value in found if value is not None)

    return (
        lambda key, value, at: table.put(key.encode() + _pack(at), value),
        lambda key, _: table.last_up_to(key.encode() + last),
        scan,
    )


def _sum_of_span(table: _Table, key: int, *, value_at: int = 0) -> int:
    name = name_of(key).encode()
    found = table.between(name, name + _pack(SPAN_MS + 1))
    return sum(_unpack(value, value_at)[0] for value in found)


_OPERATIONS = {
    "key-value": _key_value,
    "timestamped": _timestamped,
    "window": _window,
    "timestamped window": _timestamped_window,
    "window with duplicates": _duplicates,
    "session": _session,
    "versioned": _versioned,
}

BY_HAND = tuple(_OPERATIONS)
"""The kinds that a program by hand is compared with."""
