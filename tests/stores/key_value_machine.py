"""Random lives of a key-value store beside a plain dict of it.

The store may keep timestamps, cache, or be of limited size (`lru_map`); the model is the same, a
dict in order of use. What is committed of the changelog is kept, and every restart restores from
it what the store lacks.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from hypothesis import strategies as st
from hypothesis.stateful import Bundle, initialize, invariant, rule

from pystreams import IsolationLevel, StoreEngine, StoreNotAvailableError, ValueAndTimestamp
from pystreams.stores.build import build_store
from tests.stores.machine_parts import LEVELS, MortalMachine, OpenRead
from tests.stores.support import CHANGELOG, Home, Message, spec_of

KEYS = st.text(alphabet="ab\xff", max_size=3)
NUMBERS = st.integers(0, 9)
TIMES = st.integers(0, 99)
MAX_ENTRIES = 5


def in_order(key: str) -> bytes:
    return key.encode()


@dataclass
class Model:
    """What a store holds: values by key, the key used longest ago first.

    Attributes:
        max_entries: How many keys it keeps; None for all.
    """

    max_entries: int | None
    values: dict[str, Any] = field(default_factory=dict)

    def copy(self) -> Model:
        return Model(self.max_entries, dict(self.values))

    def empty(self) -> Model:
        return Model(self.max_entries)

    def use(self, key: str) -> Any:
        """Return a key's value, or None; it is used last from now on."""
        value = self.values.pop(key, None)
        if value is not None:
            self.values[key] = value
        return value

    def put(self, key: str, value: Any) -> None:
        """Write a value; None deletes."""
        self.values.pop(key, None)
        if value is None:
            return
        if self.max_entries is not None and len(self.values) >= self.max_entries:
            del self.values[next(iter(self.values))]
        self.values[key] = value

    def rolled_back(self, committed: Model) -> Model:
        """Return what is committed; what comes back was used longest ago."""
        back = sorted(committed.values.keys() - self.values.keys(), key=in_order, reverse=True)
        kept = [key for key in self.values if key in committed.values]
        return Model(self.max_entries, {key: committed.values[key] for key in [*back, *kept]})

    def between(self, start: str | None, end: str | None) -> list[tuple[str, Any]]:
        low = None if start is None else in_order(start)
        high = None if end is None else in_order(end)
        return [
            (key, self.values[key])
            for key in sorted(self.values, key=in_order)
            if (low is None or in_order(key) >= low) and (high is None or in_order(key) <= high)
        ]


class Opened(NamedTuple):
    store: Any
    entries: Iterator[tuple[str, Any]]
    reverse: bool


