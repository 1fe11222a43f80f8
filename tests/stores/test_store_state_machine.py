"""Random use of a store beside a plain dict: no difference, whatever the order of steps."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, rule

from pystreams.config.guarantee import IsolationLevel
from pystreams.errors import StoreNotAvailableError
from pystreams.stores.spec import StoreEngine
from tests.stores.support import CHANGELOG, Home, Message, spec_of

if TYPE_CHECKING:
    from collections.abc import Iterator


KEYS = st.text(alphabet="ab\xff", max_size=3)
NUMBERS = st.integers(0, 9)
LONG_MIN = b"\x00" * 7


def between(model: dict[str, int], start: str | None, end: str | None) -> list[tuple[str, int]]:
    low = None if start is None else start.encode()
    high = None if end is None else end.encode()
    return sorted(
        (
            (key, value)
            for key, value in model.items()
            if (low is None or key.encode() >= low) and (high is None or key.encode() <= high)
        ),
        key=lambda entry: entry[0].encode(),
    )


class Opened(NamedTuple):
    store: Any
    entries: Iterator[tuple[str, int]]
    reverse: bool


class StoreMachine(RuleBasedStateMachine):
    """`committed` and `current` are the model; `offset` goes with `committed`."""

    engine = StoreEngine.IN_MEMORY
    caching = False
    read_cache_bytes = 0
    iterators = Bundle("iterators")

    @initialize()
    def open_store(self) -> None:
        self.directory = Path(tempfile.mkdtemp())
        self.home = Home(
            self.directory, cache_enabled=self.caching, read_cache_bytes=self.read_cache_bytes
        )
        self.spec = spec_of(self.engine, caching=self.caching)
        self.store: Any = self.home.open(self.spec)
        self.committed: dict[str, int] = {}
        self.current: dict[str, int] = {}
        self.offset: int | None = None

    @rule(key=KEYS, number=NUMBERS)
    def put(self, key: str, number: int) -> None:
        self.store.put(key, number)
        self.current[key] = number

    @rule(key=KEYS)
    def delete(self, key: str) -> None:
        assert self.store.delete(key) == self.current.pop(key, None)

    @rule(key=KEYS)
    def get(self, key: str) -> None:
        assert self.store.get(key) == self.current.get(key)

    @rule(start=st.none() | KEYS, end=st.none() | KEYS)
    def read_ranges(self, start: str | None, end: str | None) -> None:
        expected = between(self.current, start, end)
        assert list(self.store.range(start, end)) == expected
        assert list(self.store.reverse_range(start, end)) == expected[::-1]

    @rule(prefix=st.binary(max_size=2))
    def scan(self, prefix: bytes) -> None:
        expected = [
            entry
            for entry in between(self.current, None, None)
            if entry[0].encode().startswith(prefix)
        ]
        assert list(self.store.prefix_scan(prefix)) == expected

    @rule(target=iterators, reverse=st.booleans())
    def open_iterator(self, *, reverse: bool) -> Opened:
        return Opened(
            self.store, self.store.reverse_all() if reverse else self.store.all(), reverse
        )

    @rule(opened=iterators)
    def advance_iterator(self, opened: Opened) -> None:
        entry = self.next_of(opened)
        if entry is not None:
            assert self.current.get(entry[0]) == entry[1]

    @rule(opened=iterators)
    def drain_iterator(self, opened: Opened) -> None:
        """An iterator yields, from where it stands, what the store holds now."""
        first = self.next_of(opened)
        if first is None:
            return
        assert self.current.get(first[0]) == first[1]
        self.store.put(first[0] + "b", 5)
        self.current[first[0] + "b"] = 5
        ordered = between(self.current, None, None)
        position = [key for key, _ in ordered].index(first[0])
        ahead = ordered[:position][::-1] if opened.reverse else ordered[position + 1 :]
        assert list(opened.entries) == ahead

    def next_of(self, opened: Opened) -> tuple[str, int] | None:
        """The next entry; None at the end, or when the store was closed in between."""
        try:
            return next(opened.entries, None)
        except StoreNotAvailableError:
            assert not opened.store.is_open
            return None

    @rule()
    def commit(self) -> None:
        self.store.flush_cache()
        self.offset = (self.offset or 0) + 1
        self.store.commit({CHANGELOG: self.offset})
        self.committed = dict(self.current)

    @rule()
    def roll_back(self) -> None:
        self.store.rollback()
        self.current = dict(self.committed)

    @rule()
    def reopen(self) -> None:
        self.store.close()
        self.store = self.home.open(self.spec)
        if not self.store.persistent:
            self.committed, self.offset = {}, None
        self.current = dict(self.committed)

    @rule(entries=st.lists(st.tuples(KEYS, st.none() | NUMBERS), min_size=1, max_size=4))
    def restore(self, entries: list[tuple[str, int | None]]) -> None:
        self.roll_back()
        offset = self.offset or 0
        messages = []
        for key, number in entries:
            offset += 1
            value = None if number is None else LONG_MIN + bytes((number,))
            messages.append(Message(key.encode(), value, offset))
            if number is None:
                self.committed.pop(key, None)
            else:
                self.committed[key] = number
        self.store.restore(messages)
        self.offset = offset
        self.current = dict(self.committed)

    @invariant()
    def counts_and_views_agree(self) -> None:
        dirty = self.store._buffer.dirty
        counted = sum(len(key) + len(value or b"") for key, value in dirty.items())
        assert self.store.approximate_num_uncommitted_bytes() == counted
        assert 0 <= self.store.cached_bytes() <= counted
        assert self.store.committed_offset(CHANGELOG) == self.offset
        committed = self.store.read_only(IsolationLevel.READ_COMMITTED)
        uncommitted = self.store.read_only(IsolationLevel.READ_UNCOMMITTED)
        assert dict(committed.all()) == self.committed
        assert dict(uncommitted.reverse_all()) == self.current

    def teardown(self) -> None:
        if hasattr(self, "store"):
            self.store.close()
            shutil.rmtree(self.directory)


class RocksDBStoreMachine(StoreMachine):
    engine = StoreEngine.ROCKSDB


class CachedRocksDBStoreMachine(StoreMachine):
    engine = StoreEngine.ROCKSDB
    caching = True


class ReadCachedRocksDBStoreMachine(StoreMachine):
    """The cache is so small that its generations change every few keys."""

    engine = StoreEngine.ROCKSDB
    read_cache_bytes = 60


class TwiceCachedRocksDBStoreMachine(ReadCachedRocksDBStoreMachine):
    caching = True


_SETTINGS = settings(
    max_examples=40,
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)


@pytest.mark.property
@pytest.mark.parametrize(
    "machine",
    [
        StoreMachine,
        RocksDBStoreMachine,
        CachedRocksDBStoreMachine,
        ReadCachedRocksDBStoreMachine,
        TwiceCachedRocksDBStoreMachine,
    ],
)
def test_random_steps_give_what_a_dict_gives(machine: type[StoreMachine]) -> None:
    case = machine.TestCase
    case.settings = _SETTINGS
    case("runTest").runTest()
