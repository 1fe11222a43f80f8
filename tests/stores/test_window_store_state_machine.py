"""Random use of a window store beside a plain model: commits, rollbacks, restarts, crashes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import rule

from pystreams.stores.spec import StoreEngine, StoreKind
from pystreams.stores.window_keys import MAX_TIME, key_of, start_of, window_key
from tests.stores.segmented_machine import (
    DELTAS,
    KEYS,
    LONG_RUN,
    NUMBERS,
    SHORT,
    Entry,
    SegmentedStoreMachine,
)

if TYPE_CHECKING:
    from collections.abc import Iterator


class WindowStoreMachine(SegmentedStoreMachine):
    """An entry is a key and the start of a window."""

    kind = StoreKind.WINDOW

    def time_of(self, entry: Entry) -> int:
        start: int = entry[1]
        return start

    def key_of(self, entry: Entry) -> bytes:
        return window_key(entry[0].encode(), entry[1])

    def entry_of(self, key: bytes) -> Entry:
        return key_of(key).decode(), start_of(key)

    def plain(self, entries: Iterable[tuple[Any, int]]) -> list[tuple[Entry, int]]:
        return [((windowed.key, windowed.window.start), number) for windowed, number in entries]

    def all_of(self, reader: Any, *, reverse: bool) -> Iterator[tuple[Any, int]]:
        found: Iterator[tuple[Any, int]] = reader.backward_all() if reverse else reader.all()
        return found

    @rule(puts=st.lists(st.tuples(KEYS, NUMBERS, DELTAS), min_size=1, max_size=6))
    def put(self, puts: list[tuple[str, int | None, int]]) -> None:
        for key, number, delta in puts:
            start = max(0, self.current.time + delta)
            self.store.put(key, number, start)
            self.current.put((key, start), number)

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
        assert self.plain(store.fetch_range(low, high, first, MAX_TIME)) == expected
        backward = store.backward_fetch_range(low, high, first, MAX_TIME)
        assert self.plain(backward) == expected[::-1]


class CachedWindowStoreMachine(WindowStoreMachine):
    caching = True


class RocksDBWindowStoreMachine(WindowStoreMachine):
    engine = StoreEngine.ROCKSDB


class CachedRocksDBWindowStoreMachine(WindowStoreMachine):
    engine = StoreEngine.ROCKSDB
    caching = True
    read_cache_bytes = 60


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