class KeyValueStoreMachine(MortalMachine):
    """`flushed` is what a crash falls back to; `log` is what is committed of the changelog."""

    current: Model
    committed: Model
    flushed: Model
    timestamped = False
    caching = False
    read_cache_bytes = 0
    transactional = True
    exactly_once = False
    max_entries: int | None = None
    iterators = Bundle("iterators")
    reads = Bundle("reads")

    # Life

    @initialize()
    def open_store(self) -> None:
        self.directory = Path(tempfile.mkdtemp())
        self.lives = 0
        self.log: list[Message] = []
        self.current = Model(self.max_entries)
        self.committed, self.flushed = self.current.empty(), self.current.empty()
        self.offset = self.flushed_offset = None
        self.open_reads: list[OpenRead] = []
        self.start()

    def start(self) -> None:
        self.home = Home(
            self.directory / str(self.lives),
            cache_enabled=self.caching,
            read_cache_bytes=self.read_cache_bytes,
            exactly_once=self.exactly_once,
        )
        self.open()

    def open(self) -> None:
        spec = spec_of(
            self.engine,
            timestamped=self.timestamped,
            caching=self.caching,
            max_entries=self.max_entries,
            transactional=self.transactional,
        )
        self.store: Any = build_store(spec)
        self.store.init(self.home.context())

    def value(self, number: int, time: int) -> Any:
        """A number as the store takes and gives it."""
        return ValueAndTimestamp(number, time) if self.timestamped else number

    @rule()
    def flush_cache(self) -> None:
        """A thread whose caches are full flushes them between two commits."""
        self.store.flush_cache()

    def commit_to_kafka(self) -> None:
        self.store.flush_cache()
        records = self.home.changelog.records
        for key, value, timestamp, _ in records:
            self.log.append(Message(key, value, len(self.log), timestamp))
        records.clear()

    @rule()
    def commit(self) -> None:
        self.commit_to_kafka()
        self.offset = len(self.log) - 1 if self.log else None
        self.store.commit({} if self.offset is None else {CHANGELOG: self.offset})
        self.committed = self.current.copy()

    @rule()
    def roll_back(self) -> None:
        self.store.rollback()
        self.home.changelog.records.clear()
        self.current = self.current.rolled_back(self.committed)

    def come_back(self) -> None:
        self.start()
        self.current = self.committed.copy()
        assert list(self.store.all()) == self.current.between(None, None)
        self.restore_rest()

    def restore_rest(self) -> None:
        """Restore what the changelog has beyond the store, in two batches."""
        rest = self.log[0 if self.offset is None else self.offset + 1 :]
        half = len(rest) // 2
        for batch in (rest[:half], rest[half:]):
            self.restore_batch(batch)

    def restore_batch(self, batch: list[Message]) -> None:
        if not batch:
            return
        for message in batch:
            self.current.put(*self.entry_of(message))
        self.store.restore(batch)
        self.offset = batch[-1].message_offset
        self.committed = self.current.copy()

    def entry_of(self, message: Message) -> tuple[str, Any]:
        """The key and the value of a record of the changelog."""
        key, value = (message.message_key or b"").decode(), message.message_value
        return key, None if value is None else self.value(value[-1], message.timestamp_ms)

    @rule(entries=st.lists(st.tuples(KEYS, st.none() | NUMBERS, TIMES), min_size=1, max_size=4))
    def restore(self, entries: list[tuple[str, int | None, int]]) -> None:
        """What another owner wrote meanwhile comes through the changelog."""
        self.roll_back()
        first = len(self.log)
        for key, number, time in entries:
            value = None if number is None else bytes((0,) * 7 + (number,))
            self.log.append(Message(key.encode(), value, len(self.log), time))
        self.restore_batch(self.log[first:])

    # Writes and reads of the owner

    @rule(key=KEYS, number=NUMBERS, time=TIMES)
    def put(self, key: str, number: int, time: int) -> None:
        self.home.record.timestamp = time
        value = self.value(number, time)
        self.store.put(key, value)
        self.current.put(key, value)

    @rule(key=KEYS, number=NUMBERS, time=TIMES)
    def put_if_absent(self, key: str, number: int, time: int) -> None:
        value = self.value(number, time)
        there = self.current.use(key)
        assert self.store.put_if_absent(key, value) == there
        if there is None:
            self.current.put(key, value)

    @rule(entries=st.lists(st.tuples(KEYS, st.none() | NUMBERS), max_size=6), time=TIMES)
    def put_all(self, entries: list[tuple[str, int | None]], time: int) -> None:
        values = [
            (key, None if number is None else self.value(number, time)) for key, number in entries
        ]
        self.store.put_all(values)
        for key, value in values:
            self.current.put(key, value)

    @rule(key=KEYS)
    def delete(self, key: str) -> None:
        assert self.store.delete(key) == self.current.values.get(key)
        self.current.put(key, None)

    @rule(key=KEYS)
    def get(self, key: str) -> None:
        assert self.store.get(key) == self.current.use(key)

    @rule(start=st.none() | KEYS, end=st.none() | KEYS)
    def read_ranges(self, start: str | None, end: str | None) -> None:
        expected = self.current.between(start, end)
        assert list(self.store.range(start, end)) == expected
        assert list(self.store.reverse_range(start, end)) == expected[::-1]

    @rule(prefix=st.binary(max_size=2))
    def scan(self, prefix: bytes) -> None:
        expected = [
            entry
            for entry in self.current.between(None, None)
            if in_order(entry[0]).startswith(prefix)
        ]
        assert list(self.store.prefix_scan(prefix)) == expected

    @rule(target=iterators, reverse=st.booleans())
    def open_iterator(self, *, reverse: bool) -> Opened:
        entries = self.store.reverse_all() if reverse else self.store.all()
        return Opened(self.store, entries, reverse)

    @rule(opened=iterators)
    def advance_iterator(self, opened: Opened) -> None:
        entry = self.next_of(opened)
        if entry is not None:
            assert self.current.values.get(entry[0]) == entry[1]

    @rule(opened=iterators)
    def drain_iterator(self, opened: Opened) -> None:
        """An iterator yields, from where it stands, what the store holds now."""
        first = self.next_of(opened)
        if first is None:
            return
        assert self.current.values.get(first[0]) == first[1]
        self.put(first[0] + "b", 5, 7)
        ahead = [
            entry
            for entry in self.current.between(None, None)
            if (
                in_order(entry[0]) < in_order(first[0])
                if opened.reverse
                else in_order(entry[0]) > in_order(first[0])
            )
        ]
        assert list(opened.entries) == (ahead[::-1] if opened.reverse else ahead)

    def next_of(self, opened: Opened) -> tuple[str, Any] | None:
        """The next entry; None at the end, or when the store was closed in between."""
        try:
            return next(opened.entries, None)
        except StoreNotAvailableError:
            assert not opened.store.is_open
            return None

    # Readers of other threads

    def visible(self, level: IsolationLevel) -> dict[str, Any]:
        committed = level is IsolationLevel.READ_COMMITTED
        return (self.committed if committed else self.current).values

    @rule(target=reads, level=LEVELS, reverse=st.booleans())
    def open_read(self, level: IsolationLevel, *, reverse: bool) -> OpenRead:
        view = self.store.read_only(level)
        entries = view.reverse_all() if reverse else view.all()
        states = [dict(self.visible(level))]
        read = OpenRead(self.store, level, entries, in_order, reverse, states)
        self.open_reads.append(read)
        return read

    @rule(read=reads)
    def advance_read(self, read: OpenRead) -> None:
        read.advance()

    @rule(level=LEVELS, start=st.none() | KEYS, end=st.none() | KEYS)
    def read_ranges_of_a_view(
        self, level: IsolationLevel, start: str | None, end: str | None
    ) -> None:
        expected = Model(None, self.visible(level)).between(start, end)
        view = self.store.read_only(level)
        assert list(view.range(start, end)) == expected
        assert list(view.reverse_range(start, end)) == expected[::-1]

    @invariant()
    def counts_and_views_agree(self) -> None:
        self.count_step()
        self.check_what_waits(self.store._buffer.dirty)
        assert self.store.committed_offset(CHANGELOG) == self.offset
        if self.max_entries is not None:
            assert self.store.approximate_num_entries() == len(self.current.values)
        committed = self.store.read_only(IsolationLevel.READ_COMMITTED)
        uncommitted = self.store.read_only(IsolationLevel.READ_UNCOMMITTED)
        assert dict(committed.all()) == self.visible(IsolationLevel.READ_COMMITTED)
        assert dict(uncommitted.reverse_all()) == self.current.values
        for read in self.open_reads:
            read.remember(self.visible(read.level))

    def check_what_waits(self, dirty: Mapping[bytes, bytes | None]) -> None:
        counted = sum(len(key) + len(value or b"") for key, value in dirty.items())
        assert self.store.approximate_num_uncommitted_bytes() == counted
        assert 0 <= self.store.cached_bytes() <= counted

    def teardown(self) -> None:
        if hasattr(self, "store"):
            self.store.close()
            shutil.rmtree(self.directory)


