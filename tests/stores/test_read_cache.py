"""The read cache keeps what the engine holds, within the bytes of its thread."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pystreams.stores.accounting.read_cache import ReadCache, ReadCacheBudget
from tests.stores.support import CHANGELOG, Home, Message, spec_of

if TYPE_CHECKING:
    from pathlib import Path


class Engine:
    """Committed bytes, and how often they were asked for."""

    def __init__(self, **data: bytes) -> None:
        self.data = {key.encode(): value for key, value in data.items()}
        self.reads: list[bytes] = []

    def get(self, key: bytes) -> bytes | None:
        self.reads.append(key)
        return self.data.get(key)


def cache_of(budget: ReadCacheBudget, engine: Engine) -> ReadCache:
    cache = budget.cache(engine.get)
    assert cache is not None
    return cache


def test_value_is_read_from_the_engine_once() -> None:
    engine = Engine(k=b"v")
    cache = cache_of(ReadCacheBudget(1000), engine)

    assert [cache.get(b"k"), cache.get(b"k")] == [b"v", b"v"]
    assert engine.reads == [b"k"]


def test_absence_is_remembered_as_well() -> None:
    engine = Engine()
    cache = cache_of(ReadCacheBudget(1000), engine)

    assert [cache.get(b"k"), cache.get(b"k")] == [None, None]
    assert engine.reads == [b"k"]


def test_committed_value_is_not_read_at_all() -> None:
    engine = Engine(k=b"old", gone=b"old")
    cache = cache_of(ReadCacheBudget(1000), engine)
    cache.get(b"k")
    engine.reads.clear()

    cache.committed({b"k": b"new", b"gone": None}, 8)

    assert [cache.get(b"k"), cache.get(b"gone")] == [b"new", None]
    assert engine.reads == []


def test_key_that_is_not_used_through_two_generations_leaves() -> None:
    engine = Engine(idle=b"1" * 16, busy=b"2" * 16)
    cache = cache_of(ReadCacheBudget(200), engine)
    cache.get(b"idle")
    cache.get(b"busy")
    engine.reads.clear()

    for number in range(40):
        cache.committed({b"%04d" % number: b"v" * 16}, 20)
        cache.get(b"busy")
    assert engine.reads == []

    cache.get(b"idle")
    assert engine.reads == [b"idle"]


def test_caches_of_one_thread_share_its_bytes() -> None:
    first, second = Engine(a=b"1" * 9), Engine(b=b"2" * 9)
    budget = ReadCacheBudget(40)
    one, other = cache_of(budget, first), cache_of(budget, second)
    one.get(b"a")
    for number in range(6):
        other.committed({b"%d" % number: b"v" * 9}, 10)

    one.get(b"a")

    assert first.reads == [b"a", b"a"]


def test_commit_that_does_not_fit_leaves_nothing_wrong_behind() -> None:
    engine = Engine(k=b"old")
    cache = cache_of(ReadCacheBudget(20), engine)
    cache.get(b"k")
    engine.data[b"k"] = b"new" * 10

    cache.committed({b"k": b"new" * 10}, 31)

    assert cache.get(b"k") == b"new" * 10


def test_no_bytes_are_no_cache() -> None:
    assert ReadCacheBudget(0).cache(Engine().get) is None


def test_what_is_restored_is_read_and_not_what_was_cached(tmp_path: Path) -> None:
    home = Home(tmp_path, read_cache_bytes=1000)
    store = home.open(spec_of())
    store.put("k", 1)
    store.commit({CHANGELOG: 0})
    assert store.get("k") == 1

    store.restore([Message(b"k", (2).to_bytes(8, "big"), message_offset=1)])

    assert store.get("k") == 2
    store.close()


def test_rebuilt_store_reads_nothing_of_its_former_life(tmp_path: Path) -> None:
    home = Home(tmp_path, read_cache_bytes=1000)
    store = home.open(spec_of())
    store.put("k", 1)
    store.commit({CHANGELOG: 0})

    store.destroy()
    store.init(home.context())

    assert store.get("k") is None
    store.close()
