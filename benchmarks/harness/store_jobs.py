"""The five jobs of benchmarks/stores.py, and the stores of each kind they are done with.

Every program does the same operations in the same order: operation i takes the key number
i * 2654435761 mod 2^32 mod keys and the time i * 60 s / operations, and writes i (or what it read,
plus one) as an int64 with zeros behind it. peers/kafka_streams/.../StoreBench.java is the same in
Java. What reads give is added up: equal sums are the check that all did the same.

Before ranges are read, the store is closed and RocksDB merges its files into one each. Otherwise
two stores that differ in nothing but the size of their batches differ by a third, whichever has
just merged its files being the faster one. (Kafka Streams' files stay as they are.) The last job is
what joins and sessions do: a range after every few puts, all of it timed, over what the last commit
left uncommitted.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rocksdict import Rdict

from pystreams import serdes
from pystreams.ids import TaskId
from pystreams.record import RecordContext
from pystreams.stores.api import StateStoreContext, ValueAndTimestamp
from pystreams.stores.factories import Stores
from pystreams.stores.read_cache import ReadCacheBudget
from pystreams.stores.windowed_api import Window, Windowed

KINDS = ("key-value", "timestamped", "window", "session", "versioned")
RETENTION_MS = 3_600_000
SPAN_MS = 60_000
COMMIT_EVERY = 10_000
PUTS_PER_RANGE = 10
READ_CACHE_BYTES = 10 << 20
_MULTIPLIER = 2_654_435_761
_unpack = struct.Struct(">q").unpack_from
_pack = struct.Struct(">q").pack

Put = Callable[[str, bytes, int], object]
Get = Callable[[str, int], bytes | None]
Range = Callable[[int, int], int]


@dataclass(frozen=True, slots=True)
class Measured:
    """One job done.

    Attributes:
        job: put, get, read-modify-write, range or puts-and-range.
        operations: How many.
        seconds: How long they took.
        checksum: Sum of what was read.
    """

    job: str
    operations: int
    seconds: float
    checksum: int

    @property
    def per_s(self) -> float:
        """Operations a second."""
        return self.operations / self.seconds


@dataclass(frozen=True, slots=True)
class Subject:
    """A store as the jobs see it."""

    put: Put
    get: Get
    range: Range
    commit: Callable[[], object]
    close: Callable[[], object]


@dataclass(frozen=True, slots=True)
class Size:
    """How much of it."""

    operations: int
    keys: int
    value_bytes: int


def name_of(number: int) -> str:
    """Return a key."""
    return f"{number:08d}"


def measure(opened: Callable[[], Subject], directory: Path, size: Size) -> list[Measured]:
    """Do the five jobs and close the store.

    Args:
        opened: Opens the store; called again after it was closed.
        directory: Where its files are.
        size: How much of it.
    """
    numbers = [i * _MULTIPLIER % (1 << 32) % size.keys for i in range(size.operations)]
    keys = [name_of(number) for number in numbers]
    times = [i * SPAN_MS // size.operations for i in range(size.operations)]
    padding = bytes(size.value_bytes - 8)
    subject = opened()
    results = [
        _timed("put", size.operations, lambda: _put_all(subject, keys, times, padding)),
        _timed("get", size.operations, lambda: _get_all(subject, keys, times)),
        _timed("read-modify-write", size.operations, lambda: _add(subject, keys, times, padding)),
    ]
    subject.close()
    _merge_files(directory)
    again = opened()
    ranges = numbers[: size.operations // 100]
    together = size.operations // 2 // PUTS_PER_RANGE
    results += [
        _timed("range", len(ranges), lambda: sum(again.range(one, size.keys) for one in ranges)),
        _timed(
            "puts-and-range",
            together,
            lambda: _put_and_read(again, together, numbers, keys, times, size),
        ),
    ]
    again.close()
    return results


def _merge_files(directory: Path) -> None:
    """Let RocksDB merge the files of each column family of the databases in a directory."""
    for current in directory.rglob("CURRENT"):
        path = str(current.parent)
        database = Rdict(path)
        families = [database.get_column_family(name) for name in Rdict.list_cf(path)]
        for family in families:
            family.compact_range(None, None)
            family.close()
        database.close()


def _timed(job: str, operations: int, run: Callable[[], int]) -> Measured:
    begin = time.perf_counter()
    checksum = run()
    return Measured(job, operations, time.perf_counter() - begin, checksum)


def _put_all(subject: Subject, keys: list[str], times: list[int], padding: bytes) -> int:
    _put(subject, range(len(keys)), keys, times, padding)
    subject.commit()
    return len(keys)


def _put(
    subject: Subject, numbers: range, keys: list[str], times: list[int], padding: bytes
) -> None:
    """Put some of the keys, with a commit every `COMMIT_EVERY`."""
    put = subject.put
    for i in numbers:
        put(keys[i], _pack(i) + padding, times[i])
        if i % COMMIT_EVERY == 0:
            subject.commit()


def _get_all(subject: Subject, keys: list[str], times: list[int]) -> int:
    get = subject.get
    total = 0
    for key, at in zip(keys, times, strict=True):
        found = get(key, at)
        if found is not None:
            total += _unpack(found)[0]
    return total


def _add(subject: Subject, keys: list[str], times: list[int], padding: bytes) -> int:
    put, get = subject.put, subject.get
    total = 0
    for i, (key, at) in enumerate(zip(keys, times, strict=True)):
        found = get(key, at)
        number = 1 if found is None else _unpack(found)[0] + 1
        put(key, _pack(number) + padding, at)
        total += number
        if i % COMMIT_EVERY == 0:
            subject.commit()
    subject.commit()
    return total


def _put_and_read(
    subject: Subject,
    ranges: int,
    numbers: list[int],
    keys: list[str],
    times: list[int],
    size: Size,
) -> int:
    """Read a short range after every few puts."""
    scan = subject.range
    padding = bytes(size.value_bytes - 8)
    total = 0
    for begin in range(0, ranges * PUTS_PER_RANGE, PUTS_PER_RANGE):
        _put(subject, range(begin, begin + PUTS_PER_RANGE), keys, times, padding)
        total += scan(numbers[begin], size.keys)
    subject.commit()
    return total


def ours(kind: str, directory: Path, *, transactional: bool) -> Subject:
    """Return our store of a kind, as the runtime would open it, without a changelog."""
    store: Any = _builder(kind, transactional=transactional).with_logging_disabled().build()
    store.init(
        StateStoreContext(
            application_id="stores",
            task_id=TaskId(0, 0),
            task_directory=directory,
            changelog=None,
            record=RecordContext(),
            changelog_topic="stores-s-changelog",
            read_cache_budget=ReadCacheBudget(READ_CACHE_BYTES),
        )
    )
    put, get, scan = _OPERATIONS[kind](store)
    return Subject(put, get, scan, lambda: store.commit({}), store.close)


def _builder(kind: str, *, transactional: bool) -> Any:
    types = (serdes.STRING, serdes.BYTES)
    if kind == "key-value":
        builder = Stores.key_value_store_builder(Stores.persistent_key_value_store("s"), *types)
    elif kind == "timestamped":
        builder = Stores.timestamped_key_value_store_builder(
            Stores.persistent_timestamped_key_value_store("s"), *types
        )
    elif kind == "window":
        supplier = Stores.persistent_window_store("s", RETENTION_MS, 1000)
        builder = Stores.window_store_builder(supplier, *types)
    elif kind == "session":
        supplier = Stores.persistent_session_store("s", RETENTION_MS)
        builder = Stores.session_store_builder(supplier, *types)
    else:
        supplier = Stores.persistent_versioned_key_value_store("s", RETENTION_MS)
        builder = Stores.versioned_key_value_store_builder(supplier, *types)
    return builder if transactional else builder.with_transactional_disabled()


def _key_value(store: Any) -> tuple[Put, Get, Range]:
    def scan(key: int, keys: int) -> int:
        entries = store.range(name_of(key), name_of(min(key + 99, keys - 1)))
        return sum(_unpack(value)[0] for _, value in entries)

    return (
        lambda key, value, at: store.put(key, value),  # noqa: ARG005 - no time in a plain store
        lambda key, at: store.get(key),  # noqa: ARG005
        scan,
    )


def _timestamped(store: Any) -> tuple[Put, Get, Range]:
    def put(key: str, value: bytes, at: int) -> None:
        store.put(key, ValueAndTimestamp(value, at))

    def get(key: str, at: int) -> bytes | None:
        found = store.get(key)
        return None if found is None else found.value

    def scan(key: int, keys: int) -> int:
        entries = store.range(name_of(key), name_of(min(key + 99, keys - 1)))
        return sum(_unpack(found.value)[0] for _, found in entries)

    return put, get, scan


def _window(store: Any) -> tuple[Put, Get, Range]:
    return (
        lambda key, value, at: store.put(key, value, at // 1000 * 1000),
        lambda key, at: store.fetch(key, at // 1000 * 1000),
        lambda key, _: sum(_unpack(v)[0] for _, v in store.fetch(name_of(key), 0, SPAN_MS)),
    )


def _session(store: Any) -> tuple[Put, Get, Range]:
    def put(key: str, value: bytes, at: int) -> None:
        start = at // 1000 * 1000
        store.put(Windowed(key, Window(start, start + 500)), value)

    def get(key: str, at: int) -> bytes | None:
        start = at // 1000 * 1000
        found: bytes | None = store.fetch_session(key, start, start + 500)
        return found

    def scan(key: int, _: int) -> int:
        return sum(_unpack(v)[0] for _, v in store.find_sessions(name_of(key), 0, SPAN_MS))

    return put, get, scan


def _versioned(store: Any) -> tuple[Put, Get, Range]:
    def get(key: str, at: int) -> bytes | None:
        found = store.get(key)
        return None if found is None else found.value

    def scan(key: int, _: int) -> int:
        found = [store.get(name_of(key), SPAN_MS * part // 10) for part in range(10)]
        return sum(_unpack(one.value)[0] for one in found if one is not None)

    return (store.put, get, scan)


_OPERATIONS: dict[str, Callable[[Any], tuple[Put, Get, Range]]] = {
    "key-value": _key_value,
    "timestamped": _timestamped,
    "window": _window,
    "session": _session,
    "versioned": _versioned,
}
