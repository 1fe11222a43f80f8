"""Stores that write through: what they hold at a rollback, a clean end, and one that is not."""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from pystreams import (
    IsolationLevel,
    Materialized,
    StateStoreCorruptedError,
    StoreEngine,
    Stores,
    StreamsBuilder,
    ValueAndTimestamp,
    VersionedRecord,
    serdes,
)
from pystreams.runtime.state.state_manager import ProcessorStateManager
from pystreams.stores.engines.rocksdb import RocksDBEngine
from pystreams.stores.engines.stored_offsets import stored_state
from pystreams.stores.files.metadata import CLOSED, OPEN, STATUS, pack_long
from pystreams.stores.spec_builder import StoreSpecBuilder
from pystreams.testing import TopologyTestDriver
from tests.contract.every_kind import (
    FAR_MS,
    INTERVAL_MS,
    KINDS,
    RETENTION_MS,
    SLOTS,
    STEP_MS,
    Slots,
)
from tests.stores.managed import (
    changelog,
    commit,
    in_another_process,
    look_at_changelogs,
    opened,
    send,
)
from tests.stores.support import CHANGELOG, Home, spec_of

ENGINES = list(StoreEngine)
MANY = 1000
FIRST_ROUND = 50
LARGE = b"v" * 1000
LARGE_ENTRIES = 20_000


def builder(name: str = "direct", engine: StoreEngine = StoreEngine.ROCKSDB) -> StoreSpecBuilder:
    supplier = (
        Stores.persistent_key_value_store(name)
        if engine is StoreEngine.ROCKSDB
        else Stores.in_memory_key_value_store(name)
    )
    return Stores.key_value_store_builder(supplier, serdes.STRING, serdes.BYTES)


def direct(name: str = "direct", engine: StoreEngine = StoreEngine.ROCKSDB) -> StoreSpecBuilder:
    return builder(name, engine).with_transactional_disabled()


def status_of(directory: Path, store: str = "direct") -> bytes | None:
    engine = RocksDBEngine(store, timestamped=False)
    engine.open(directory / "rocksdb" / store)
    try:
        return engine.metadata().get(STATUS)
    finally:
        engine.close()


def rebuilt(logs: list[Any]) -> list[str]:
    return [line["store"] for line in logs if "rebuilt from its changelog" in line["event"]]


# How it is asked for


def test_builders_turn_it_on_and_off() -> None:
    assert builder().spec.transactional
    assert builder().build().transactional
    assert not direct().build().transactional
    assert direct().with_transactional_enabled().build().transactional


def test_a_table_may_write_through() -> None:
    streams = StreamsBuilder()
    source = streams.stream("in", key_serde=serdes.STRING, value_serde=serdes.STRING)
    counts = source.group_by_key().count(materialized=Materialized("n", transactional=False))
    counts.to_stream().to("out", value_serde=serdes.LONG)
    topology = streams.build()
    [store] = topology.stores.values()
    assert isinstance(store, StoreSpecBuilder)
    assert not store.spec.transactional

    with TopologyTestDriver(topology) as driver:
        words = driver.create_input_topic("in", serdes.STRING, serdes.STRING)
        out = driver.create_output_topic("out", serdes.STRING, serdes.LONG)
        for word in "aab":
            words.pipe_input(word, word)
        assert out.read_key_values() == [("a", 1), ("a", 2), ("b", 1)]


# What it holds and shows


