"""Random use of a versioned store beside a plain list of puts: no difference in any answer."""

from __future__ import annotations

import shutil
import tempfile
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, initialize, invariant, rule

from pystreams import (
    PUT_RETURN_CODE_NOT_PUT,
    PUT_RETURN_CODE_VALID_TO_UNDEFINED,
    IsolationLevel,
    ReadOnlyVersionedKeyValueStore,
    StoreEngine,
    VersionedRecord,
)
from tests.stores.kinds.versioned_support import VersionedHome, versioned_spec
from tests.stores.machine_parts import LEVELS, SHORT, CountingMachine, copy_in_use
from tests.stores.support import CHANGELOG

if TYPE_CHECKING:
    from collections.abc import Iterator

RETENTION_MS = 20
SEGMENT_INTERVAL_MS = 7
KEYS = st.sampled_from(["", "k", "kk"])
VALUES = st.none() | st.sampled_from(["", "x", "yy"])
AGES = st.integers(-2 * SEGMENT_INTERVAL_MS, RETENTION_MS + 2 * SEGMENT_INTERVAL_MS)
"""How long before the stream time a time is; below 0 it is ahead."""


@dataclass
class Model:
    """What was put and taken, in order; all answers follow from it."""

    stream_time: int = -1
    puts: list[tuple[str, str | None, int]] = field(default_factory=list)
    versions: dict[str, dict[int, str | None]] = field(default_factory=dict)

    def history_begins(self) -> int:
        return self.stream_time - RETENTION_MS

    def put(self, key: str, value: str | None, timestamp: int) -> int:
        if timestamp < self.history_begins():
            return PUT_RETURN_CODE_NOT_PUT
        self.stream_time = max(self.stream_time, timestamp)
        self.puts.append((key, value, timestamp))
        self.versions.setdefault(key, {})[timestamp] = value
        end = self.end_of(key, timestamp)
        return PUT_RETURN_CODE_VALID_TO_UNDEFINED if end is None else end

    def end_of(self, key: str, timestamp: int) -> int | None:
        return min((time for time in self.versions[key] if time > timestamp), default=None)

    def at(self, key: str, as_of: int | None) -> VersionedRecord[str] | None:
        known = self.versions.get(key, {})
        begun = [time for time in known if as_of is None or time <= as_of]
        if not begun:
            return None
        timestamp = max(begun)
        value, end = known[timestamp], self.end_of(key, timestamp)
        expired = as_of is not None and as_of < self.history_begins()
        if value is None or (end is not None and expired):
            return None
        return VersionedRecord(value, timestamp, end)

    def between(self, key: str, start: int, end: int) -> list[VersionedRecord[str]]:
        oldest_live = max(0, self.history_begins()) // SEGMENT_INTERVAL_MS
        found = []
        for timestamp, value in sorted(self.versions.get(key, {}).items()):
            valid_to = self.end_of(key, timestamp)
            live = valid_to is None or (
                end >= self.history_begins() and valid_to // SEGMENT_INTERVAL_MS >= oldest_live
            )
            if (
                value is not None
                and live
                and timestamp <= end
                and (valid_to is None or valid_to > start)
            ):
                found.append(VersionedRecord(value, timestamp, valid_to))
        return found


class OpenRange(NamedTuple):
    """Versions that are left to read, and those there were when it was opened."""

    versions: Iterator[VersionedRecord[str]]
    expected: list[VersionedRecord[str]]


