"""Random lives of stores that write through, beside models that know what has reached the engine.

`committed` of the machines is what is in the engine: what waits for a batch is lost by a rollback
or an end, what has reached the engine is not, and readers of both isolation levels see all of it.
That is at-least-once: after a crash the store may be ahead of its changelog, whose rest is put on
top. Under exactly-once (`ExactlyOnceMachine`) it is wiped instead. A batch has three keys here, so
that many are written in a life.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

from hypothesis import settings
from hypothesis.stateful import initialize, rule

from pystreams import IsolationLevel, StateStoreCorruptedError, StoreEngine
from pystreams.stores.dirty_map import write_through
from tests.stores.key_value_machine import KeyValueStoreMachine
from tests.stores.key_value_machine import Model as KeyValueModel
from tests.stores.kinds.segmented_machine import Model as SegmentedModel
from tests.stores.kinds.segmented_machine import SegmentedStoreMachine
from tests.stores.kinds.test_session_store_state_machine import SessionStoreMachine
from tests.stores.kinds.test_window_store_state_machine import WindowStoreMachine
from tests.stores.machine_parts import CountingMachine, Entry
from tests.stores.support import Message

BATCH = 3


class SmallBatches(CountingMachine):
    """A machine whose stores write through every few keys."""

    caching: bool
    transactional = False
    batch_records = BATCH

    @classmethod
    def run_lives(cls, how_long: settings) -> int:
        with mock.patch.object(write_through, "_BATCH_RECORDS", cls.batch_records):
            return super().run_lives(how_long)

    def batch_is_full(self, waiting: set[Any]) -> bool:
        """Whether a write has made the store write through; with a record cache none does."""
        return not self.caching and len(waiting) >= BATCH


# Key-value stores


@dataclass
class KeyValueWrites(KeyValueModel):
    """A key-value store's model that knows which keys wait for the next batch."""

    wrote: Callable[[], None] = lambda: None
    waiting: set[str] = field(default_factory=set)

    def copy(self) -> KeyValueWrites:
        return KeyValueWrites(self.max_entries, dict(self.values), self.wrote)

    def empty(self) -> KeyValueWrites:
        return KeyValueWrites(self.max_entries, wrote=self.wrote)

    def rolled_back(self, committed: KeyValueModel) -> KeyValueModel:
        return committed.copy()

    def put(self, key: str, value: Any) -> None:
        super().put(key, value)
        self.waiting.add(key)
        self.wrote()


class WriteThroughMachine(SmallBatches, KeyValueStoreMachine):
    """A key-value store in memory."""

    current: KeyValueWrites

    @initialize()
    def open_store(self) -> None:
        super().open_store()
        self.current = KeyValueWrites(None, wrote=self.after_a_write)
        self.committed, self.flushed = self.current.copy(), self.current.copy()

    def after_a_write(self) -> None:
        if self.batch_is_full(self.current.waiting):
            self.reach_the_engine()

    def reach_the_engine(self) -> None:
        self.committed = self.current.copy()
        self.current.waiting.clear()

    @rule()
    def flush_cache(self) -> None:
        self.store.flush_cache()
        self.reach_the_engine()

    def commit_to_kafka(self) -> None:
        super().commit_to_kafka()
        self.reach_the_engine()

    def restore_batch(self, batch: list[Message]) -> None:
        super().restore_batch(batch)
        self.reach_the_engine()

    def visible(self, level: IsolationLevel) -> dict[str, Any]:
        return self.current.values

    def check_what_waits(self, dirty: Mapping[bytes, bytes | None]) -> None:
        assert self.store.approximate_num_uncommitted_bytes() == 0
        assert {key.decode() for key in dirty} == self.current.waiting
        in_engine = {
            key.decode(): self.value(stored[-1], int.from_bytes(stored[:8], "big"))
            for key, stored in self.store._buffer.engine_range(None, None)
        }
        assert in_engine == self.committed.values


class CachedWriteThroughMachine(WriteThroughMachine):
    caching = True


class RocksDBWriteThroughMachine(WriteThroughMachine):
    engine = StoreEngine.ROCKSDB


class TwiceCachedRocksDBWriteThroughMachine(WriteThroughMachine):
    engine = StoreEngine.ROCKSDB
    caching = True
    read_cache_bytes = 60


class TimestampedRocksDBWriteThroughMachine(WriteThroughMachine):
    engine = StoreEngine.ROCKSDB
    timestamped = True
    read_cache_bytes = 60


class ExactlyOnceMachine(WriteThroughMachine):
    """Under exactly-once: after a rollback or an end the store is what its changelog says.

    It is wiped and restored when the engine may hold what was not committed. `ahead` says whether
    it does; `wiped`, whether the store was wiped since that was asked last.
    """

    engine = StoreEngine.ROCKSDB
    exactly_once = True
    ahead = wiped = False

    def open(self) -> None:
        try:
            super().open()
        except StateStoreCorruptedError:
            self.wipe()

    def wipe(self) -> None:
        """Do what the state manager does with a store that can't be trusted."""
        self.wiped = True
        self.store.destroy()
        super().open()
        self.committed, self.offset = self.current.empty(), None
        self.flushed, self.flushed_offset = self.current.empty(), None

    def reach_the_engine(self) -> None:
        self.ahead = self.ahead or bool(self.current.waiting)
        super().reach_the_engine()

    def restore_batch(self, batch: list[Message]) -> None:
        super().restore_batch(batch)
        self.ahead = False

    @rule()
    def commit(self) -> None:
        super().commit()
        self.ahead = False

    @rule()
    def roll_back(self) -> None:
        super().roll_back()
        if self.ahead:
            self.wipe()
            self.current = self.current.empty()
            self.restore_rest()
        self.holds_its_changelog()

    @rule()
    def reopen(self) -> None:
        ahead, self.wiped = self.ahead, False
        super().reopen()
        assert self.wiped is ahead

    def come_back(self) -> None:
        super().come_back()
        self.holds_its_changelog()

    def holds_its_changelog(self) -> None:
        self.ahead = False
        logged = self.current.empty()
        for message in self.log:
            KeyValueModel.put(logged, *self.entry_of(message))
        assert self.current.values == logged.values


