"""The five jobs of benchmarks/stores.py.

Every program does the same operations in the same order: operation i takes the key number
i * 2654435761 mod 2^32 mod keys and the time i * 60 s / operations, and writes i (or what it read,
plus one) as an int64 with zeros behind it. peers/kafka_streams/.../StoreBench.java is the same in
Java. What reads give is added up: equal sums are the check that all did the same.

Before ranges are read, the store is closed and RocksDB merges its files into one each. Otherwise
two stores that differ in nothing but the size of their batches differ by a third, whichever has
just merged its files being the faster one. (Kafka Streams' files stay as they are.) The last job is
what joins and sessions do: a range after every few puts, all of it timed, over what the last commit
left uncommitted. A store that can't do a job leaves it out, in every program.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from rocksdict import Rdict

SPAN_MS = 60_000
COMMIT_EVERY = 10_000
PUTS_PER_RANGE = 10
STEP = 500
RANGES_A_STEP = 20
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


Steps = Generator[None, None, list[Measured]]


@dataclass(frozen=True, slots=True)
class Subject:
    """A store as the jobs see it.

    Attributes:
        get: None for a store that can't read one value by key and time.
        range: None for a store that has no ranges.
        persistent: Whether the store may be closed between the jobs.
    """

    put: Put
    get: Get | None
    range: Range | None
    commit: Callable[[], object]
    close: Callable[[], object]
    persistent: bool = True


@dataclass(frozen=True, slots=True)
class Size:
    """How much of it."""

    operations: int
    keys: int
    value_bytes: int


def name_of(number: int) -> str:
    """Return a key."""
    return f"{number:08d}"


def number_of(operation: int, keys: int) -> int:
    """Return the number of the key that an operation takes; 2^32 keys are all different."""
    return operation * _MULTIPLIER % (1 << 32) % keys


def measure(opened: Callable[[], Subject], directory: Path, size: Size) -> list[Measured]:
    """Do those of the five jobs that the store can do, and close it.

    Args:
        opened: Opens the store; called again after it was closed.
        directory: Where its files are.
        size: How much of it.
    """
    return in_turn([steps(opened, directory, size)])[0]


def in_turn(working: Sequence[Steps]) -> list[list[Measured]]:
    """Let several stores take the steps of their jobs in turn, to the end; return what each took.

    A machine that changes its speed within a second changes it for all of them.
    """
    results: dict[int, list[Measured]] = {}
    while len(results) < len(working):
        for number, run in enumerate(working):
            if number in results:
                continue
            try:
                next(run)
            except StopIteration as end:
                results[number] = end.value
    return [results[number] for number in range(len(working))]


def steps(opened: Callable[[], Subject], directory: Path, size: Size) -> Steps:
    """Do as `measure` does, a few operations a step; what is between two steps is not timed."""
    numbers = [number_of(i, size.keys) for i in range(size.operations)]
    keys = [name_of(number) for number in numbers]
    times = [i * SPAN_MS // size.operations for i in range(size.operations)]
    padding = bytes(size.value_bytes - 8)
    subject = opened()
    get = subject.get

    def put(begin: int, end: int) -> int:
        _put(subject, range(begin, end), keys, times, padding)
        if end == size.operations:
            subject.commit()
        return end - begin

    results = [(yield from _timed("put", size.operations, STEP, put))]
    if get is not None:
        reading = partial(_get, get, keys, times)
        adding = partial(_add, subject, get, keys, times, padding)
        results.append((yield from _timed("get", size.operations, STEP, reading)))
        results.append((yield from _timed("read-modify-write", size.operations, STEP, adding)))
    if subject.range is not None:
        if subject.persistent:
            subject.close()
            _merge_files(directory)
            subject = opened()
        results += yield from _range_steps(subject, numbers, keys, times, size)
    subject.close()
    return results


def _range_steps(
    subject: Subject, numbers: list[int], keys: list[str], times: list[int], size: Size
) -> Steps:
    """Do the jobs that read ranges."""
    scan = subject.range
    assert scan is not None
    together = size.operations // 2 // PUTS_PER_RANGE
    padding = bytes(size.value_bytes - 8)

    def read(begin: int, end: int) -> int:
        return sum(scan(number, size.keys) for number in numbers[begin:end])

    def put_and_read(begin: int, end: int) -> int:
        """Read a short range after every few puts."""
        total = 0
        for first in range(begin * PUTS_PER_RANGE, end * PUTS_PER_RANGE, PUTS_PER_RANGE):
            _put(subject, range(first, first + PUTS_PER_RANGE), keys, times, padding)
            total += scan(numbers[first], size.keys)
        if end == together:
            subject.commit()
        return total

    ranges = size.operations // 100
    return [
        (yield from _timed("range", ranges, RANGES_A_STEP, read)),
        (yield from _timed("puts-and-range", together, RANGES_A_STEP, put_and_read)),
    ]


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


def _timed(
    job: str, operations: int, step: int, run: Callable[[int, int], int]
) -> Generator[None, None, Measured]:
    """Do a job step by step; `run` does the operations from one number to before another."""
    seconds, checksum = 0.0, 0
    for first in range(0, operations, step):
        begin = time.perf_counter()
        checksum += run(first, min(first + step, operations))
        seconds += time.perf_counter() - begin
        yield
    return Measured(job, operations, seconds, checksum)


def _put(
    subject: Subject, numbers: range, keys: list[str], times: list[int], padding: bytes
) -> None:
    """Put some of the keys, with a commit every `COMMIT_EVERY`."""
    put = subject.put
    for i in numbers:
        put(keys[i], _pack(i) + padding, times[i])
        if i % COMMIT_EVERY == 0:
            subject.commit()


def _get(get: Get, keys: list[str], times: list[int], begin: int, end: int) -> int:
    total = 0
    for key, at in zip(keys[begin:end], times[begin:end], strict=True):
        found = get(key, at)
        if found is not None:
            total += _unpack(found)[0]
    return total


def _add(
    subject: Subject,
    get: Get,
    keys: list[str],
    times: list[int],
    padding: bytes,
    begin: int,
    end: int,
) -> int:
    put = subject.put
    total = 0
    for i in range(begin, end):
        key, at = keys[i], times[i]
        found = get(key, at)
        number = 1 if found is None else _unpack(found)[0] + 1
        put(key, _pack(number) + padding, at)
        total += number
        if i % COMMIT_EVERY == 0:
            subject.commit()
    if end == len(keys):
        subject.commit()
    return total
