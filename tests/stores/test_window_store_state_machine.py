"""Random use of a window store beside a plain model: commits, rollbacks, restarts, crashes."""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, rule

from pystreams.config.guarantee import IsolationLevel
from pystreams.errors import StoreNotAvailableError
from pystreams.serdes import LONG, STRING
from pystreams.stores.build import build_window_store
from pystreams.stores.spec import Retention, StoreEngine, StoreKind, StoreSpec
from pystreams.stores.window_keys import MAX_TIME, key_of, start_of, window_key
from tests.stores.support import CHANGELOG, Home, Message

if TYPE_CHECKING:
    from collections.abc import Iterator

RETENTION_MS = 100
INTERVAL_MS = 50
KEYS = st.text(alphabet="ab\x00", max_size=2)
NUMBERS = st.none() | st.integers(0, 9)
DELTAS = st.integers(-170, 60)
"""Starts are drawn around the stream time: expired, late, and moving it."""

Entry = tuple[str, int]
"""A key and the start of a window."""


def segment_of(entry: Entry) -> int:
    return entry[1] // INTERVAL_MS


def in_order(entry: Entry) -> tuple[int, bytes]:
    return segment_of(entry), window_key(entry[0].encode(), entry[1])


@dataclass
class Model:
    """What a store holds: numbers by window, its stream time, and what waits to be dropped."""

    numbers: dict[Entry, int] = field(default_factory=dict)
    time: int = -1
    bound: int | None = None

    def copy(self) -> Model:
        return replace(self, numbers=dict(self.numbers))

    def oldest_live(self) -> int:
        return max(0, self.time - RETENTION_MS) // INTERVAL_MS

    def advance(self, time: int) -> None:
        before = self.oldest_live()
        self.time = max(self.time, time)
        if self.oldest_live() != before:
            self.bound = self.oldest_live()

    def put(self, entry: Entry, number: int | None) -> None:
        self.advance(entry[1])
        if segment_of(entry) < self.oldest_live():
            return
        if number is None:
            self.numbers.pop(entry, None)
        else:
            self.numbers[entry] = number

    def drop_expired(self) -> int | None:
        """Drop what waits for it; return the bound."""
        bound, self.bound = self.bound, None
        if bound is not None:
            self.drop_below(bound)
        return bound

    def drop_below(self, bound: int) -> None:
        self.numbers = {
            entry: number for entry, number in self.numbers.items() if segment_of(entry) >= bound
        }

    def reopen(self) -> None:
        newest = max((segment_of(entry) for entry in self.numbers), default=None)
        self.time = -1 if newest is None else newest * INTERVAL_MS
        self.bound = None

    def visible(self) -> list[tuple[Entry, int]]:
        oldest = self.time - RETENTION_MS + 1
        found = [entry for entry in self.numbers if entry[1] >= oldest]
        return [(entry, self.numbers[entry]) for entry in sorted(found, key=in_order)]


class Opened(NamedTuple):
    store: Any
    entries: Iterator[tuple[Any, int]]


def plain(entries: Iterator[tuple[Any, int]]) -> list[tuple[Entry, int]]:
    return [((windowed.key, windowed.window.start), number) for windowed, number in entries]


