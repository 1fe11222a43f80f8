"""Random use of a store whose rows expire beside a dict from which they go: no difference."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis.stateful import initialize, invariant, rule

from pystreams import StoreEngine
from pystreams.stores.build import build_store
from pystreams.stores.kinds.expiring import rows as expiring_rows
from pystreams.stores.kinds.expiring.kind import expiring
from pystreams.stores.kinds.expiring.layout import (
    INDEX,
    ROW,
    ROWS_END,
    index_key,
    indexed_key,
    indexed_time,
    timestamp_of,
)
from tests.stores.key_value_machine import KEYS, NUMBERS, TIMES, KeyValueStoreMachine, Model
from tests.stores.machine_parts import SHORT
from tests.stores.support import Message, spec_of

TTL_MS = 30


@dataclass
class ExpiringModel(Model):
    """A dict of what is not over.

    Attributes:
        now: Returns the timestamp of the record being processed, which the store writes with.
        times: The timestamp of each key.
        stream_time: The highest timestamp so far.
    """

    now: Callable[[], int] = lambda: -1
    times: dict[str, int] = field(default_factory=dict)
    stream_time: int = -1

    def copy(self) -> ExpiringModel:
        return ExpiringModel(None, dict(self.values), self.now, dict(self.times), self.stream_time)

    def empty(self) -> ExpiringModel:
        return ExpiringModel(None, now=self.now)

    def put(self, key: str, value: Any) -> None:
        timestamped = value is not None and not isinstance(value, int)
        self.put_at(key, value, value.timestamp if timestamped else self.now())

    def put_at(self, key: str, value: Any, time: int) -> None:
        self.stream_time = max(self.stream_time, time)
        super().put(key, value)
        self.times[key] = max(time, 0)
        for other in list(self.values):
            if self.times[other] < self.stream_time - TTL_MS:
                del self.values[other]

    def rolled_back(self, committed: Model) -> Model:
        return committed.copy()


class ExpiringStoreMachine(KeyValueStoreMachine):
    current: ExpiringModel

    @initialize()
    def open_store(self) -> None:
        super().open_store()
        self.current = ExpiringModel(None, now=lambda: self.home.record.timestamp)
        self.committed, self.flushed = self.current.copy(), self.current.copy()

    def open(self) -> None:
        spec = spec_of(self.engine, timestamped=self.timestamped, caching=self.caching)
        self.store = build_store(expiring(spec, TTL_MS))
        self.store.init(self.home.context())

    def restore_batch(self, batch: list[Message]) -> None:
        if not batch:
            return
        for message in batch:
            key, value = self.entry_of(message)
            self.current.put_at(key, value, message.timestamp_ms)
        self.store.restore(batch)
        self.offset = batch[-1].message_offset
        self.committed = self.current.copy()

    @rule(time=TIMES)
    def meet_a_record(self, time: int) -> None:
        """As a table does before it reads the row of a record."""
        self.home.record.timestamp = time

    @rule()
    def let_leave(self) -> None:
        """What is over leaves, and leaves no entry behind."""
        while self.store.rows.has_expired:
            list(self.store.leave())
        over = self.store.rows.stream_time - TTL_MS
        assert all(timestamp_of(stored) >= over for _, stored in self.stored(ROW, ROWS_END))
        entries = [key for key, _ in self.stored(INDEX, ROW)]
        assert all(entry >= index_key(over, b"") for entry in entries)

    @invariant()
    def each_row_has_an_entry_that_is_not_later(self) -> None:
        """Which is where it is looked for when it is over."""
        entries = {indexed_key(entry): indexed_time(entry) for entry, _ in self.entries_from_last()}
        for key, stored in self.stored(ROW, ROWS_END):
            assert entries[key[1:]] <= timestamp_of(stored)

    @invariant()
    def the_stream_time_is_kept(self) -> None:
        assert self.store.rows.stream_time == self.current.stream_time

    def entries_from_last(self) -> list[tuple[bytes, bytes]]:
        return self.stored(INDEX, ROW)[::-1]

    def stored(self, start: bytes, end: bytes) -> list[tuple[bytes, bytes]]:
        return list(self.store._buffer.range(start, end))


class TimestampedMachine(ExpiringStoreMachine):
    timestamped = True

    @rule(key=KEYS, number=NUMBERS, time=TIMES)
    def put_late(self, key: str, number: int, time: int) -> None:
        value = self.value(number, time)
        self.store.put(key, value)
        self.current.put(key, value)


class CachedMachine(ExpiringStoreMachine):
    caching = True


class RocksDBMachine(ExpiringStoreMachine):
    engine = StoreEngine.ROCKSDB


class TimestampedRocksDBMachine(TimestampedMachine):
    engine = StoreEngine.ROCKSDB


class TwiceCachedRocksDBMachine(TimestampedRocksDBMachine):
    caching = True
    read_cache_bytes = 60


MACHINES = (
    ExpiringStoreMachine,
    TimestampedMachine,
    CachedMachine,
    RocksDBMachine,
    TimestampedRocksDBMachine,
    TwiceCachedRocksDBMachine,
)


@pytest.mark.property
@pytest.mark.parametrize("portion_bytes", [1, 1 << 20])
@pytest.mark.parametrize("machine", MACHINES)
def test_random_steps_give_what_a_dict_gives(
    machine: type[ExpiringStoreMachine], portion_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether all that is over leaves at once, or one row after the other."""
    monkeypatch.setattr(expiring_rows, "PORTION_BYTES", portion_bytes)
    assert machine.run_lives(SHORT) > 0
