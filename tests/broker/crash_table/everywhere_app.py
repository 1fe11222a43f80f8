"""The application that dies at a step: counts into every kind of store, and kills itself.

Environment: EVERYWHERE_NAME begins the names of its topics; EVERYWHERE_KILL, if set, says where to
die, such as `before:store batch:3`: before the third store batch of this process;
EVERYWHERE_WRITES_THROUGH, if set, makes the stores not transactional; EVERYWHERE_PLAIN, if set,
makes the timestamped key-value store a plain one, as an older version of the application had it;
EVERYWHERE_IN_MEMORY, if set, puts the stores into memory, and is a directory that learns what they
hold when they have been restored, and when they are closed.
"""

from __future__ import annotations

import itertools
import os
import pickle
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pystreams import ProcessorContext, Stores, Topology
from pystreams.runtime.adapters.consuming.confluent_consumer import ConfluentConsumer
from pystreams.runtime.adapters.producing.confluent_producer import ConfluentProducer
from pystreams.runtime.core.task import StreamTask
from pystreams.runtime.state.state_manager import ProcessorStateManager
from pystreams.stores.dirty_map import opening
from pystreams.stores.engines.memory import MemoryEngine
from pystreams.stores.engines.rocksdb import MEMORY, RocksDBEngine, RocksDBSegmentEngine, engine
from pystreams.stores.engines.rocksdb.database import Database
from tests.broker.waiting import wait_until
from tests.every_store import (
    BUILDERS,
    IN_MEMORY,
    TYPES,
    WriteEverywhere,
    WriteInMemory,
    everywhere,
)

Calls = list[tuple[Any, str]]
"""Functions, each by its class or module and its name."""

CLOSE = "store close"
STEPS: dict[str, Calls] = {
    "send": [(ConfluentProducer, "send")],
    "producer flush": [(ConfluentProducer, "flush")],
    "kafka commit": [(ConfluentProducer, "commit_transaction"), (ConfluentConsumer, "commit")],
    "store batch": [
        (RocksDBEngine, "write"),
        (RocksDBSegmentEngine, "write"),
        (MemoryEngine, "write"),
    ],
    "segment creation": [(Database, "create_family")],
    "segment expiry": [(RocksDBSegmentEngine, "_drop_below")],
    CLOSE: [(RocksDBEngine, "close"), (RocksDBSegmentEngine, "close"), (MemoryEngine, "close")],
}
FLUSH = "memtable flush"
"""Begun by RocksDB, in a thread of its own: before it is over, or after."""
FLUSHED_EXPIRY = "expiry of what is flushed"
"""Families are dropped for good, and the batch that let them expire is in memory only."""
MIGRATION_STEPS: dict[str, Calls] = {
    "checkpoint file": [(ProcessorStateManager, "_take_in_task_checkpoint")],
    "position file": [(opening, "_take_in_position")],
    "plain data": [(engine, "move_plain_data")],
}


def topology() -> Topology:
    where = os.environ.get("EVERYWHERE_KILL")
    if where:
        moment, step, number = where.split(":")
        calls = itertools.count(1)
        if step == FLUSH:
            _die_at_flush(moment, int(number), calls)
        elif step == FLUSHED_EXPIRY:
            _die_at_flushed_expiry(int(number), calls)
        else:
            for owner, name in (STEPS | MIGRATION_STEPS)[step]:
                _die_in(owner, name, moment, int(number), calls)
    name = os.environ["EVERYWHERE_NAME"]
    ends = f"{name}-in", f"{name}-out"
    if os.environ.get("EVERYWHERE_PLAIN"):
        return everywhere(*ends, builders=BUILDERS | {"timestamped": PLAIN}, write=WritePlain)
    kept = os.environ.get("EVERYWHERE_IN_MEMORY")
    if kept:
        _keep_before(StreamTask, "start", lambda task: task.state_manager, Path(kept) / RESTORED)
        _keep_before(ProcessorStateManager, "close", lambda manager: manager, Path(kept) / CLOSED)
        return everywhere(*ends, builders=IN_MEMORY, write=WriteInMemory)
    return everywhere(*ends, transactional=not os.environ.get("EVERYWHERE_WRITES_THROUGH"))


