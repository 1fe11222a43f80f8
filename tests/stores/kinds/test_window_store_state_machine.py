"""Random use of a window store beside a plain model: commits, rollbacks, restarts, crashes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import rule

from pystreams import StoreEngine
from pystreams.record import MAX_TIME
from pystreams.stores.kinds.window.keys import key_of, sequence_of, start_of, window_key
from pystreams.stores.kinds.window.kind import WINDOW
from tests.stores.kinds.segmented_machine import (
    DELTAS,
    KEYS,
    MANY_KEYS,
    NUMBERS,
    SegmentedStoreMachine,
)
from tests.stores.machine_parts import SHORT, Entry

if TYPE_CHECKING:
    from collections.abc import Iterator


class WindowStoreMachine(SegmentedStoreMachine):
    """An entry is a key and the start of a window."""

    kind = WINDOW

    def time_of(self, entry: Entry) -> int:
        start: int = entry[1]
        return start

    def key_of(self, entry: Entry) -> bytes:
        return window_key(entry[0].encode(), entry[1])

    def entry_of(self, key: bytes) -> Entry:
        return key_of(key).decode(), start_of(key)

    def plain(self, entries: Iterable[tuple[Any, Any]]) -> list[tuple[Entry, Any]]:
        return [((windowed.key, windowed.window.start), number) for windowed, number in entries]

    def all_of(self, reader: Any, *, reverse: bool) -> Iterator[tuple[Any, Any]]:
        found: Iterator[tuple[Any, Any]] = reader.backward_all() if reverse else reader.all()
        return found

    def start(self) -> None:
        super().start()
        self.dropped = 0

    @rule(puts=st.lists(st.tuples(KEYS, NUMBERS, DELTAS), min_size=1, max_size=6))
    def put(self, puts: list[tuple[str, int | None, int]]) -> None:
        for key, number, delta in puts:
            start = max(0, self.current.time + delta)
            value = None if number is None else self.value(number, start)
            self.store.put(key, value, start)
            if not self.put_into_model(key, value, start):
                self.dropped += 1
            assert self.home.dropped.count == self.dropped
            self.remember_for_reads()

    def put_into_model(self, key: str, value: Any, start: int) -> bool:
        """Put or delete; return whether the window's segment is live."""
        return self.current.put((key, start), value)

    @rule(key=KEYS, delta=DELTAS, length=st.integers(0, 120))
    def fetch_key(self, key: str, delta: int, length: int) -> None:
        first = self.current.time + delta
        last = first + length
        expected = [
            (entry[1], value)
            for entry, value in self.current.visible()
            if entry[0] == key and first <= entry[1] <= last
        ]
        assert list(self.store.fetch(key, first, last)) == expected
        assert list(self.store.backward_fetch(key, first, last)) == expected[::-1]
        assert self.store.fetch(key, first) == dict(expected).get(first)

    @rule(low=st.none() | KEYS, high=st.none() | KEYS, delta=DELTAS)
    def fetch_keys(self, low: str | None, high: str | None, delta: int) -> None:
        first = self.current.time + delta
        expected = self.shown(
            [
                (entry, value)
                for entry, value in self.current.visible()
                if (low is None or entry[0] >= low)
                and (high is None or entry[0] <= high)
                and entry[1] >= first
            ]
        )
        store = self.store
        assert self.plain(store.fetch_range(low, high, first, MAX_TIME)) == expected
        backward = store.backward_fetch_range(low, high, first, MAX_TIME)
        assert self.plain(backward) == expected[::-1]

    @rule(delta=DELTAS, length=st.integers(0, 120))
    def fetch_all(self, delta: int, length: int) -> None:
        first = self.current.time + delta
        expected = self.shown(
            [
                (entry, value)
                for entry, value in self.current.visible()
                if first <= entry[1] <= first + length
            ]
        )
        store = self.store
        assert self.plain(store.fetch_all(first, first + length)) == expected
        assert self.plain(store.backward_fetch_all(first, first + length)) == expected[::-1]

    @rule(delta=st.integers(1, 30))
    def many_come_and_go(self, delta: int) -> None:
        """A read of what is late enough finds none of it, and hides nothing earlier."""
        for number in (1, None):
            for key in MANY_KEYS:
                self.put([(key, number, delta)])
                delta = 0
        self.fetch_all(0, 120)
        self.fetch_all(-120, 120)


class CachedWindowStoreMachine(WindowStoreMachine):
    caching = True


class RocksDBWindowStoreMachine(WindowStoreMachine):
    engine = StoreEngine.ROCKSDB


class CachedRocksDBWindowStoreMachine(WindowStoreMachine):
    engine = StoreEngine.ROCKSDB
    caching = True
    read_cache_bytes = 60


class TimestampedWindowStoreMachine(WindowStoreMachine):
    timestamped = True


class TimestampedRocksDBWindowStoreMachine(CachedRocksDBWindowStoreMachine):
    timestamped = True


class DuplicatesMachine(WindowStoreMachine):
    """An entry has the number of its put as well; readers do not see it."""

    retain_duplicates = True

    def key_of(self, entry: Entry) -> bytes:
        return window_key(entry[0].encode(), *entry[1:])

    def entry_of(self, key: bytes) -> Entry:
        return key_of(key).decode(), start_of(key), sequence_of(key)

    def shown(self, entries: list[tuple[Entry, Any]]) -> list[tuple[Entry, Any]]:
        return [(entry[:2], value) for entry, value in entries]

    def put_into_model(self, key: str, value: Any, start: int) -> bool:
        """Put under the number the store has given; it must be a new one."""
        if value is None:
            return True
        entry = (key, start, self.store._sequence)
        assert entry not in self.current.numbers
        return self.current.put(entry, value)


class RocksDBDuplicatesMachine(DuplicatesMachine):
    engine = StoreEngine.ROCKSDB


PLAIN = (
    WindowStoreMachine,
    CachedWindowStoreMachine,
    RocksDBWindowStoreMachine,
    CachedRocksDBWindowStoreMachine,
)
TIMESTAMPED = (TimestampedWindowStoreMachine, TimestampedRocksDBWindowStoreMachine)
DUPLICATES = (DuplicatesMachine, RocksDBDuplicatesMachine)
MACHINES: tuple[type[WindowStoreMachine], ...] = (*PLAIN, *TIMESTAMPED, *DUPLICATES)


@pytest.mark.property
@pytest.mark.parametrize("machine", MACHINES)
def test_random_steps_give_what_the_model_gives(machine: type[WindowStoreMachine]) -> None:
    assert machine.run_lives(SHORT) > 0