@pytest.fixture(params=[False, True], ids=["logged", "cached"])
def cached(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


@pytest.fixture(params=ENGINES, ids=[engine.value for engine in ENGINES])
def engine(request: pytest.FixtureRequest) -> StoreEngine:
    kind: StoreEngine = request.param
    return kind


@pytest.fixture
def home(tmp_path: Path, *, cached: bool) -> Home:
    return Home(tmp_path, cache_enabled=cached)


@pytest.fixture
def store(home: Home, engine: StoreEngine, *, cached: bool) -> Iterator[Any]:
    made = home.open(spec_of(engine, caching=cached, transactional=False))
    yield made
    made.close()


def test_it_holds_no_uncommitted_bytes(store: Any) -> None:
    for number in range(MANY):
        store.put(f"{number}", number)
    assert store.approximate_num_uncommitted_bytes() == 0
    assert store.max_uncommitted_bytes() == 0


def test_writes_reach_the_engine_before_the_commit(store: Any) -> None:
    for number in range(MANY):
        store.put(f"{number:04}", number)
    store.flush_cache()

    assert store._buffer.engine_get(b"0500") is not None
    assert len(store._buffer.dirty) < 100


@pytest.mark.parametrize("isolation_level", list(IsolationLevel))
def test_queries_see_what_is_written_at_either_isolation_level(
    store: Any, isolation_level: IsolationLevel
) -> None:
    view = store.read_only(isolation_level)
    for number in range(150):
        store.put(f"{number:04}", number)
    store.delete("0007")

    assert view.get("0149") == 149
    assert view.get("0007") is None
    assert len(list(view.all())) == 149


@pytest.mark.parametrize("isolation_level", list(IsolationLevel))
@pytest.mark.parametrize("name", KINDS)
def test_queries_of_every_kind_see_what_is_written_at_either_isolation_level(
    tmp_path: Path, engine: StoreEngine, name: str, isolation_level: IsolationLevel
) -> None:
    kind = replace(KINDS[name], builder=KINDS[name].builder.with_transactional_disabled())
    slots = Slots(tmp_path, kind, engine)
    view = slots.store.read_only(isolation_level)
    slots.put({0: 10})
    slots.commit()
    slots.put({slot: 10 + slot for slot in range(1, SLOTS)})
    slots.put({1: None})

    slots.holds({slot: 10 + slot for slot in range(SLOTS) if slot != 1}, view)
    slots.store.close()


@pytest.mark.parametrize("isolation_level", list(IsolationLevel))
def test_versions_that_stream_time_has_left_are_seen_at_no_isolation_level(
    tmp_path: Path, engine: StoreEngine, isolation_level: IsolationLevel
) -> None:
    versioned = KINDS["versioned"]
    kind = replace(versioned, builder=versioned.builder.with_transactional_disabled())
    slots = Slots(tmp_path, kind, engine)
    view = slots.store.read_only(isolation_level)
    slots.store.put("k", 1, 0)
    slots.store.put("k", 2, INTERVAL_MS + 5)
    slots.commit()
    assert view.get("k", as_of=INTERVAL_MS) == VersionedRecord(1, 0, INTERVAL_MS + 5)

    slots.store.put("other", 3, RETENTION_MS + INTERVAL_MS + 1)

    assert view.get("k", as_of=INTERVAL_MS) is None
    slots.store.close()


def test_the_owner_may_write_while_it_iterates(store: Any) -> None:
    for number in range(300):
        store.put(f"{number:04}", number)
    seen = []
    for key, value in store.all():
        seen.append(key)
        store.put(key, value + 1)
        store.put(f"{9000 + value}", value)
        if len(seen) == 300:
            break

    assert seen == [f"{number:04}" for number in range(300)]
    assert store.get("0299") == 300
    assert store.get("9299") == 299


def test_it_holds_what_a_dict_would_and_logs_each_write(store: Any, home: Home) -> None:
    draw = random.Random(5)
    model: dict[str, int] = {}
    for number in range(2000):
        key = f"{draw.randrange(60)}"
        if draw.random() < 0.3:
            assert store.delete(key) == model.pop(key, None)
        else:
            store.put(key, number)
            model[key] = number
        if draw.random() < 0.05:
            store.flush_cache()
        if draw.random() < 0.01:
            store.flush_cache()
            store.commit({CHANGELOG: number})
        assert store.get(key) == model.get(key)
    store.flush_cache()

    assert dict(store.all()) == model
    last = {logged_key: value for logged_key, value, _ in home.logged()}
    assert {k.decode() for k, value in last.items() if k and value is not None} == set(model)


def test_a_timestamped_store_may_write_through(tmp_path: Path) -> None:
    home = Home(tmp_path)
    spec = spec_of(timestamped=True, transactional=False)
    store: Any = home.open(spec)
    store.put("key", ValueAndTimestamp(1, 77))
    store.commit({CHANGELOG: 0})
    store.close()

    again: Any = home.open(spec)
    assert again.get("key") == ValueAndTimestamp(1, 77)
    again.close()


# Rollback


def two_stores(directory: Path, engine: StoreEngine, *, exactly_once: bool) -> Any:
    """A store that writes through beside one that does not, both with a committed record."""
    manager = opened(
        directory, direct(engine=engine), builder("safe", engine), exactly_once=exactly_once
    )
    for name in ("direct", "safe"):
        manager.store(name).put("kept", b"1")
    commit(manager, direct=0, safe=0)
    for name in ("direct", "safe"):
        manager.store(name).put("dropped", b"2")
    return manager


def test_under_exactly_once_a_rollback_rebuilds_it_alone(
    tmp_path: Path, engine: StoreEngine
) -> None:
    manager = two_stores(tmp_path, engine, exactly_once=True)
    send(manager, {"direct": 1, "safe": 1})

    with capture_logs() as logs:
        manager.rollback()
        look_at_changelogs(manager)

    assert rebuilt(logs) == ["direct"]
    assert manager.restore_positions() == {changelog("direct"): None, changelog("safe"): 1}
    assert list(manager.store("direct").all()) == []
    assert list(manager.store("safe").all()) == [("kept", b"1")]
    manager.close()


def test_under_exactly_once_a_rollback_of_nothing_rebuilds_nothing(
    tmp_path: Path, engine: StoreEngine
) -> None:
    manager = two_stores(tmp_path, engine, exactly_once=True)
    commit(manager, direct=1, safe=1)

    with capture_logs() as logs:
        manager.rollback()

    assert rebuilt(logs) == []
    assert manager.restore_positions() == {changelog("direct"): 2, changelog("safe"): 2}
    assert manager.store("direct").get("dropped") == b"2"
    manager.close()


def test_under_at_least_once_it_goes_on_after_a_rollback(
    tmp_path: Path, engine: StoreEngine
) -> None:
    manager = two_stores(tmp_path, engine, exactly_once=False)

    with capture_logs() as logs:
        manager.rollback()

    assert rebuilt(logs) == []
    assert manager.restore_positions() == {changelog("direct"): 1, changelog("safe"): 1}
    assert manager.store("direct").get("kept") == b"1"
    manager.close()


@pytest.mark.parametrize("name", KINDS)
def test_under_exactly_once_no_kind_is_trusted_that_was_closed_ahead_of_its_commit(
    tmp_path: Path, name: str
) -> None:
    kind = replace(KINDS[name], builder=KINDS[name].builder.with_transactional_disabled())
    slots = Slots(tmp_path, kind, StoreEngine.ROCKSDB)
    slots.put({0: 10})
    slots.commit()
    slots.put({1: 11})
    slots.store.flush_cache()
    slots.store.close()

    with pytest.raises(StateStoreCorruptedError, match="was not closed after its last use"):
        Home(tmp_path, exactly_once=True).open_builder(kind.builder)


@pytest.mark.parametrize("name", KINDS)
def test_what_was_written_through_is_found_after_a_rollback(
    tmp_path: Path, engine: StoreEngine, name: str
) -> None:
    """Its time as well: windows and sessions that are ahead of the stream time are not found."""
    kind = replace(KINDS[name], builder=KINDS[name].builder.with_transactional_disabled())
    slots = Slots(tmp_path, kind, engine)
    written = {slot: 10 + slot for slot in range(SLOTS)}
    slots.put(written)
    slots.store.flush_cache()

    slots.store.rollback()

    slots.holds(written)
    for isolation_level in IsolationLevel:
        slots.holds(written, slots.store.read_only(isolation_level))
    slots.store.close()


@pytest.mark.parametrize("name", ["window", "timestamped window", "session", "versioned"])
def test_nothing_is_late_after_a_rollback_because_of_what_never_reached_the_engine(
    tmp_path: Path, engine: StoreEngine, name: str, *, cached: bool
) -> None:
    kind = replace(KINDS[name], builder=KINDS[name].builder.with_transactional_disabled())
    slots = Slots(tmp_path, kind, engine, caching=cached and name != "versioned")
    slots.put({0: 1})
    slots.commit()
    slots.put({FAR_MS // STEP_MS: 2})

    slots.store.rollback()

    slots.put({1: 3})
    slots.holds({0: 1, 1: 3})
    assert slots.home.dropped.count == 0
    slots.store.close()


# Ends


def write(manager: ProcessorStateManager, first: int, count: int, value: bytes = b"v") -> None:
    store = manager.store("direct")
    for number in range(first, first + count):
        store.put(f"{number:06}", value)


def start(directory: Path, *, exactly_once: bool) -> ProcessorStateManager:
    """A manager whose store has committed a first round of records."""
    manager = opened(directory, direct(), exactly_once=exactly_once)
    write(manager, 0, FIRST_ROUND)
    commit(manager, direct=0)
    return manager


def test_closed_in_order_it_is_trusted(tmp_path: Path) -> None:
    manager = start(tmp_path, exactly_once=True)
    manager.close()
    assert status_of(tmp_path) == pack_long(CLOSED)

    with capture_logs() as logs:
        again = opened(tmp_path, direct(), exactly_once=True)

    assert rebuilt(logs) == []
    assert again.restore_positions() == {changelog("direct"): FIRST_ROUND}
    assert len(list(again.store("direct").all())) == FIRST_ROUND
    again.close()


def test_closed_with_a_batch_that_never_reached_its_files_it_is_trusted(tmp_path: Path) -> None:
    manager = start(tmp_path, exactly_once=True)
    manager.store("direct").put("not written through yet", b"v")
    manager.close()

    again = opened(tmp_path, direct(), exactly_once=True)

    assert again.restore_positions() == {changelog("direct"): FIRST_ROUND}
    assert again.store("direct").get("not written through yet") is None
    again.close()


@pytest.mark.parametrize("exactly_once", [False, True])
def test_closed_with_uncommitted_writes_it_is_rebuilt_under_exactly_once(
    tmp_path: Path, exactly_once: bool
) -> None:
    manager = start(tmp_path, exactly_once=exactly_once)
    write(manager, FIRST_ROUND, MANY)
    manager.close()
    assert status_of(tmp_path) == pack_long(OPEN)

    with capture_logs() as logs:
        again = opened(tmp_path, direct(), exactly_once=exactly_once)

    assert rebuilt(logs) == (["direct"] if exactly_once else [])
    offset = None if exactly_once else FIRST_ROUND
    assert again.restore_positions() == {changelog("direct"): offset}
    assert bool(list(again.store("direct").all())) is not exactly_once
    again.close()


def test_closed_with_uncommitted_writes_its_files_tell_that_it_was_left_open(
    tmp_path: Path,
) -> None:
    manager = start(tmp_path, exactly_once=True)
    write(manager, FIRST_ROUND, MANY)
    manager.close()

    found = stored_state(tmp_path, "direct", changelog("direct"))

    assert found == (FIRST_ROUND - 1, None, True, False, True)


def killed_after_large_writes(directory: str, guarantee: str) -> None:
    """Write so much that RocksDB flushes what is not committed, then die."""
    manager = start(Path(directory), exactly_once=guarantee == "exactly_once")
    write(manager, FIRST_ROUND, LARGE_ENTRIES, LARGE)
    os.kill(os.getpid(), signal.SIGKILL)


def killed_before_any_flush(directory: str) -> None:
    manager = opened(Path(directory), direct(), exactly_once=True)
    write(manager, FIRST_ROUND, MANY)
    os.kill(os.getpid(), signal.SIGKILL)


def test_killed_under_exactly_once_it_is_rebuilt(tmp_path: Path) -> None:
    assert in_another_process(killed_after_large_writes, tmp_path, "exactly_once") is None

    with capture_logs() as logs:
        again = opened(tmp_path, direct(), exactly_once=True)

    assert rebuilt(logs) == ["direct"]
    assert "not closed after its last use" in str(logs)
    assert again.restore_positions() == {changelog("direct"): None}
    assert list(again.store("direct").all()) == []
    again.close()


def test_killed_under_at_least_once_it_goes_on_with_all_that_was_written(tmp_path: Path) -> None:
    assert in_another_process(killed_after_large_writes, tmp_path, "at_least_once") is None

    with capture_logs() as logs:
        again = opened(tmp_path, direct(), exactly_once=False)

    assert rebuilt(logs) == []
    assert again.restore_positions() == {changelog("direct"): FIRST_ROUND}
    assert len(list(again.store("direct").all())) > FIRST_ROUND
    again.close()


def test_killed_before_anything_reached_the_disk_it_is_trusted(tmp_path: Path) -> None:
    start(tmp_path, exactly_once=True).close()
    assert in_another_process(killed_before_any_flush, tmp_path) is None

    with capture_logs() as logs:
        again = opened(tmp_path, direct(), exactly_once=True)

    assert rebuilt(logs) == []
    assert again.restore_positions() == {changelog("direct"): FIRST_ROUND}
    assert len(list(again.store("direct").all())) == FIRST_ROUND
    again.close()


def test_a_transactional_store_over_files_that_were_not_closed_is_rebuilt_once(
    tmp_path: Path,
) -> None:
    """Turning transactions on after an unclean end costs one last rebuild."""
    manager = start(tmp_path, exactly_once=True)
    write(manager, FIRST_ROUND, MANY)
    manager.close()

    with capture_logs() as logs:
        for _ in range(2):
            opened(tmp_path, builder("direct"), exactly_once=True).close()

    assert rebuilt(logs) == ["direct"]


def test_without_a_changelog_it_goes_on_because_there_is_nothing_to_rebuild_it_from(
    tmp_path: Path,
) -> None:
    unlogged = direct().with_logging_disabled()
    manager = opened(tmp_path, unlogged, exactly_once=True)
    write(manager, 0, MANY)
    manager.close()

    again = opened(tmp_path, unlogged, exactly_once=True)

    assert len(list(again.store("direct").all())) == MANY
    again.close()