class CachedExactlyOnceMachine(ExactlyOnceMachine):
    caching = True
    read_cache_bytes = 60


# Window and session stores


@dataclass
class SegmentedWrites(SegmentedModel):
    """A segmented store's model that knows which entries wait for the next batch."""

    wrote: Callable[[], None] = lambda: None
    waiting: set[Entry] = field(default_factory=set)

    def copy(self) -> SegmentedWrites:
        return SegmentedWrites(
            self.time_of,
            self.key_of,
            dict(self.numbers),
            self.time,
            self.bound,
            self.kept_time,
            self.wrote,
        )

    def empty(self) -> SegmentedWrites:
        return SegmentedWrites(self.time_of, self.key_of, wrote=self.wrote)

    def put(self, entry: Entry, number: Any) -> bool:
        live = super().put(entry, number)
        if live:
            self.waiting.add(entry)
            self.wrote()
        return live


class WriteThroughSegmentedMachine(SmallBatches, SegmentedStoreMachine):
    """A rollback takes the stream time back, but not behind what the engine has.

    `kept_time` is what it was at the last commit.
    """

    current: SegmentedWrites
    kept_time: int

    @initialize()
    def open_store(self) -> None:
        super().open_store()
        self.kept_time = -1
        self.current = SegmentedWrites(self.time_of, self.key_of, wrote=self.after_a_write)
        self.committed, self.flushed = self.current.copy(), self.current.copy()

    def after_a_write(self) -> None:
        if self.batch_is_full(self.current.waiting):
            self.reach_the_engine()

    def reach_the_engine(self) -> None:
        bound = self.current.drop_expired()
        if bound is not None:
            self.flushed.drop_below(bound)  # A family is dropped for good at once.
        self.committed = self.current.copy()
        self.current.waiting.clear()

    @rule()
    def flush_cache(self) -> None:
        self.store.flush_cache()
        self.reach_the_engine()

    def commit_to_kafka(self) -> None:
        super().commit_to_kafka()
        self.reach_the_engine()

    @rule()
    def commit(self) -> None:
        super().commit()
        self.kept_time = self.current.time

    @rule()
    def roll_back(self) -> None:
        super().roll_back()
        written = self.committed.copy()
        written.reopen()
        self.committed.time = self.current.time = max(self.kept_time, written.time)

    def come_back(self) -> None:
        super().come_back()
        self.kept_time = self.current.time

    def restore_model(self, batch: list[Message]) -> None:
        super().restore_model(batch)
        self.current.waiting.clear()
        self.kept_time = self.current.time

    def visible(self, level: IsolationLevel) -> list[tuple[Entry, Any]]:
        return self.current.visible()

    def check_what_waits(self, dirty: Mapping[bytes, bytes | None]) -> None:
        assert self.store.approximate_num_uncommitted_bytes() == 0
        assert {self.entry_of(key[8:]) for key in dirty} == self.current.waiting


class WriteThroughWindowMachine(WriteThroughSegmentedMachine, WindowStoreMachine):
    pass


class RocksDBWriteThroughWindowMachine(WriteThroughWindowMachine):
    engine = StoreEngine.ROCKSDB


class CachedRocksDBWriteThroughWindowMachine(RocksDBWriteThroughWindowMachine):
    caching = True
    read_cache_bytes = 60


class TimestampedRocksDBWriteThroughWindowMachine(RocksDBWriteThroughWindowMachine):
    timestamped = True


class WriteThroughSessionMachine(WriteThroughSegmentedMachine, SessionStoreMachine):
    pass


class CachedRocksDBWriteThroughSessionMachine(WriteThroughSessionMachine):
    engine = StoreEngine.ROCKSDB
    caching = True
    read_cache_bytes = 60


KEY_VALUE: tuple[type[CountingMachine], ...] = (
    WriteThroughMachine,
    CachedWriteThroughMachine,
    RocksDBWriteThroughMachine,
    TwiceCachedRocksDBWriteThroughMachine,
    TimestampedRocksDBWriteThroughMachine,
    ExactlyOnceMachine,
    CachedExactlyOnceMachine,
)
WINDOW: tuple[type[CountingMachine], ...] = (
    WriteThroughWindowMachine,
    RocksDBWriteThroughWindowMachine,
    CachedRocksDBWriteThroughWindowMachine,
    TimestampedRocksDBWriteThroughWindowMachine,
)
SESSION: tuple[type[CountingMachine], ...] = (
    WriteThroughSessionMachine,
    CachedRocksDBWriteThroughSessionMachine,
)
