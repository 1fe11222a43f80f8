"""Readers of other threads beside an owner that deletes ranges: whole segments that expire.

Kafka's `shouldHandleConcurrentStageDeleteRangeAndNonOwnerReads`, and more than it asks: a read is
in order and gives nothing twice, and what was there from its beginning to its end is in it.
"""

from __future__ import annotations

import struct
import threading
from typing import TYPE_CHECKING, Any

import pytest

from pystreams import IsolationLevel, StoreEngine
from pystreams.record import NO_RECORD
from pystreams.stores.typed_stores.views import view_of
from tests.contract.every_kind import KINDS, RETENTION_MS, STEP_MS, Slots
from tests.stores.kinds.versioned_support import VersionedHome, versioned_spec
from tests.stores.support import CHANGELOG, Home, spec_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

STEPS = 200
READS = 10
COMMIT_EVERY = 7
LEVELS = list(IsolationLevel)
EXPIRING = [name for name, kind in KINDS.items() if kind.expires]
key_of = struct.Struct(">q").pack


class Progress:
    """How far an owner is that writes number after number.

    Attributes:
        begun: The last number it began to write.
        written: The last number it wrote.
        committed: The last number it committed.
    """

    def __init__(self) -> None:
        self.begun = self.written = self.committed = 0

    def seen_by(self, level: IsolationLevel) -> int:
        """Return the last number that readers at a level see for sure."""
        return self.committed if level is IsolationLevel.READ_COMMITTED else self.written

    def write(self, number: int, put: Callable[[], object], commit: Callable[[], object]) -> None:
        """Write a number, and commit now and then."""
        self.begun = number
        put()
        self.written = number
        if number % COMMIT_EVERY == 0:
            commit()
            self.committed = number


def beside(step: Callable[[int], None], *reads: Callable[[], None]) -> None:
    """Take steps while each read goes on in a thread of its own, until there was enough of all.

    Raises:
        BaseException: What a read raised.
    """
    ended = threading.Event()
    failures: list[BaseException] = []
    finished = [0] * len(reads)

    def keep_reading(number: int) -> None:
        try:
            while not ended.is_set():
                reads[number]()
                finished[number] += 1
        except BaseException as error:  # noqa: BLE001 - handed to the test
            failures.append(error)

    threads = [threading.Thread(target=keep_reading, args=(n,)) for n in range(len(reads))]
    for thread in threads:
        thread.start()
    taken = 0
    try:
        while not failures and (taken < STEPS or min(finished) < READS):
            taken += 1
            step(taken)
    finally:
        ended.set()
        for thread in threads:
            thread.join()
    if failures:
        raise failures[0]


@pytest.mark.parametrize("engine", list(StoreEngine))
def test_range_deletes_beside_readers_leave_out_no_key_that_stays(
    tmp_path: Path, engine: StoreEngine
) -> None:
    kept, delete_every = 40, 5
    opened: Any = Home(tmp_path).open(spec_of(engine))
    store = opened._buffer
    store.write(key_of(0), b"0", b"0", 0, NO_RECORD)
    store.commit({CHANGELOG: 0})
    progress = Progress()

    def put(number: int) -> None:
        value = b"%d" % number
        store.write(key_of(number), value, value, 0, NO_RECORD)
        if number % delete_every == 0:
            store.delete_below(key_of(max(0, number - kept)))

    def step(number: int) -> None:
        progress.write(number, lambda: put(number), lambda: store.commit({CHANGELOG: number}))

    def reader(level: IsolationLevel, *, reverse: bool) -> Callable[[], None]:
        view = view_of(store, level)

        def read() -> None:
            newest = progress.seen_by(level)
            assert view.get(key_of(newest)) in {b"%d" % newest, None}
            entries = list(view.range(None, None, reverse=reverse))
            if reverse:
                entries.reverse()
            seen = [int(value) for _, value in entries]
            assert [key for key, _ in entries] == [key_of(number) for number in seen]
            assert seen == sorted(set(seen))
            assert set(range(max(0, progress.begun - kept), newest + 1)) <= set(seen)

        return read

    beside(step, *(reader(level, reverse=reverse) for level in LEVELS for reverse in (False, True)))
    store.close()


@pytest.mark.parametrize("engine", list(StoreEngine))
@pytest.mark.parametrize("kind", EXPIRING)
def test_readers_find_what_is_within_the_retention_while_segments_expire(
    tmp_path: Path, kind: str, engine: StoreEngine
) -> None:
    slots = Slots(tmp_path, KINDS[kind], engine)
    forward, backward = slots.kind.forward, slots.kind.backward
    slots.put({0: 0})
    slots.commit()
    progress = Progress()

    def oldest(newest: int) -> int:
        """Return the oldest slot that is within the retention when there is a newest one."""
        return max(0, -((RETENTION_MS - 1 - newest * STEP_MS) // STEP_MS))

    def step(number: int) -> None:
        progress.write(number, lambda: slots.put({number: number}), slots.commit)

    def reader(level: IsolationLevel) -> Callable[[], None]:
        view = slots.store.read_only(level)

        def read() -> None:
            for name, of in {**forward, **backward}.items():
                newest = progress.seen_by(level)
                entries = slots.entries(of, view)
                if name in backward:
                    entries.reverse()
                seen = [slot for slot, _ in entries]
                assert seen == [number for _, number in entries], name
                assert seen == sorted(set(seen)), name
                assert not seen or seen[0] >= oldest(newest), name
                assert set(range(oldest(progress.begun), newest + 1)) <= set(seen), name

        return read

    beside(step, *(reader(level) for level in LEVELS))
    slots.store.close()


@pytest.mark.parametrize("engine", list(StoreEngine))
def test_readers_find_the_history_of_a_key_while_its_segments_expire(
    tmp_path: Path, engine: StoreEngine
) -> None:
    history_ms = 20 * STEP_MS
    shop = VersionedHome(tmp_path, versioned_spec(engine, history_ms, 2 * STEP_MS))
    shop.put("k", "0", 0)
    shop.commit()
    progress = Progress()

    def step(number: int) -> None:
        progress.write(number, lambda: shop.put("k", str(number), number * STEP_MS), shop.commit)

    def reader(level: IsolationLevel) -> Callable[[], None]:
        view = shop.store.read_only(level)

        def read() -> None:
            newest = progress.seen_by(level)
            latest = view.get("k")
            assert latest is not None
            assert int(latest.value) >= newest
            seen = [int(version.value) for version in view.get_range("k", descending=False)]
            assert seen == sorted(set(seen))
            assert set(range(max(0, progress.begun - 20), newest + 1)) <= set(seen)

        return read

    beside(step, *(reader(level) for level in LEVELS))
    shop.store.close()
