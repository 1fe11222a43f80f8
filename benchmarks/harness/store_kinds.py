"""Our stores of each kind, as benchmarks/stores.py uses them.

What a kind can't do is left out: a store that retains duplicates has no one value of a key and
time, and an LRU map, as Kafka Streams has it, no ranges. It holds half of the keys, so that keys
come and go; and it is transactional, whatever is asked for.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.harness.store_jobs import SPAN_MS, Get, Put, Range, Subject, name_of
from pystreams import serdes
from pystreams.ids import TaskId, TopicPartition
from pystreams.stores.accounting.read_cache import ReadCacheBudget
from pystreams.stores.contracts.key_value import ValueAndTimestamp
from pystreams.stores.contracts.state_store import StateStoreContext, StoreEnvironment
from pystreams.stores.contracts.window import Window, Windowed
from pystreams.stores.factories import Stores
from pystreams.stores.spec_builder import StoreSpecBuilder

RETENTION_MS = 3_600_000
READ_CACHE_BYTES = 10 << 20
CHANGELOG = TopicPartition("stores-s-changelog", 0)
_SECOND_MS = 1000
_TYPES = (serdes.STRING, serdes.BYTES)
_unpack = struct.Struct(">q").unpack_from

Operations = tuple[Put, Get | None, Range | None]


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of store.

    Attributes:
        builder: Builds a store that will see so many keys.
        operations: What it can do.
        persistent: Whether it is on disk.
        writes_through: Whether it can be without transactions.
        in_kafka_streams: Whether there is a store of the kind.
    """

    builder: Callable[[int], StoreSpecBuilder]
    operations: Callable[[Any], Operations]
    persistent: bool = True
    writes_through: bool = True
    in_kafka_streams: bool = True


def opened(kind: str, directory: Path, keys: int, *, transactional: bool) -> Any:
    """Return our store of a kind, opened as the runtime would, without a changelog to write to."""
    builder = KINDS[kind].builder(keys).with_logging_disabled()
    store: Any = (builder if transactional else builder.with_transactional_disabled()).build()
    store.init(
        StateStoreContext(
            environment=StoreEnvironment(
                application_id="stores", read_cache_budget=ReadCacheBudget(READ_CACHE_BYTES)
            ),
            task_id=TaskId(0, CHANGELOG.partition),
            task_directory=directory,
            changelog=None,
            changelog_topic=CHANGELOG.topic,
        )
    )
    return store


def ours(kind: str, directory: Path, keys: int, *, transactional: bool) -> Subject:
    """Open our store of a kind and return it as the jobs see it."""
    store = opened(kind, directory, keys, transactional=transactional)
    put, get, scan = KINDS[kind].operations(store)
    return Subject(
        put, get, scan, lambda: store.commit({}), store.close, persistent=KINDS[kind].persistent
    )


def _key_value(store: Any) -> Operations:
    def scan(key: int, keys: int) -> int:
        entries = store.range(name_of(key), name_of(min(key + 99, keys - 1)))
        return sum(_unpack(value)[0] for _, value in entries)

    return (
        lambda key, value, at: store.put(key, value),  # noqa: ARG005 - no time in a plain store
        lambda key, at: store.get(key),  # noqa: ARG005
        scan,
    )


def _lru_map(store: Any) -> Operations:
    put, get, _ = _key_value(store)
    return put, get, None


def _timestamped(store: Any) -> Operations:
    def put(key: str, value: bytes, at: int) -> None:
        store.put(key, ValueAndTimestamp(value, at))

    def get(key: str, at: int) -> bytes | None:
        found = store.get(key)
        return None if found is None else found.value

    def scan(key: int, keys: int) -> int:
        entries = store.range(name_of(key), name_of(min(key + 99, keys - 1)))
        return sum(_unpack(found.value)[0] for _, found in entries)

    return put, get, scan