# ---------------------------------------------------------------------- where it dies


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _die_in(owner: Any, name: str, moment: str, number: int, calls: itertools.count[int]) -> None:
    original: Callable[..., Any] = getattr(owner, name)

    def dying(*arguments: Any, **keywords: Any) -> Any:
        now = next(calls) == number
        if now and moment == "before":
            _die()
        result = original(*arguments, **keywords)
        if now and moment == "after":
            _die()
        return result

    setattr(owner, name, dying)


def _die_at_flush(moment: str, number: int, flushes: itertools.count[int]) -> None:
    for name in ("apply", "flush_if_memory_is_short"):
        _watch_flushes(name, moment, number, flushes)


def _watch_flushes(name: str, moment: str, number: int, flushes: itertools.count[int]) -> None:
    original: Callable[..., Any] = getattr(Database, name)

    def dying(database: Database, *arguments: Any) -> Any:
        files = _sorted_files(database)
        result = original(database, *arguments)
        begun = database.native is not None and (
            _flushing(database) or _sorted_files(database) != files
        )
        if begun and next(flushes) == number:
            if moment == "after":
                wait_until(lambda: not _flushing(database), "the end of the flush")
            _die()
        return result

    setattr(Database, name, dying)


def _die_at_flushed_expiry(number: int, expiries: itertools.count[int]) -> None:
    original = RocksDBSegmentEngine._drop_below

    def dying(segments: RocksDBSegmentEngine, bound: bytes) -> None:
        before = len(segments._families)
        original(segments, bound)
        if len(segments._families) < before and next(expiries) == number:
            database = segments._database
            wait_until(lambda: not _flushing(database), "the end of the flush")
            _die()

    setattr(RocksDBSegmentEngine, "_drop_below", dying)  # noqa: B010 - mypy knows methods


def _flushing(database: Database) -> int:
    return database.opened().property_int_value("rocksdb.num-running-flushes") or 0


def _sorted_files(database: Database) -> set[str]:
    return {file.name for file in database.directory.glob("*.sst")}


# ---------------------------------------------------------------------- what is in memory

RESTORED = "restored"
CLOSED = "closed"


def _keep_before(
    owner: Any, name: str, manager_of: Callable[[Any], ProcessorStateManager], file: Path
) -> None:
    """Let stores be written into a file, entries and metadata, before a function is called."""
    original: Callable[..., Any] = getattr(owner, name)

    def keeping(self: Any, *arguments: Any) -> Any:
        stores: dict[str, Any] = manager_of(self).stores()
        held = {
            name: (dict(store._buffer.engine_range(None, None)), store._buffer._engine.metadata())
            for name, store in stores.items()
            if store.is_open
        }
        file.write_bytes(pickle.dumps(held))
        return original(self, *arguments)

    setattr(owner, name, keeping)


# ---------------------------------------------------------------------- its options and its past


def small_memtables(_store: str, options: Any) -> None:
    """Let RocksDB flush every few hundred records, so that a kill finds stores half on disk."""
    options.set_write_buffer_size(64 << 10)


def hardly_any_memtables(store: str, options: Any) -> None:
    """Let RocksDB flush with each batch what came before it, whatever the store."""
    small_memtables(store, options)
    MEMORY.configure(MEMORY.block_cache_bytes, 16 << 10)


PLAIN = Stores.key_value_store_builder(Stores.persistent_key_value_store("timestamped"), *TYPES)


class WritePlain(WriteEverywhere):
    """Writes into the plain store that the timestamped one was."""

    def init(self, context: ProcessorContext[str, int]) -> None:
        super().init(context)
        self.stores["timestamped"] = _WithoutTimestamps(self.stores["timestamped"])


class _WithoutTimestamps:
    def __init__(self, store: Any) -> None:
        self._store = store

    def put_with_timestamp(self, key: str, value: int, _timestamp: int) -> None:
        self._store.put(key, value)
