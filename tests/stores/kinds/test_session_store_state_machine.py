"""Random use of a session store beside a plain model: commits, rollbacks, restarts, crashes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import rule

from pystreams import StoreEngine, Window, Windowed
from pystreams.record import MAX_TIME
from pystreams.stores.kinds.session.keys import key_of, session_key, window_of
from pystreams.stores.kinds.session.kind import SESSION
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

LENGTHS = st.sampled_from([0, 1, 10, 60, 130])


class SessionStoreMachine(SegmentedStoreMachine):
    """An entry is a key, and the start and the end of a session."""

    kind = SESSION

    def time_of(self, entry: Entry) -> int:
        end: int = entry[2]
        return end

    def key_of(self, entry: Entry) -> bytes:
        return session_key(entry[0].encode(), entry[1], entry[2])

    def entry_of(self, key: bytes) -> Entry:
        return key_of(key).decode(), *window_of(key)

    def plain(self, entries: Iterable[tuple[Any, Any]]) -> list[tuple[Entry, Any]]:
        return [((session.key, *session.window), number) for session, number in entries]

    def all_of(self, reader: Any, *, reverse: bool) -> Iterator[tuple[Any, Any]]:
        found: Iterator[tuple[Any, Any]] = (
            reader.backward_fetch_range(None, None) if reverse else reader.fetch_range(None, None)
        )
        return found

    def start(self) -> None:
        super().start()
        self.dropped = 0

    @rule(puts=st.lists(st.tuples(KEYS, NUMBERS, DELTAS, LENGTHS), min_size=1, max_size=6))
    def put(self, puts: list[tuple[str, int | None, int, int]]) -> None:
        for key, number, delta, length in puts:
            end = max(0, self.current.time + delta)
            window = Window(max(0, end - length), end)
            self.store.put(Windowed(key, window), number)
            if not self.current.put((key, *window), number):
                self.dropped += 1
            assert self.home.dropped.count == self.dropped
            self.remember_for_reads()

    @rule(key=KEYS, delta=DELTAS, length=LENGTHS)
    def remove(self, key: str, delta: int, length: int) -> None:
        end = max(0, self.current.time + delta)
        window = Window(max(0, end - length), end)
        self.store.remove(Windowed(key, window))
        self.current.put((key, *window), None)
        assert self.home.dropped.count == self.dropped

    @rule(number=st.integers(0, 9), choice=st.integers(0, 99), grown=st.integers(0, 30))
    def merge(self, number: int, choice: int, grown: int) -> None:
        """Replace a session that is there by a longer one, as an aggregation does."""
        there = [entry for entry, _ in self.current.visible()]
        if not there:
            return
        key, start, end = there[choice % len(there)]
        self.store.remove(Windowed(key, Window(start, end)))
        self.current.put((key, start, end), None)
        self.store.put(Windowed(key, Window(start, end + grown)), number)
        self.current.put((key, start, end + grown), number)

    @rule(key=KEYS, delta=DELTAS, length=st.integers(-10, 120))
    def find_of_key(self, key: str, delta: int, length: int) -> None:
        earliest_end = self.current.time + delta
        latest_start = earliest_end + length
        expected = [
            (entry, number)
            for entry, number in self.current.visible()
            if entry[0] == key and entry[2] >= earliest_end and entry[1] <= latest_start
        ]
        store = self.store
        assert self.plain(store.find_sessions(key, earliest_end, latest_start)) == expected
        backward = store.backward_find_sessions(key, earliest_end, latest_start)
        assert self.plain(backward) == expected[::-1]
        for entry, number in expected:
            assert store.fetch_session(*entry) == number

    @rule(choice=st.integers(0, 99))
    def find_at_the_bounds(self, choice: int) -> None:
        """A session is found by its own times, and not by one millisecond more or less."""
        visible = self.current.visible()
        if not visible:
            return
        entry, number = visible[choice % len(visible)]
        key, start, end = entry
        for find in (
            self.store.find_sessions,
            lambda key, *times: self.store.find_sessions_range(key, key, *times),
        ):
            assert (entry, number) in self.plain(find(key, end, start))
            assert (entry, number) not in self.plain(find(key, end + 1, MAX_TIME))
            assert (entry, number) not in self.plain(find(key, 0, start - 1))
        assert (entry, number) in self.plain(self.store.find_sessions_by_end(end, end))
        assert (entry, number) not in self.plain(self.store.find_sessions_by_end(0, end - 1))

    @rule(low=st.none() | KEYS, high=st.none() | KEYS, delta=DELTAS, length=st.integers(-10, 120))
    def find_of_keys(self, low: str | None, high: str | None, delta: int, length: int) -> None:
        earliest_end = self.current.time + delta
        latest_start = earliest_end + length
        expected = [
            (entry, number)
            for entry, number in self.current.visible()
            if (low is None or entry[0] >= low)
            and (high is None or entry[0] <= high)
            and entry[2] >= earliest_end
            and entry[1] <= latest_start
        ]
        arguments = (low, high, earliest_end, latest_start)
        assert self.plain(self.store.find_sessions_range(*arguments)) == expected
        assert self.plain(self.store.backward_find_sessions_range(*arguments)) == expected[::-1]

    @rule(delta=DELTAS, length=st.integers(-10, 120))
    def find_by_end(self, delta: int, length: int) -> None:
        earliest_end = self.current.time + delta
        for latest_end in (earliest_end + length, MAX_TIME):
            expected = [
                (entry, number)
                for entry, number in self.current.visible()
                if earliest_end <= entry[2] <= latest_end
            ]
            assert self.plain(self.store.find_sessions_by_end(earliest_end, latest_end)) == expected

    @rule(delta=st.integers(1, 30))
    def many_come_and_go(self, delta: int) -> None:
        """A read of what is late enough finds none of it, and hides nothing earlier."""
        for number in (1, None):
            for key in MANY_KEYS:
                self.put([(key, number, delta, 0)])
                delta = 0
        self.find_by_end(0, 120)
        self.find_by_end(-120, 120)


class CachedSessionStoreMachine(SessionStoreMachine):
    caching = True


class RocksDBSessionStoreMachine(SessionStoreMachine):
    engine = StoreEngine.ROCKSDB


class CachedRocksDBSessionStoreMachine(SessionStoreMachine):
    engine = StoreEngine.ROCKSDB
    caching = True
    read_cache_bytes = 60


MACHINES = (
    SessionStoreMachine,
    CachedSessionStoreMachine,
    RocksDBSessionStoreMachine,
    CachedRocksDBSessionStoreMachine,
)


@pytest.mark.property
@pytest.mark.parametrize("machine", MACHINES)
def test_random_steps_give_what_the_model_gives(machine: type[SessionStoreMachine]) -> None:
    assert machine.run_lives(SHORT) > 0
