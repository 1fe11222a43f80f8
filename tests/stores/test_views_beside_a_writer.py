"""Readers of other threads beside an owner that writes, commits and closes."""

from __future__ import annotations

import sys
import threading
from typing import TYPE_CHECKING, Any

import pytest

from pystreams import IsolationLevel, StoreEngine, StoreNotAvailableError
from pystreams.stores.accounting.read_cache import ReadCacheBudget
from pystreams.stores.build import build_store
from pystreams.stores.dirty_map.sorted_keys import ReadersKeys, SortedKeys
from pystreams.stores.engines.rocksdb import RocksDBEngine
from pystreams.stores.engines.rocksdb.iterator import RocksDBIterator
from pystreams.stores.typed_stores import views
from tests.stores.support import CHANGELOG, Home, spec_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from types import FrameType

COMMITS = 400
KEYS = [f"k{number:02d}" for number in range(50)]


def beside(owner: Callable[[], None], reader: Callable[[], None]) -> int:
    """Run `reader` again and again while `owner` runs; return how often; raise what it raised."""
    done = threading.Event()
    failures: list[BaseException] = []
    rounds = 0

    def read() -> None:
        nonlocal rounds
        try:
            while not done.is_set():
                reader()
                rounds += 1
        except BaseException as error:  # noqa: BLE001 - handed to the test
            failures.append(error)

    thread = threading.Thread(target=read)
    thread.start()
    try:
        owner()
    finally:
        done.set()
        thread.join()
    if failures:
        raise failures[0]
    return rounds


@pytest.mark.parametrize("engine", list(StoreEngine))
@pytest.mark.parametrize("level", list(IsolationLevel))
def test_a_reader_never_misses_a_key_and_never_sees_it_go_back(
    tmp_path: Path, engine: StoreEngine, level: IsolationLevel
) -> None:
    """The torn moment of a commit: the engine has the data, the dirty map is about to lose it."""
    store: Any = Home(tmp_path).open(spec_of(engine))
    for key in KEYS:
        store.put(key, 0)
    store.commit({CHANGELOG: 0})
    view = store.read_only(level)
    newest = 0

    def own() -> None:
        for commit in range(1, COMMITS):
            for key in KEYS:
                store.put(key, commit)
            store.commit({CHANGELOG: commit})

    def read() -> None:
        nonlocal newest
        point = view.get(KEYS[0])
        assert point >= newest
        newest = point
        entries = dict(view.all())
        assert list(entries) == KEYS
        assert min(entries.values()) >= newest - 1
        if engine is StoreEngine.ROCKSDB and level is IsolationLevel.READ_COMMITTED:
            assert len(set(entries.values())) == 1  # A snapshot: one and the same commit.

    assert beside(own, read) > 0
    store.close()


