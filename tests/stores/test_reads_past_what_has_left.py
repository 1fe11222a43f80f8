"""What has left a store costs its reads nothing, however much it was and wherever it lies.

Counted are the keys that are walked over, deleted ones too: since the last commit in the dirty map,
and, as RocksDB does up to a compaction, in the engine.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pystreams import StateStore, Stores, Window, Windowed, serdes
from pystreams.record import NO_RECORD
from pystreams.stores.contracts.spec import StoreSpec
from pystreams.stores.dirty_map.buffered import BufferedKeyValueStore
from pystreams.stores.kinds.buffer.kind import BUFFER
from pystreams.stores.kinds.buffer.store import KEPT_BYTES, TimeOrderedBuffer
from pystreams.stores.kinds.buffer.waiting_record import WaitingRecord
from pystreams.stores.kinds.key_value.kind import KEY_VALUE
from pystreams.stores.kinds.list.kind import LIST
from pystreams.stores.kinds.list.store import ListValueStore
from pystreams.stores.spec_builder import StoreSpecBuilder
from tests.stores.counting import UncompactedEngine, Walked, walked
from tests.stores.support import CHANGELOG, Home
from tests.stores.waiting import HELD_BYTES, let_leave, put

__all__ = ["walked"]

FEW, MANY = 40, 4000
WAITING = 5
RETENTION_MS = 1000

each_way = pytest.mark.parametrize("committed", [False, True], ids=["uncommitted", "committed"])


def builder_of(spec: StoreSpec, walked: Walked) -> StoreSpecBuilder:
    return StoreSpecBuilder(replace(spec, engine_factory=lambda _: UncompactedEngine(walked)))


def opened(spec: StoreSpec, walked: Walked, directory: Path) -> Any:
    return Home(directory).open_builder(builder_of(spec, walked))


def commit(store: StateStore) -> None:
    store.flush_cache()
    store.commit({CHANGELOG: 0})


def same_cost(
    walked: Walked, made: Callable[[int], Callable[[], object]], least: int = 0
) -> tuple[int, int]:
    """Return what one record's work walks over and opens, after few have left and after many.

    Args:
        walked: The count.
        made: Makes a store that so many entries have left; returns the work of a record.
        least: What it must walk over at least; otherwise nothing is tested.
    """
    costs = []
    for count in (FEW, MANY):
        work = made(count)
        work()  # May look once for where to begin.
        walked.forget()
        work()
        costs.append((walked.keys, walked.iterators))
    assert costs[0] == costs[1], "what has left is walked over"
    assert costs[0][0] >= least
    return costs[0]


def waiting(time: int, key: bytes = b"k") -> WaitingRecord:
    return WaitingRecord(key, b"v", time)


@each_way
def test_record_that_comes_into_a_buffer_and_lets_one_go_walks_over_nothing(
    committed: bool, walked: Walked, tmp_path: Path
) -> None:
    def made(left: int) -> Callable[[], object]:
        spec = StoreSpec("s", kind=BUFFER)
        buffer: TimeOrderedBuffer = opened(spec, walked, tmp_path / str(left))
        times = iter(range(10**9))

        def work() -> None:
            time = next(times)
            put(buffer, waiting(time))
            assert len(list(let_leave(buffer, time - WAITING))) == (time >= WAITING)
            if committed:
                commit(buffer)

        for _ in range(left):
            work()
        return work

    assert same_cost(walked, made) == (0, 0)


def test_records_of_one_time_that_come_too_late_to_wait_walk_over_nothing(
    walked: Walked, tmp_path: Path
) -> None:
    """Each lies behind those of its time that have left, in the order of keys."""

    def made(left: int) -> Callable[[], object]:
        buffer = opened(StoreSpec("s", kind=BUFFER), walked, tmp_path / str(left))
        put(buffer, waiting(WAITING))
        numbers = iter(range(10**9))

        def work() -> None:
            put(buffer, waiting(0, b"%09d" % next(numbers)))
            assert len(list(let_leave(buffer, 0))) == 1

        for _ in range(left):
            work()
        commit(buffer)
        return work

    assert same_cost(walked, made) == (0, 0)


def test_buffer_in_which_many_wait_looks_for_the_next_ones_now_and_then(
    walked: Walked, tmp_path: Path
) -> None:
    read_at_once = KEPT_BYTES // 2 // HELD_BYTES
    count = 20 * read_at_once
    buffer = opened(StoreSpec("s", kind=BUFFER), walked, tmp_path)
    for time in range(count):
        put(buffer, waiting(time))
    commit(buffer)
    walked.forget()

    for time in range(count):
        assert [record.timestamp for record in let_leave(buffer, time)] == [time]
        if time % 100 == 0:
            commit(buffer)

    assert walked.iterators <= count / read_at_once + 1
    assert walked.keys < 1.5 * count


def test_reopened_buffer_walks_once_over_what_had_left(walked: Walked, tmp_path: Path) -> None:
    home = Home(tmp_path)
    buffer = home.open_builder(builder_of(StoreSpec("s", kind=BUFFER), walked))
    assert isinstance(buffer, TimeOrderedBuffer)
    for time in range(MANY):
        put(buffer, waiting(time))
    commit(buffer)
    assert len(list(let_leave(buffer, MANY - WAITING))) == MANY - WAITING + 1
    commit(buffer)
    buffer.close()
    buffer.init(home.context())

    put(buffer, waiting(MANY))
    assert list(let_leave(buffer, MANY - WAITING)) == []
    walked.forget()
    for time in range(MANY + 1, MANY + 100):
        put(buffer, waiting(time))
        assert len(list(let_leave(buffer, time - WAITING))) == 1

    assert walked.keys == 0


def list_store(walked: Walked, directory: Path, *, transactional: bool) -> ListValueStore[int, str]:
    spec = StoreSpec(
        "s",
        kind=LIST,
        key_serde=serdes.LONG,
        value_serde=serdes.STRING,
        transactional=transactional,
    )
    store: ListValueStore[int, str] = opened(spec, walked, directory)
    return store


@each_way
@pytest.mark.parametrize("transactional", [True, False])
def test_first_entries_of_a_store_of_lists_are_read_past_those_that_left(
    transactional: bool, committed: bool, walked: Walked, tmp_path: Path
) -> None:
    def made(left: int) -> Callable[[], object]:
        store = list_store(walked, tmp_path / f"{left}", transactional=transactional)
        numbers = iter(range(10**9))

        def work() -> None:
            number = next(numbers)
            store.put(number, "v")
            entries = store.all()
            oldest, _ = next(entries)
            entries.close()
            assert oldest == max(0, number - WAITING)
            if number >= WAITING:
                store.delete(oldest)
            if committed:
                commit(store)

        for _ in range(left):
            work()
        return work

    same_cost(walked, made, least=1)


@each_way
@pytest.mark.parametrize("transactional", [True, False])
@pytest.mark.parametrize("stays", [True, False])
def test_key_value_store_whose_first_keys_were_deleted_is_read_past_them(
    stays: bool, transactional: bool, committed: bool, walked: Walked, tmp_path: Path
) -> None:
    """Whether something stays or not: an empty store costs no more."""

    def made(left: int) -> Callable[[], object]:
        spec = StoreSpec(
            "s",
            KEY_VALUE,
            key_serde=serdes.LONG,
            value_serde=serdes.LONG,
            transactional=transactional,
        )
        store = opened(spec, walked, tmp_path / str(left))
        numbers = iter(range(10**9))
        if stays:
            store.put(10**9, 0)

        def work() -> None:
            number = next(numbers)
            store.put(number, number)
            assert [key for key, _ in store.all()] == [number, 10**9][: 1 + stays]
            store.delete(number)
            if committed:
                commit(store)

        for _ in range(left):
            work()
        return work

    same_cost(walked, made, least=1)


def test_range_with_a_beginning_is_read_past_what_was_deleted_behind_it(
    walked: Walked, tmp_path: Path
) -> None:
    def made(left: int) -> Callable[[], object]:
        spec = StoreSpec("s", KEY_VALUE, key_serde=serdes.LONG, value_serde=serdes.LONG)
        store = opened(spec, walked, tmp_path / str(left))
        for number in range(1000, 1000 + left):
            store.put(number, number)
        commit(store)
        for number in range(1000, 1000 + left):
            store.delete(number)

        def work() -> None:
            assert [key for key, _ in store.range(1000, 10**9)] == []

        work()
        commit(store)
        return work

    same_cost(walked, made)


@each_way
@pytest.mark.parametrize("kind", ["window", "session"])
def test_windows_and_sessions_are_read_past_expired_segments(
    kind: str, committed: bool, walked: Walked, tmp_path: Path
) -> None:
    types = (serdes.STRING, serdes.LONG)
    builder = (
        Stores.window_store_builder(
            Stores.persistent_window_store("s", RETENTION_MS, window_size_ms=100), *types
        )
        if kind == "window"
        else Stores.session_store_builder(
            Stores.persistent_session_store("s", RETENTION_MS), *types
        )
    )

    def made(left: int) -> Callable[[], object]:
        store = opened(builder.spec, walked, tmp_path / str(left))
        times = iter(range(0, 10**12, 10 * RETENTION_MS))

        def work() -> None:
            time = next(times)
            if kind == "window":
                store.put("k", 1, time)
                assert [start for start, _ in store.fetch("k", 0, time)] == [time]
            else:
                store.put(Windowed("k", Window(time, time)), 1)
                assert len(list(store.find_sessions("k", 0, time))) == 1
            if committed:
                commit(store)

        for _ in range(left // 10):
            work()
        return work

    same_cost(walked, made, least=1)


def test_walked_keys_are_counted_where_nothing_is_remembered(
    walked: Walked, tmp_path: Path
) -> None:
    """Deletions behind the first entry are walked over; otherwise the count would count nothing."""
    store = BufferedKeyValueStore(
        "s", UncompactedEngine(walked), value_prefix_bytes=0, caching=False
    )
    store.init(Home(tmp_path).context())
    for number in range(MANY):
        store.write(b"%09d" % number, b"v", b"v", 0, NO_RECORD)
    store.commit({CHANGELOG: 0})
    for number in range(1, MANY):
        store.write(b"%09d" % number, None, None, 0, NO_RECORD)
    walked.forget()

    assert [key for key, _ in store.range(None, None)] == [b"%09d" % 0]

    assert walked.keys >= 2 * (MANY - 1)
    store.commit({CHANGELOG: 1})