class WindowStoreMachine(RuleBasedStateMachine):
    """`flushed` is what a crash falls back to; `log` is what is committed of the changelog."""

    engine = StoreEngine.IN_MEMORY
    caching = False
    read_cache_bytes = 0
    iterators = Bundle("iterators")

    @initialize()
    def open_store(self) -> None:
        self.directory = Path(tempfile.mkdtemp())
        self.lives = 0
        self.log: list[Message] = []
        self.current, self.committed, self.flushed = Model(), Model(), Model()
        self.offset: int | None = None
        self.flushed_offset: int | None = None
        self.start()

    def start(self) -> None:
        self.home = Home(
            self.directory / str(self.lives),
            cache_enabled=self.caching,
            read_cache_bytes=self.read_cache_bytes,
        )
        self.store: Any = build_window_store(
            StoreSpec(
                "s",
                StoreKind.WINDOW,
                self.engine,
                key_serde=STRING,
                value_serde=LONG,
                caching=self.caching,
                retention=Retention(RETENTION_MS, INTERVAL_MS, window_size_ms=10),
            )
        )
        self.store.init(self.home.context())

    # Writes

    @rule(key=KEYS, number=NUMBERS, delta=DELTAS)
    def put(self, key: str, number: int | None, delta: int) -> None:
        start = max(0, self.current.time + delta)
        self.store.put(key, number, start)
        self.current.put((key, start), number)

    @rule()
    def commit(self) -> None:
        self.store.flush_cache()
        records = self.home.changelog.records
        for value, key, timestamp, _ in records:
            self.log.append(Message(key, value, len(self.log), timestamp))
        records.clear()
        self.offset = len(self.log) - 1 if self.log else self.offset
        self.store.commit({CHANGELOG: self.offset} if self.offset is not None else {})
        bound = self.current.drop_expired()
        if bound is not None:
            self.flushed.drop_below(bound)  # A family is dropped for good at once.
        self.committed = self.current.copy()

    @rule()
    def roll_back(self) -> None:
        self.store.rollback()
        self.home.changelog.records.clear()
        self.committed.bound = None
        self.current = self.committed.copy()

    # Reads

    @rule(key=KEYS, delta=DELTAS, length=st.integers(0, 120))
    def fetch_key(self, key: str, delta: int, length: int) -> None:
        first = self.current.time + delta
        last = first + length
        expected = [
            (entry[1], number)
            for entry, number in self.current.visible()
            if entry[0] == key and first <= entry[1] <= last
        ]
        assert list(self.store.fetch(key, first, last)) == expected
        assert list(self.store.backward_fetch(key, first, last)) == expected[::-1]
        assert self.store.fetch(key, first) == dict(expected).get(first)

    @rule(low=st.none() | KEYS, high=st.none() | KEYS, delta=DELTAS)
    def fetch_keys(self, low: str | None, high: str | None, delta: int) -> None:
        first = self.current.time + delta
        expected = [
            (entry, number)
            for entry, number in self.current.visible()
            if (low is None or entry[0] >= low)
            and (high is None or entry[0] <= high)
            and entry[1] >= first
        ]
        store = self.store
        assert plain(store.fetch_range(low, high, first, MAX_TIME)) == expected
        assert plain(store.backward_fetch_range(low, high, first, MAX_TIME)) == expected[::-1]

    @rule(target=iterators, reverse=st.booleans())
    def open_iterator(self, *, reverse: bool) -> Opened:
        return Opened(self.store, self.store.backward_all() if reverse else self.store.all())

    @rule(opened=iterators)
    def advance_iterator(self, opened: Opened) -> None:
        """What an iterator yields is what the store holds now."""
        try:
            entry = next(opened.entries, None)
        except StoreNotAvailableError:
            assert not opened.store.is_open
            return
        if entry is not None:
            windowed, number = entry
            assert self.current.numbers[windowed.key, windowed.window.start] == number

    # Ends and beginnings

    @rule()
    def reopen(self) -> None:
        self.store.close()
        if self.engine is StoreEngine.IN_MEMORY:
            self.committed, self.offset = Model(), None
        self.flushed, self.flushed_offset = self.committed.copy(), self.offset
        self.come_back()

    @rule()
    def crash(self) -> None:
        """Go on with a copy of the directory as it is beside the open store."""
        if self.engine is StoreEngine.ROCKSDB:
            shutil.copytree(self.directory / str(self.lives), self.directory / str(self.lives + 1))
            self.lives += 1
        self.store.close()
        self.committed, self.offset = self.flushed.copy(), self.flushed_offset
        self.come_back()

    def come_back(self) -> None:
        self.start()
        self.committed.reopen()
        self.current = self.committed.copy()
        assert plain(self.store.all()) == self.current.visible()
        self.restore_rest()

    def restore_rest(self) -> None:
        """Restore what the changelog has beyond the store, in two batches."""
        rest = self.log[0 if self.offset is None else self.offset + 1 :]
        half = len(rest) // 2
        for batch in (rest[:half], rest[half:]):
            if batch:
                self.restore_model(batch)
                self.store.restore(batch)

    def restore_model(self, batch: list[Message]) -> None:
        model = self.committed
        waiting, model.bound = model.bound, None
        if waiting is not None:
            model.drop_below(waiting)
            self.flushed.drop_below(waiting)
        times = [start_of(message.message_key or b"") for message in batch]
        model.advance(max(times))
        for message, start in zip(batch, times, strict=True):
            key, value = message.message_key or b"", message.message_value
            number = None if value is None else value[-1]
            model.put((key_of(key).decode(), start), number)
        self.offset = batch[-1].message_offset
        self.current = model.copy()

    @invariant()
    def views_counts_and_time_agree(self) -> None:
        assert self.store._segments.stream_time == self.current.time
        assert self.store.committed_offset(CHANGELOG) == self.offset
        dirty = self.store._buffer.dirty
        counted = sum(len(key) + len(value or b"") for key, value in dirty.items())
        assert self.store.approximate_num_uncommitted_bytes() == counted
        committed = self.store.read_only(IsolationLevel.READ_COMMITTED)
        uncommitted = self.store.read_only(IsolationLevel.READ_UNCOMMITTED)
        assert plain(committed.all()) == self.committed.visible()
        assert plain(uncommitted.backward_all()) == self.current.visible()[::-1]

    def teardown(self) -> None:
        if hasattr(self, "store"):
            self.store.close()
            shutil.rmtree(self.directory)


class CachedWindowStoreMachine(WindowStoreMachine):
    caching = True


class RocksDBWindowStoreMachine(WindowStoreMachine):
    engine = StoreEngine.ROCKSDB


class CachedRocksDBWindowStoreMachine(WindowStoreMachine):
    engine = StoreEngine.ROCKSDB
    caching = True
    read_cache_bytes = 60


SHORT = settings(
    max_examples=15,
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
LONG_RUN = settings(SHORT, max_examples=100, stateful_step_count=100)
"""Ten thousand steps."""

MACHINES = (
    WindowStoreMachine,
    CachedWindowStoreMachine,
    RocksDBWindowStoreMachine,
    CachedRocksDBWindowStoreMachine,
)


@pytest.mark.property
@pytest.mark.parametrize("machine", MACHINES)
def test_random_steps_give_what_the_model_gives(machine: type[WindowStoreMachine]) -> None:
    case = machine.TestCase
    case.settings = SHORT
    case("runTest").runTest()


@pytest.mark.sweep
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("machine", MACHINES)
def test_ten_thousand_random_steps_give_what_the_model_gives(
    machine: type[WindowStoreMachine],
) -> None:
    case = machine.TestCase
    case.settings = LONG_RUN
    case("runTest").runTest()