def _window(store: Any) -> Operations:
    return (
        lambda key, value, at: store.put(key, value, at // _SECOND_MS * _SECOND_MS),
        lambda key, at: store.fetch(key, at // _SECOND_MS * _SECOND_MS),
        lambda key, _: sum(_unpack(v)[0] for _, v in store.fetch(name_of(key), 0, SPAN_MS)),
    )


def _timestamped_window(store: Any) -> Operations:
    def put(key: str, value: bytes, at: int) -> None:
        store.put(key, ValueAndTimestamp(value, at), at // _SECOND_MS * _SECOND_MS)

    def get(key: str, at: int) -> bytes | None:
        found = store.fetch(key, at // _SECOND_MS * _SECOND_MS)
        return None if found is None else found.value

    def scan(key: int, _: int) -> int:
        return sum(_unpack(found.value)[0] for _, found in store.fetch(name_of(key), 0, SPAN_MS))

    return put, get, scan


def _duplicates(store: Any) -> Operations:
    put, _, scan = _window(store)
    return put, None, scan


def _session(store: Any) -> Operations:
    def put(key: str, value: bytes, at: int) -> None:
        start = at // _SECOND_MS * _SECOND_MS
        store.put(Windowed(key, Window(start, start + _SECOND_MS // 2)), value)

    def get(key: str, at: int) -> bytes | None:
        start = at // _SECOND_MS * _SECOND_MS
        found: bytes | None = store.fetch_session(key, start, start + _SECOND_MS // 2)
        return found

    def scan(key: int, _: int) -> int:
        return sum(_unpack(v)[0] for _, v in store.find_sessions(name_of(key), 0, SPAN_MS))

    return put, get, scan


def _versioned(store: Any) -> Operations:
    def get(key: str, at: int) -> bytes | None:
        found = store.get(key)
        return None if found is None else found.value

    def scan(key: int, _: int) -> int:
        found = [store.get(name_of(key), SPAN_MS * part // 10) for part in range(10)]
        return sum(_unpack(version.value)[0] for version in found if version is not None)

    return store.put, get, scan


KINDS: dict[str, Kind] = {
    "key-value": Kind(
        lambda _: Stores.key_value_store_builder(Stores.persistent_key_value_store("s"), *_TYPES),
        _key_value,
    ),
    "timestamped": Kind(
        lambda _: Stores.timestamped_key_value_store_builder(
            Stores.persistent_timestamped_key_value_store("s"), *_TYPES
        ),
        _timestamped,
    ),
    "expiring": Kind(
        lambda _: Stores.timestamped_key_value_store_builder(
            Stores.persistent_timestamped_key_value_store("s"), *_TYPES, ttl_ms=SPAN_MS // 2
        ),
        _timestamped,
        in_kafka_streams=False,
    ),
    "window": Kind(
        lambda _: Stores.window_store_builder(
            Stores.persistent_window_store("s", RETENTION_MS, _SECOND_MS), *_TYPES
        ),
        _window,
    ),
    "timestamped window": Kind(
        lambda _: Stores.timestamped_window_store_builder(
            Stores.persistent_timestamped_window_store("s", RETENTION_MS, _SECOND_MS), *_TYPES
        ),
        _timestamped_window,
    ),
    "window with duplicates": Kind(
        lambda _: Stores.window_store_builder(
            Stores.persistent_window_store("s", RETENTION_MS, _SECOND_MS, retain_duplicates=True),
            *_TYPES,
        ),
        _duplicates,
    ),
    "session": Kind(
        lambda _: Stores.session_store_builder(
            Stores.persistent_session_store("s", RETENTION_MS), *_TYPES
        ),
        _session,
    ),
    "versioned": Kind(
        lambda _: Stores.versioned_key_value_store_builder(
            Stores.persistent_versioned_key_value_store("s", RETENTION_MS), *_TYPES
        ),
        _versioned,
    ),
    "key-value in memory": Kind(
        lambda _: Stores.key_value_store_builder(Stores.in_memory_key_value_store("s"), *_TYPES),
        _key_value,
        persistent=False,
    ),
    "LRU map": Kind(
        lambda keys: Stores.key_value_store_builder(Stores.lru_map("s", keys // 2), *_TYPES),
        _lru_map,
        persistent=False,
        writes_through=False,
    ),
}