class VersionedStoreMachine(CountingMachine):
    """`flushed` is what a crash falls back to; `logged` is what is committed of the changelog."""

    engine = StoreEngine.IN_MEMORY
    transactional = True
    exactly_once = False
    ranges = Bundle("ranges")

    @initialize()
    def open_store(self) -> None:
        self.directory = Path(tempfile.mkdtemp())
        spec = versioned_spec(
            self.engine, RETENTION_MS, SEGMENT_INTERVAL_MS, transactional=self.transactional
        )
        self.shop = VersionedHome(self.directory / "0", spec, exactly_once=self.exactly_once)
        self.lives = 0
        self.committed, self.current, self.flushed = Model(), Model(), Model()
        self.flushed_offset = -1
        self.logged: list[tuple[str, str | None, int]] = []

    def open(self) -> None:
        self.shop.open()

    def seen_by(self, level: IsolationLevel) -> Model:
        """Return what readers at a level see."""
        return self.committed if level is IsolationLevel.READ_COMMITTED else self.current

    def time(self, age: int) -> int:
        return max(0, self.current.stream_time - age)

    @rule(key=KEYS, value=VALUES, age=AGES)
    def put(self, key: str, value: str | None, age: int) -> None:
        timestamp = self.time(age)
        assert self.shop.put(key, value, timestamp) == self.current.put(key, value, timestamp)

    @rule(key=KEYS, age=AGES)
    def delete(self, key: str, age: int) -> None:
        timestamp = self.time(age)
        expected = self.current.at(key, timestamp)
        taken = self.current.put(key, None, timestamp) != PUT_RETURN_CODE_NOT_PUT
        assert self.shop.store.delete(key, timestamp) == (expected if taken else None)

    @rule(key=KEYS, age=AGES)
    def read_as_of(self, key: str, age: int) -> None:
        as_of = self.time(age)
        assert self.shop.get(key, as_of) == self.current.at(key, as_of)

    @rule(key=KEYS, ages=st.tuples(AGES, AGES), descending=st.booleans())
    def read_range(self, key: str, ages: tuple[int, int], *, descending: bool) -> None:
        start, end = sorted(map(self.time, ages))
        expected = self.current.between(key, start, end)
        found = self.shop.versions(key, start, end, descending=descending)
        assert found == (expected[::-1] if descending else expected)

    @rule(target=ranges, key=KEYS, ages=st.tuples(AGES, AGES), descending=st.booleans())
    def open_range(self, key: str, ages: tuple[int, int], *, descending: bool) -> OpenRange:
        start, end = sorted(map(self.time, ages))
        expected = self.current.between(key, start, end)
        versions = self.shop.store.get_range(key, start, end, descending=descending)
        return OpenRange(versions, expected[::-1] if descending else expected)

    @rule(target=ranges, key=KEYS, level=LEVELS)
    def open_range_of_a_view(self, key: str, level: IsolationLevel) -> OpenRange:
        model = self.seen_by(level)
        now = max(0, model.stream_time)
        versions = self.shop.store.read_only(level).get_range(key, 0, now)
        return OpenRange(versions, model.between(key, 0, now))

    @rule(opened=ranges)
    def advance_range(self, opened: OpenRange) -> None:
        """The versions of a key are read at once; whatever comes later does not change them."""
        found = next(opened.versions, None)
        assert found == (opened.expected.pop(0) if opened.expected else None)

    def commit_to_kafka(self) -> None:
        self.logged += self.shop.logged()
        self.committed = deepcopy(self.current)
        assert self.logged == self.committed.puts

    @rule()
    def commit(self) -> None:
        self.commit_to_kafka()
        if self.logged:
            self.shop.commit()

    @rule()
    def roll_back(self) -> None:
        self.shop.store.rollback()
        self.shop.home.changelog.records.clear()
        self.current = deepcopy(self.committed)

    @rule()
    def reopen(self) -> None:
        self.roll_back()
        if not self.shop.store.persistent:
            self.lose_the_store(max(1, len(self.logged)))
            return
        self.shop.store.close()
        self.open()
        self.flushed, self.flushed_offset = deepcopy(self.committed), self.shop.offset

    @rule(batch=st.integers(1, 7))
    def crash(self, batch: int) -> None:
        """Go on with a copy of the directory as it is beside the open store."""
        if not self.shop.store.persistent:
            self.lose_the_store(batch)
            return
        home = self.shop.home
        self.lives += 1
        following = self.directory / str(self.lives)
        copy_in_use(home.directory, following)
        self.shop.store.close()
        home.changelog.records.clear()
        home.directory = following
        self.open()
        self.shop.offset = self.flushed_offset
        known = None if self.flushed_offset < 0 else self.flushed_offset
        assert self.shop.store.committed_offset(CHANGELOG) == known
        for key in ("", "k", "kk"):
            assert self.shop.get(key) == self.flushed.at(key, None)
        self.current = deepcopy(self.committed)
        self.restore_rest(batch)

    @rule(batch=st.integers(1, 7))
    def crash_before_the_batch(self, batch: int) -> None:
        """Kafka has committed, the store has not yet: the store is behind, never ahead."""
        self.commit_to_kafka()
        self.crash(batch)

    def restore_rest(self, batch: int) -> None:
        """Restore what the changelog has beyond the store."""
        first = self.shop.offset + 1
        for start in range(first, len(self.logged), batch):
            self.shop.restore(*self.logged[start : start + batch])

    @rule(batch=st.integers(1, 7))
    def lose_the_store(self, batch: int) -> None:
        """What the changelog restores, in batches of any size, is what there was."""
        self.roll_back()
        self.rebuild(batch)

    def rebuild(self, batch: int) -> None:
        """Restore the store from nothing."""
        self.shop.store.destroy()
        self.shop.offset = self.flushed_offset = -1
        self.flushed = Model()
        self.shop.open()
        self.restore_rest(batch)

    @rule(count=st.integers(1, 5))
    def restore_again(self, count: int) -> None:
        """After a crash in `close` data is newer than its offset: putting it again is harmless."""
        self.roll_back()
        if self.logged:
            self.shop.offset -= len(self.logged[-count:])
            self.shop.restore(*self.logged[-count:])

    @invariant()
    def latest_versions_and_views_agree(self) -> None:
        self.count_step()
        assert self.shop.store.committed_offset(CHANGELOG) == (
            self.shop.offset if self.logged else None
        )
        views = {level: self.shop.store.read_only(level) for level in IsolationLevel}
        for key in ("", "k", "kk"):
            for level, view in views.items():
                self.agree(view, self.seen_by(level), key)
            assert self.shop.get(key) == self.current.at(key, None)

    def agree(self, view: ReadOnlyVersionedKeyValueStore[str, str], model: Model, key: str) -> None:
        now = max(0, model.stream_time)
        assert view.get(key) == model.at(key, None)
        assert list(view.get_range(key, 0, now)) == model.between(key, 0, now)
        for as_of in (now - 1, now - SEGMENT_INTERVAL_MS, now - RETENTION_MS - 1):
            assert view.get(key, as_of) == model.at(key, as_of)

    def teardown(self) -> None:
        if hasattr(self, "shop"):
            self.shop.store.close()
            shutil.rmtree(self.directory)


class RocksDBVersionedStoreMachine(VersionedStoreMachine):
    engine = StoreEngine.ROCKSDB


MACHINES = [VersionedStoreMachine, RocksDBVersionedStoreMachine]


@pytest.mark.property
@pytest.mark.parametrize("machine", MACHINES)
def test_random_steps_give_what_the_puts_say(machine: type[VersionedStoreMachine]) -> None:
    assert machine.run_lives(SHORT) > 0
