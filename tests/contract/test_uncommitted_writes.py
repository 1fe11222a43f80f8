"""The transaction of a store: what waits for the commit, for every kind, over both engines.

The cases of Kafka's AbstractTransactionBufferTest, RocksDBTransactionBufferTest,
StagedMergeIteratorTest and the InMemoryTransactional and RocksDBTransactional store tests, as
behaviour; and regression tests of what went wrong there: each names its KAFKA issue.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pystreams import IsolationLevel, Position, StoreEngine, StoreNotAvailableError
from pystreams.stores.files.metadata import POSITION, STATUS
from tests.contract.every_kind import FAR_MS, INPUT, KINDS, SLOTS, STEP_MS, Kind, Slots
from tests.stores.support import CHANGELOG

pytestmark = pytest.mark.contract

COMMITTED = IsolationLevel.READ_COMMITTED
UNCOMMITTED = IsolationLevel.READ_UNCOMMITTED
LEVELS = [COMMITTED, UNCOMMITTED]
ITERATED = [name for name in KINDS if name != "versioned"]
"""Kinds whose iterators go over keys, and are lazy."""
EXPIRING = [name for name, kind in KINDS.items() if kind.expires]
OLD = {0: 10, 1: 11, 2: 12, 3: 13, 5: 15}
STAGED = {1: 21, 2: None, 3: None, 4: 24, 6: 26, 7: None}
"""On top of OLD: overwritten, deleted, deleted and put again (3), new between and behind, and a
deletion of nothing."""
NEW = {0: 10, 1: 21, 3: 33, 4: 24, 5: 15, 6: 26}


@pytest.fixture(params=list(KINDS))
def kind(request: pytest.FixtureRequest) -> Kind:
    return KINDS[request.param]


@pytest.fixture(params=list(StoreEngine), ids=[engine.value for engine in StoreEngine])
def engine(request: pytest.FixtureRequest) -> StoreEngine:
    chosen: StoreEngine = request.param
    return chosen


@pytest.fixture
def slots(kind: Kind, engine: StoreEngine, tmp_path: Path) -> Iterator[Slots]:
    made = Slots(tmp_path, kind, engine)
    yield made
    made.store.close()


iterated = pytest.mark.parametrize("kind", [KINDS[name] for name in ITERATED], ids=ITERATED)
expiring = pytest.mark.parametrize("kind", [KINDS[name] for name in EXPIRING], ids=EXPIRING)
keyed = pytest.mark.parametrize(
    "kind", [KINDS["plain"], KINDS["timestamped"]], ids=["plain", "timestamped"]
)


def stage(slots: Slots) -> None:
    """Commit OLD, and leave what makes it NEW uncommitted."""
    slots.put(OLD)
    slots.commit()
    slots.put(STAGED)
    slots.put({3: 33})
    slots.put({8: 28})
    slots.put({8: None})


def in_another_thread(read: Any) -> Any:
    answers: list[Any] = []
    thread = threading.Thread(target=lambda: answers.append(read()))
    thread.start()
    thread.join()
    return answers[0]


# ---------------------------------------------------------------------- reads


def test_every_iterator_of_the_owner_merges_what_waits_into_what_is_committed(
    slots: Slots,
) -> None:
    stage(slots)
    slots.holds(NEW)


def test_iterators_over_nothing_but_uncommitted_entries_give_them(slots: Slots) -> None:
    slots.holds({})
    slots.put(OLD)
    slots.holds(OLD)


def test_iterators_over_nothing_but_deletions_give_nothing(slots: Slots) -> None:
    slots.put(OLD)
    slots.commit()
    slots.put(dict.fromkeys(OLD))
    slots.holds({})
    slots.commit()
    slots.holds({})


def test_another_thread_that_reads_committed_sees_nothing_of_what_waits(slots: Slots) -> None:
    """KAFKA-20768: reads of time-ordered stores gave out what was staged."""
    stage(slots)
    view = slots.store.read_only(COMMITTED)
    found = in_another_thread(lambda: slots.every_read(view))
    assert set(found) == {*slots.kind.forward, *slots.kind.backward}
    for name, entries in found.items():
        assert entries == sorted(OLD.items()), name
    slots.commit()
    slots.holds(NEW, view)


def test_another_thread_that_reads_uncommitted_sees_all_that_waits(slots: Slots) -> None:
    stage(slots)
    view = slots.store.read_only(UNCOMMITTED)
    for name, entries in in_another_thread(lambda: slots.every_read(view)).items():
        assert entries == sorted(NEW.items()), name
    slots.store.rollback()
    slots.holds(OLD, view)


@iterated
def test_an_iterator_is_no_copy_of_what_waits(slots: Slots) -> None:
    """What is written ahead of it while it is open is found, in every kind of iterator."""
    slots.put(OLD)
    slots.put({11: 1})
    for reads, behind, ahead in (
        (slots.kind.forward, [0, 1], [9, 10, 11]),
        (slots.kind.backward, [11, 5], [1, 0]),
    ):
        for name, read in reads.items():
            iterator = slots.numbered(read(slots.store))
            begun = [next(iterator)[0], next(iterator)[0]]
            assert begun == behind, name
            slots.put({2: None, 3: None, 4: None, 5: None, behind[0]: 99})
            if ahead[0] > behind[0]:
                slots.put({9: 1, 10: 1})
            assert [slot for slot, _ in iterator] == ahead, name
            slots.put(dict.fromkeys(range(SLOTS)))
            slots.put(OLD)
            slots.put({11: 1})


@iterated
@pytest.mark.parametrize("end", ["commit", "rollback"])
def test_an_open_iterator_goes_on_over_the_end_of_its_transaction(slots: Slots, end: str) -> None:
    ahead = sorted((NEW if end == "commit" else OLD).items())
    for reads, order in ((slots.kind.forward, ahead), (slots.kind.backward, ahead[::-1])):
        for name, read in reads.items():
            slots.put(dict.fromkeys(range(SLOTS)))
            stage(slots)
            iterator = slots.numbered(read(slots.store))
            passed = next(iterator)[0]
            if end == "commit":
                slots.commit()
            else:
                slots.store.rollback()
            further = [entry for entry in order if (entry[0] < passed) is (order is not ahead)]
            assert list(iterator) == [entry for entry in further if entry[0] != passed], name


def readers_of(slots: Slots) -> list[Any]:
    return [slots.store, *(slots.store.read_only(level) for level in LEVELS)]


@iterated
def test_a_closed_iterator_gives_nothing_more(slots: Slots) -> None:
    """KAFKA-20777: a closed merge of staged and committed entries could still be asked."""
    stage(slots)
    for reader in readers_of(slots):
        for name, read in (*slots.kind.forward.items(), *slots.kind.backward.items()):
            begun, fresh = read(reader), read(reader)
            next(begun)
            for iterator in (begun, fresh):
                iterator.close()
                iterator.close()
                assert list(iterator) == [], name


@iterated
def test_a_new_iterator_gives_all_after_others_were_closed_early(slots: Slots) -> None:
    stage(slots)
    for reader, held in zip(readers_of(slots), (NEW, OLD, NEW), strict=True):
        for read in (*slots.kind.forward.values(), *slots.kind.backward.values()):
            begun, fresh = read(reader), read(reader)
            next(begun)
            begun.close()
            fresh.close()
            slots.holds(held, reader)


@iterated
def test_an_iterator_over_a_store_that_closed_says_so_and_frees_it(slots: Slots) -> None:
    """No entries that were never committed, and no lock on the directory, outlive the store."""
    stage(slots)
    readers = readers_of(slots)
    abandoned = [
        read(reader)
        for reader in readers
        for read in (*slots.kind.forward.values(), *slots.kind.backward.values())
    ]
    for iterator in abandoned:
        next(iterator)
    slots.store.close()
    for reader in readers:
        for name, read in slots.kind.forward.items():
            with pytest.raises(StoreNotAvailableError):
                assert next(read(reader)) is None, name
    slots.open()
    if slots.store.persistent:
        slots.holds(OLD)
    for iterator in abandoned:
        iterator.close()


# ---------------------------------------------------------------------- commit and rollback


def test_a_commit_applies_all_that_waits_and_leaves_nothing_waiting(slots: Slots) -> None:
    stage(slots)
    slots.commit()
    assert slots.store.approximate_num_uncommitted_bytes() == 0
    assert slots.store.committed_offset(CHANGELOG) == 1
    slots.holds(NEW)
    slots.commit()
    slots.holds(NEW)
    assert slots.store.committed_offset(CHANGELOG) == 2


def test_a_rollback_drops_all_that_waits_and_the_next_commit_writes_none_of_it(
    slots: Slots,
) -> None:
    stage(slots)
    slots.store.rollback()
    assert slots.store.approximate_num_uncommitted_bytes() == 0
    slots.holds(OLD)
    slots.put({9: 39})
    slots.commit()
    slots.holds(OLD | {9: 39})
    slots.store.rollback()
    slots.holds(OLD | {9: 39})


def test_what_waits_is_gone_when_the_store_closes(slots: Slots) -> None:
    stage(slots)
    slots.store.close()
    slots.open()
    slots.holds(OLD if slots.store.persistent else {})


def test_a_commit_that_fails_leaves_data_offset_and_position_as_they_were(slots: Slots) -> None:
    """KAFKA-20760: the position was written apart from data and offset."""
    stage(slots)
    before = slots.store.position
    slots.store._buffer._engine.close()
    with pytest.raises(StoreNotAvailableError):
        slots.commit()
    slots.store.close()
    slots.open()
    if slots.store.persistent:
        assert slots.store.committed_offset(CHANGELOG) == 0
        assert slots.store.position == before == Position({INPUT: 0})
        slots.holds(OLD)


def test_data_offset_and_position_are_those_of_one_commit(slots: Slots) -> None:
    """KAFKA-20760, the other way around: one write has all three."""
    stage(slots)
    slots.commit()
    metadata = slots.store._buffer._engine.metadata()
    assert metadata[str(CHANGELOG).encode()] == (1).to_bytes(8, "big")
    assert Position.deserialize(metadata[POSITION]) == slots.store.position == Position({INPUT: 1})
    slots.holds(NEW, slots.store.read_only(COMMITTED))


def test_offset_and_position_never_show_among_the_data(slots: Slots) -> None:
    """KAFKA-20749: keys of offsets came out of iterators, and a processor choked on them."""
    stage(slots)
    slots.commit()
    slots.store.commit({})
    slots.commit()
    for reader in (slots.store, *(slots.store.read_only(level) for level in LEVELS)):
        slots.holds(NEW, reader)
    assert {POSITION, str(CHANGELOG).encode()} <= set(slots.store._buffer._engine.metadata())


@keyed
def test_keys_named_as_those_of_offsets_are_keys_as_any_other(slots: Slots) -> None:
    """KAFKA-20749, the other way around."""
    names = sorted(name.decode() for name in (POSITION, STATUS, str(CHANGELOG).encode()))
    slots.put({0: 10})
    value = slots.store.get("k00")
    for name in names:
        slots.store.put(name, value)
    slots.commit()
    assert slots.store.committed_offset(CHANGELOG) == 0
    assert [key for key, _ in slots.store.all()] == sorted(["k00", *names])
    for name in names:
        assert slots.store.delete(name) == value
    slots.commit()
    assert slots.store.committed_offset(CHANGELOG) == 1
    assert slots.store.position == Position({INPUT: 1})
    slots.holds({0: 10})


def test_a_transactional_store_has_no_mark_of_being_open_to_commit(slots: Slots) -> None:
    """KAFKA-20753: the mark was staged as data are, and came and went with the transaction."""
    assert slots.store.approximate_num_uncommitted_bytes() == 0
    slots.put(OLD)
    slots.store.rollback()
    slots.commit()
    assert STATUS not in slots.store._buffer._engine.metadata()
    slots.store.close()
    slots.open()
    assert STATUS not in slots.store._buffer._engine.metadata()
    assert slots.store.approximate_num_uncommitted_bytes() == 0


@keyed
def test_put_all_waits_for_the_commit_as_put_does(slots: Slots) -> None:
    """KAFKA-20933: it went past the transaction into the database."""
    slots.put(OLD)
    slots.commit()
    slots.put({9: 39})
    value = slots.store.get("k09")
    slots.store.put_all([("k00", value), ("k01", None), ("k09", value)])
    slots.holds({0: 39, 2: 12, 3: 13, 5: 15, 9: 39})
    slots.holds(OLD, slots.store.read_only(COMMITTED))
    assert slots.store.approximate_num_uncommitted_bytes() == counted(slots)
    slots.store.rollback()
    slots.holds(OLD)
    slots.store.put_all([("k09", value)])
    slots.commit()
    slots.holds(OLD | {9: 39}, slots.store.read_only(COMMITTED))


# ---------------------------------------------------------------------- uncommitted bytes


def counted(slots: Slots) -> int:
    return sum(len(key) + len(value or b"") for key, value in slots.store._buffer.dirty.items())


@pytest.mark.parametrize("caching", [False, True], ids=["logged", "cached"])
def test_uncommitted_bytes_count_each_key_once_over_overwrites_and_deletions(
    kind: Kind, engine: StoreEngine, tmp_path: Path, *, caching: bool
) -> None:
    if caching and kind is KINDS["versioned"]:
        pytest.skip("versioned stores have no record cache")
    slots = Slots(tmp_path, kind, engine, caching=caching)
    size = slots.store.approximate_num_uncommitted_bytes
    assert size() == 0
    slots.put({5: 15})
    one = size()
    assert one == counted(slots) > 0
    for _ in range(3):
        slots.put({5: 16})
    slots.store.flush_cache()
    assert size() == one
    slots.put({5: None})
    assert size() == counted(slots)
    slots.put({5: None})
    assert size() == counted(slots)
    slots.put({5: 15})
    assert size() == counted(slots)
    slots.put({4: 14, 6: None, 7: 17})
    assert size() == counted(slots) > one
    slots.commit()
    assert size() == counted(slots) == 0
    slots.put({5: None, 4: 1, 8: 1})
    assert size() == counted(slots) > 0
    slots.store.rollback()
    assert size() == counted(slots) == 0
    slots.store.close()


# ---------------------------------------------------------------------- expiry waits as well


@expiring
def test_segments_that_expired_in_the_transaction_are_there_until_its_commit(
    slots: Slots,
) -> None:
    """The range deletion of a segment is as uncommitted as the put that caused it."""
    slots.put(OLD)
    slots.commit()
    far = FAR_MS // STEP_MS
    slots.put({4: 14, far: 99})
    slots.holds({far: 99})
    committed = slots.store.read_only(COMMITTED)
    slots.holds(OLD, committed)
    slots.store.rollback()
    slots.holds(OLD)
    slots.put({4: 14, far: 99})
    slots.commit()
    slots.holds({far: 99}, committed)
    assert len(list(slots.store._buffer._engine.range(None, None))) == 1


@expiring
def test_a_put_behind_the_retention_is_dropped_though_nothing_is_committed_yet(
    slots: Slots,
) -> None:
    far = FAR_MS // STEP_MS
    slots.put({far: 99, 0: 10})
    assert slots.home.dropped.count == 1
    slots.holds({far: 99})
    slots.store.rollback()
    slots.put({0: 10})
    slots.holds({0: 10})


# ---------------------------------------------------------------------- beside other threads


@iterated
@pytest.mark.parametrize("level", LEVELS)
def test_no_iterator_of_another_thread_misses_a_slot_while_the_owner_commits(
    slots: Slots, level: IsolationLevel
) -> None:
    commits = 60
    slots.put(dict.fromkeys(range(SLOTS), 0))
    slots.commit()
    view = slots.store.read_only(level)
    done = threading.Event()
    faults: list[object] = []

    def read() -> None:
        newest = 0
        while not done.is_set() and not faults:
            for name, entries in slots.every_read(view).items():
                numbers = [number for _, number in entries]
                if [slot for slot, _ in entries] != list(range(SLOTS)) or min(numbers) < newest:
                    faults.append((name, newest, entries))
                # Whatever comes after this read is at least as new, but for the commit under way.
                newest = max(newest, max(numbers, default=0) - 1)

    thread = threading.Thread(target=read)
    thread.start()
    for commit in range(1, commits):
        slots.put(dict.fromkeys(range(SLOTS), commit))
        slots.commit()
    done.set()
    thread.join()
    assert faults == []


# ---------------------------------------------------------------------- record cache


@iterated
def test_a_flush_forwards_the_last_update_with_the_value_that_was_forwarded_before(
    kind: Kind, engine: StoreEngine, tmp_path: Path
) -> None:
    slots = Slots(tmp_path, kind, engine, caching=True)

    def flushed(*updates: dict[int, int | None]) -> list[tuple[int, int | None, int | None]]:
        for update in updates:
            slots.put(update)
        slots.store.flush_cache()
        heard, slots.heard = slots.heard, []
        return heard

    assert flushed({1: 10}, {1: 11}) == [(1, 11, None)]
    assert flushed({1: 12}, {1: 13}) == [(1, 13, 11)]  # Forwarded, not yet committed.
    slots.commit()
    assert flushed({2: 20}, {1: 14}, {2: 21}) == [(1, 14, 13), (2, 21, None)]
    assert flushed({1: None}, {2: None}, {2: 22}) == [(1, None, 14), (2, 22, 21)]
    assert flushed({1: None}, {3: 30}, {3: None}) == []  # Nothing before and nothing after.
    assert flushed({1: 15}) == [(1, 15, None)]
    slots.commit()
    assert flushed({1: 16, 2: 23}) == [(1, 16, 15), (2, 23, 22)]
    slots.put({1: 17})
    slots.store.rollback()
    assert flushed() == []
    assert flushed({1: 18}, {2: None}) == [(1, 18, 15), (2, None, 22)]
    slots.commit()
    assert flushed({1: None}, {1: 19}) == [(1, 19, 18)]
    slots.store.close()