class CachedKeyValueStoreMachine(KeyValueStoreMachine):
    caching = True


class TimestampedStoreMachine(KeyValueStoreMachine):
    timestamped = True


class RocksDBStoreMachine(KeyValueStoreMachine):
    engine = StoreEngine.ROCKSDB


class CachedRocksDBStoreMachine(RocksDBStoreMachine):
    caching = True


class ReadCachedRocksDBStoreMachine(RocksDBStoreMachine):
    """The cache is so small that its generations change every few keys."""

    read_cache_bytes = 60


class TwiceCachedRocksDBStoreMachine(ReadCachedRocksDBStoreMachine):
    caching = True


class TimestampedRocksDBStoreMachine(RocksDBStoreMachine):
    timestamped = True


class TwiceCachedTimestampedRocksDBStoreMachine(TwiceCachedRocksDBStoreMachine):
    timestamped = True


class LruMapMachine(KeyValueStoreMachine):
    max_entries = MAX_ENTRIES


class TimestampedLruMapMachine(LruMapMachine):
    timestamped = True


PLAIN = (
    KeyValueStoreMachine,
    CachedKeyValueStoreMachine,
    RocksDBStoreMachine,
    CachedRocksDBStoreMachine,
    ReadCachedRocksDBStoreMachine,
    TwiceCachedRocksDBStoreMachine,
)
TIMESTAMPED = (
    TimestampedStoreMachine,
    TimestampedRocksDBStoreMachine,
    TwiceCachedTimestampedRocksDBStoreMachine,
)
LRU_MAPS = (LruMapMachine, TimestampedLruMapMachine)
MACHINES: tuple[type[KeyValueStoreMachine], ...] = (*PLAIN, *TIMESTAMPED, *LRU_MAPS)
