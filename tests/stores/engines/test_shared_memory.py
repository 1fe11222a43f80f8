"""All RocksDB stores share one memory, whatever a user's config setter does."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from rocksdict import BlockBasedOptions, Cache

from pystreams import ConfigError, Window, Windowed
from pystreams.stores.build import build_store
from pystreams.stores.contracts.spec import Retention
from pystreams.stores.engines.rocksdb import MEMORY, RocksDBEngine
from pystreams.stores.engines.rocksdb.options import WRITE_BUFFER_BYTES
from pystreams.stores.kinds.session.kind import SESSION
from pystreams.stores.kinds.versioned.kind import VERSIONED
from pystreams.stores.kinds.window.kind import WINDOW
from tests.broker.waiting import wait_until
from tests.stores.support import CHANGELOG, Home, spec_of

MEBIBYTE = 1 << 20
RETENTION = Retention(60_000, 30_000, window_size_ms=1000)
KINDS: dict[str, dict[str, Any]] = {
    "plain": {},
    "timestamped": {"timestamped": True},
    "window": {"kind": WINDOW, "retention": RETENTION},
    "session": {"kind": SESSION, "retention": RETENTION},
    "versioned": {"kind": VERSIONED, "retention": RETENTION},
}
STORES = 12
ENTRIES = 2_000


@pytest.fixture
def _memory_as_before() -> Iterator[None]:
    before = (MEMORY.block_cache_bytes, MEMORY.write_buffer_bytes)
    yield
    MEMORY.configure(*before)


def put_one(store: Any, kind: str) -> None:
    if kind == "plain":
        store.put("k", 1)
    elif kind == "timestamped":
        store.put_with_timestamp("k", 1, 5)
    elif kind == "session":
        store.put(Windowed("k", Window(0, 5)), 1)
    else:
        store.put("k", 1, 5)


def options_on_disk(directory: Path) -> str:
    return max(directory.rglob("OPTIONS-*")).read_text("utf-8")


@pytest.mark.parametrize("kind", KINDS)
def test_a_setter_changes_every_kind_of_store_but_not_its_safety_after_a_crash(
    kind: str, tmp_path: Path
) -> None:
    heard: list[str] = []

    def setter(name: str, options: Any) -> None:
        heard.append(name)
        options.set_write_buffer_size(2 * MEBIBYTE)
        options.set_atomic_flush(False)
        options.create_missing_column_families(False)

    home = Home(tmp_path)
    store = build_store(spec_of(**KINDS[kind]))
    for offset in (7, 8):  # Once new, once as it was left.
        store.init(home.context(rocksdb_config_setter=setter))
        put_one(store, kind)
        store.commit({CHANGELOG: offset})
        store.close()

    written = options_on_disk(tmp_path)
    assert heard == ["s", "s"]
    assert f"write_buffer_size={2 * MEBIBYTE}" in written
    assert "atomic_flush=true" in written
    assert "cache_index_and_filter_blocks=true" in written
    assert "cache_index_and_filter_blocks=false" not in written


@pytest.mark.usefixtures("_memory_as_before")
def test_a_table_format_of_the_users_own_is_taken_over_the_shared_cache(tmp_path: Path) -> None:
    own = Cache(8 * MEBIBYTE)

    def setter(name: str, options: Any) -> None:
        table = BlockBasedOptions()
        table.set_block_size(64 << 10)
        table.set_block_cache(own)
        table.set_cache_index_and_filter_blocks(False)
        options.set_block_based_table_factory(table)

    engine = RocksDBEngine("s", timestamped=False)
    engine.open(tmp_path, setter)
    engine.write({b"%08d" % number: b"v" * 100 for number in range(10_000)}, {})
    engine.close()
    engine.open(tmp_path, setter)
    # There is room, whatever stores of others have left in the cache.
    for cache_bytes in (0, 64 * MEBIBYTE):
        MEMORY.configure(cache_bytes, MEMORY.write_buffer_bytes)
    before = MEMORY.cache.get_usage()
    assert len(list(engine.range(None, None))) == 10_000
    read = MEMORY.cache.get_usage() - before
    engine.close()

    written = options_on_disk(tmp_path)
    assert "block_size=65536" in written
    assert "cache_index_and_filter_blocks=false" not in written
    assert own.get_usage() == 0
    assert read > 500_000


@pytest.mark.parametrize(
    "method", ["set_write_buffer_manager", "set_row_cache", "set_db_write_buffer_size"]
)
def test_memory_of_a_stores_own_is_refused_with_the_key_to_set(method: str, tmp_path: Path) -> None:
    def setter(name: str, options: Any) -> None:
        getattr(options, method)(8 * MEBIBYTE)

    engine = RocksDBEngine("counts", timestamped=False)
    with pytest.raises(ConfigError, match=rf"{method} .*'counts'.*statestore\.rocksdb\."):
        engine.open(tmp_path, setter)


@pytest.mark.usefixtures("_memory_as_before")
def test_many_stores_stay_within_the_configured_total(tmp_path: Path) -> None:
    cache_bytes, write_buffer_bytes = MEBIBYTE, 2 * MEBIBYTE
    MEMORY.configure(block_cache_bytes=cache_bytes, write_buffer_bytes=write_buffer_bytes)
    of_others = MEMORY.used_bytes()
    engines = [RocksDBEngine(f"s{number}", timestamped=False) for number in range(STORES)]
    try:
        for number, engine in enumerate(engines):
            engine.open(tmp_path / str(number))
        for _ in range(ENTRIES // 100):
            for engine in engines:
                batch: dict[bytes, bytes | None] = {
                    os.urandom(8): os.urandom(1000) for _ in range(100)
                }
                engine.write(batch, {b"t-0": bytes(8)})
        for engine in engines:
            assert sum(1 for _ in engine.range(None, None)) == ENTRIES
        # What an empty memtable takes at a time, in each store, comes on top. Flushes under way
        # hold on to their memtables until the disk has taken them: that is waited for.
        limit = cache_bytes + write_buffer_bytes + STORES * WRITE_BUFFER_BYTES // 8
        wait_until(
            lambda: MEMORY.used_bytes() - of_others <= limit, f"at most {limit} bytes in use"
        )
    finally:
        for engine in engines:
            engine.close()

    assert limit < STORES * ENTRIES * 1000 / 2, "the data is a multiple of what may be held"


@pytest.mark.usefixtures("_memory_as_before")
def test_usage_is_told_part_by_part(tmp_path: Path) -> None:
    # Nothing is flushed, whatever stores of others hold.
    room = 5 * MEBIBYTE + MEMORY.usage().write_buffers
    MEMORY.configure(block_cache_bytes=3 * MEBIBYTE, write_buffer_bytes=room)
    engine = RocksDBEngine("s", timestamped=False)
    engine.open(tmp_path)
    empty = MEMORY.usage()
    engine.write({b"%08d" % number: b"v" * 100 for number in range(1_000)}, {})
    written = MEMORY.usage()
    engine.close()

    assert written.block_cache_capacity == 3 * MEBIBYTE
    assert written.write_buffers_capacity == room
    assert written.write_buffers - empty.write_buffers >= 100_000