@pytest.mark.parametrize("engine", list(StoreEngine))
def test_a_range_misses_nothing_when_a_commit_comes_between_its_looks(
    tmp_path: Path, engine: StoreEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Gone from the dirty map, and not yet in the engine when its iterator was opened."""
    store: Any = Home(tmp_path).open(spec_of(engine))
    store.put_all([(key, 1) for key in KEYS])
    buffer = store._buffer
    looks, cleared, read = threading.Event(), threading.Event(), threading.Event()
    found: list[str] = []

    class Keys:
        def between(self, *arguments: Any, **keywords: Any) -> list[bytes]:
            looks.set()
            assert cleared.wait(120)
            keys: list[bytes] = readers_keys.between(*arguments, **keywords)
            return keys

        def clear(self) -> None:
            cleared.set()
            assert read.wait(120), "the reader waits for the end of the commit"
            readers_keys.clear()

    def look() -> None:
        found.extend(key for key, _ in store.read_only(IsolationLevel.READ_UNCOMMITTED).all())
        read.set()

    readers_keys = buffer.readers_keys
    monkeypatch.setattr(buffer, "readers_keys", Keys())
    thread = threading.Thread(target=look)
    thread.start()
    assert looks.wait(120)
    store.commit({CHANGELOG: 0})
    thread.join()
    store.close()

    assert found == KEYS


class TornMap(dict[bytes, "bytes | None"]):
    """A dirty map that a reader looks into while its owner clears it.

    Args:
        torn_at: The look of the reader, counted from 1, that finds it cleared, and all later ones.
    """

    def __init__(self, torn_at: int) -> None:
        super().__init__()
        self.reader: Callable[[], object] | None = None
        self._left = torn_at
        self._is_read = False

    def clear(self) -> None:
        if self.reader is not None:
            reader, self.reader, self._is_read = self.reader, None, True
            reader()
            self._is_read = False
        super().clear()

    def get(self, key: bytes, default: Any = None) -> Any:
        if self._is_read:
            self._left -= 1
            if self._left == 0:
                super().clear()
        return super().get(key, default)


@pytest.mark.parametrize("torn_at", [1, 5, 10])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("engine", list(StoreEngine))
def test_a_range_begun_in_the_middle_of_a_commit_misses_nothing_over_the_next(
    tmp_path: Path,
    engine: StoreEngine,
    reverse: bool,
    torn_at: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(views, "_FEW", 10)
    store: Any = Home(tmp_path).open(spec_of(engine))
    buffer = store._buffer
    buffer.dirty = torn = TornMap(torn_at)
    buffer.sorted_keys, buffer.readers_keys = SortedKeys(torn), ReadersKeys(torn)
    store.put_all([(key, 1) for key in KEYS])
    view = store.read_only(IsolationLevel.READ_UNCOMMITTED)
    entries = view.reverse_all() if reverse else view.all()
    found = []
    torn.reader = lambda: found.append(next(entries))

    store.commit({CHANGELOG: 0})
    store.put("other", 2)
    store.commit({CHANGELOG: 1})
    found += entries
    store.close()

    assert [key for key, _ in found if key != "other"] == (KEYS[::-1] if reverse else KEYS)


@pytest.mark.parametrize("level", list(IsolationLevel))
def test_what_another_thread_reads_does_not_reach_the_owners_read_cache(
    tmp_path: Path, level: IsolationLevel
) -> None:
    """It could put back a value that the owner has just replaced, and the owner would read it."""
    budget = ReadCacheBudget(1_000_000)
    home = Home(tmp_path)
    store: Any = build_store(spec_of(StoreEngine.ROCKSDB))
    store.init(home.context(read_cache_budget=budget))
    store.put("a", 1)
    store.commit({CHANGELOG: 0})
    cache = store._buffer._read_cache
    cache.clear()

    seen = store.read_only(level).get("a")

    assert seen == 1
    assert not cache._young
    store.close()


@pytest.mark.parametrize("engine", list(StoreEngine))
def test_closing_under_a_reader_tells_it_so_and_frees_the_directory(
    tmp_path: Path, engine: StoreEngine
) -> None:
    home = Home(tmp_path)
    spec = spec_of(engine)
    store: Any = home.open(spec)
    store.put_all([(f"{number:05d}", number) for number in range(2_000)])
    store.commit({CHANGELOG: 0})
    view = store.read_only(IsolationLevel.READ_UNCOMMITTED)
    reading = threading.Event()
    ended: list[BaseException] = []

    def read() -> None:
        try:
            while True:
                for _ in view.all():
                    reading.set()
        except StoreNotAvailableError as error:
            ended.append(error)

    thread = threading.Thread(target=read)
    thread.start()
    reading.wait()
    store.close()
    thread.join()
    assert len(ended) == 1
    again = home.open(spec)
    again.close()


def test_a_read_that_begins_as_the_store_closes_keeps_nothing_open(tmp_path: Path) -> None:
    """Neither do those who keep its error."""
    engine = RocksDBEngine("s", timestamped=False)
    engine.open(tmp_path)

    def close_meanwhile(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code is RocksDBIterator.__init__.__code__:
            engine.close()

    sys.settrace(close_meanwhile)
    try:
        with pytest.raises(StoreNotAvailableError) as raised:
            engine.range(None, None)
    finally:
        sys.settrace(None)

    again = RocksDBEngine("s", timestamped=False)
    again.open(tmp_path)
    again.close()
    assert "is closed" in str(raised.value)
