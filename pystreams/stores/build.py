"""From spec to store: the only place where layers are put together.

TypedKeyValueStore | TypedTimestampedKeyValueStore | AdaptedTimestampedKeyValueStore |
TypedVersionedKeyValueStore | TypedSessionStore | TypedWindowStore |
TypedTimestampedWindowStore | ListValueStore
  serdes, timestamps                             (timestamped, by spec.timestamped, adapted
            |                                     when not spec.engine_timestamped)
BufferedKeyValueStore | WriteThroughKeyValueStore, or of those with versions | BufferedLruStore
  dirty map: record cache (spec.caching), changelog (spec.logging), transaction
                                                   (none unless spec.transactional)
            |
RocksDBEngine | RocksDBSegmentEngine | MemoryEngine | spec.engine_factory(name)
  committed bytes and offsets
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pystreams.stores.buffered import BufferedKeyValueStore
from pystreams.stores.engines.memory import MemoryEngine
from pystreams.stores.engines.rocksdb import BulkLoadEngine, RocksDBEngine, RocksDBSegmentEngine
from pystreams.stores.engines.rocksdb.bulk_load import RUN_ENTRIES
from pystreams.stores.key_value import TypedKeyValueStore
from pystreams.stores.list_value import ListValueStore
from pystreams.stores.lru import BufferedLruStore
from pystreams.stores.restoring import plain_changes, timestamped_changes
from pystreams.stores.segmented import SegmentedChanges
from pystreams.stores.segments import SEGMENT_ID_BYTES, Segments
from pystreams.stores.session import TypedSessionStore
from pystreams.stores.session_keys import SUFFIX_BYTES as SESSION_SUFFIX_BYTES
from pystreams.stores.spec import StoreEngine, StoreKind, StoreSpec
from pystreams.stores.time_ordered_buffer import TimeOrderedBuffer, restored_records
from pystreams.stores.timestamped import (
    TIMESTAMP_BYTES,
    AdaptedTimestampedKeyValueStore,
    TypedTimestampedKeyValueStore,
)
from pystreams.stores.versioned import TypedVersionedKeyValueStore
from pystreams.stores.versioned_buffered import BufferedVersionedStore, WriteThroughVersionedStore
from pystreams.stores.window import TypedTimestampedWindowStore, TypedWindowStore
from pystreams.stores.window_keys import SUFFIX_BYTES as WINDOW_SUFFIX_BYTES
from pystreams.stores.write_through import WriteThroughKeyValueStore

if TYPE_CHECKING:
    from pystreams.stores.api import KeyValueEngine

KeyValueStateStore = TypedKeyValueStore[Any, Any] | TypedTimestampedKeyValueStore[Any, Any]
WindowStateStore = TypedWindowStore[Any, Any] | TypedTimestampedWindowStore[Any, Any]
OwnStateStore = (
    KeyValueStateStore
    | WindowStateStore
    | TypedVersionedKeyValueStore[Any, Any]
    | TypedSessionStore[Any, Any]
    | TimeOrderedBuffer
    | ListValueStore[Any, Any]
)


def build_store(spec: StoreSpec) -> OwnStateStore:
    """Return a new store of any kind, not yet open; the caller owns it."""
    if spec.kind is StoreKind.VERSIONED:
        return build_versioned_store(spec)
    if spec.kind is StoreKind.SESSION:
        return build_session_store(spec)
    if spec.kind is StoreKind.WINDOW:
        return build_window_store(spec)
    if spec.kind is StoreKind.LIST_VALUE:
        return build_list_value_store(spec)
    if spec.kind is StoreKind.BUFFER:
        return build_time_ordered_buffer(spec)
    return build_key_value_store(spec)


def build_bulk_loaded_store(
    spec: StoreSpec, run_entries: int = RUN_ENTRIES
) -> tuple[OwnStateStore, BulkLoadEngine] | None:
    """Return a new store that is to be filled by `restore` and closed, and its engine.

    What it writes is what the store of `build_store` would have, made as sorted files. Not yet
    open. None when the store does not keep its bytes in a RocksDB of ours. `run_entries`: see
    `BulkLoadEngine`.
    """
    if spec.engine_factory is not None or spec.engine is StoreEngine.IN_MEMORY:
        return None
    engine = BulkLoadEngine(_rocksdb_engine(spec), run_entries=run_entries)
    return build_store(replace(spec, engine_factory=lambda _: engine)), engine


def build_versioned_store(spec: StoreSpec) -> TypedVersionedKeyValueStore[Any, Any]:
    """Return a new versioned store, not yet open; it has no record cache, whatever the spec."""
    assert spec.retention is not None, f"store {spec.name}: a versioned store has a retention"
    versioned = BufferedVersionedStore if spec.transactional else WriteThroughVersionedStore
    buffer = versioned(spec.name, _engine(spec), spec.retention)
    return TypedVersionedKeyValueStore(buffer, spec.key_serde, spec.value_serde)


def build_time_ordered_buffer(spec: StoreSpec) -> TimeOrderedBuffer:
    """Return a new buffer of a temporal join, not yet open."""
    buffer = BufferedKeyValueStore(
        spec.name, _engine(spec), value_prefix_bytes=0, caching=False, restored=restored_records
    )
    return TimeOrderedBuffer(buffer)


def build_list_value_store(spec: StoreSpec) -> ListValueStore[Any, Any]:
    """Return a new store of lists, not yet open; it has no record cache, whatever the spec."""
    buffer_class = BufferedKeyValueStore if spec.transactional else WriteThroughKeyValueStore
    buffer = buffer_class(spec.name, _engine(spec), value_prefix_bytes=0, caching=False)
    return ListValueStore(buffer, spec.key_serde, spec.value_serde)


def build_session_store(spec: StoreSpec) -> TypedSessionStore[Any, Any]:
    """Return a new session store, not yet open."""
    retention = spec.retention
    assert retention is not None, f"store {spec.name}: a session store has a retention"
    segments = Segments(retention.retention_ms, retention.segment_interval_ms)
    buffer_class = BufferedKeyValueStore if spec.transactional else WriteThroughKeyValueStore
    buffer = buffer_class(
        spec.name,
        _engine(spec),
        value_prefix_bytes=0,
        caching=spec.caching,
        key_prefix_bytes=SEGMENT_ID_BYTES,
        restored=SegmentedChanges(segments, plain_changes, SESSION_SUFFIX_BYTES),
    )
    return TypedSessionStore(buffer, segments, spec.key_serde, spec.value_serde)


def build_window_store(spec: StoreSpec) -> WindowStateStore:
    """Return a new window store, not yet open; without a record cache if it retains duplicates.

    Spec: Kafka WindowStoreBuilder.
    """
    retention = spec.retention
    assert retention is not None, f"store {spec.name}: a window store has a retention"
    segments = Segments(retention.retention_ms, retention.segment_interval_ms)
    changes = timestamped_changes if spec.engine_timestamped else plain_changes
    buffer_class = BufferedKeyValueStore if spec.transactional else WriteThroughKeyValueStore
    buffer = buffer_class(
        spec.name,
        _engine(spec),
        value_prefix_bytes=TIMESTAMP_BYTES if spec.engine_timestamped else 0,
        caching=spec.caching and not retention.retain_duplicates,
        key_prefix_bytes=SEGMENT_ID_BYTES,
        restored=SegmentedChanges(segments, changes, WINDOW_SUFFIX_BYTES),
        logs_headers=spec.logs_headers,
    )
    window_store = TypedTimestampedWindowStore if spec.timestamped else TypedWindowStore
    return window_store(buffer, segments, retention, spec.key_serde, spec.value_serde)


def build_key_value_store(spec: StoreSpec) -> KeyValueStateStore:
    """Return a new key-value store, not yet open.

    One of limited size is transactional and without a record cache, whatever the spec.
    """
    value_prefix_bytes = TIMESTAMP_BYTES if spec.engine_timestamped else 0
    restored = timestamped_changes if spec.engine_timestamped else plain_changes
    buffer: BufferedKeyValueStore
    if spec.max_entries is not None:
        buffer = BufferedLruStore(
            spec.name,
            _engine(spec),
            spec.max_entries,
            value_prefix_bytes=value_prefix_bytes,
            restored=restored,
        )
    else:
        buffer_class = BufferedKeyValueStore if spec.transactional else WriteThroughKeyValueStore
        buffer = buffer_class(
            spec.name,
            _engine(spec),
            value_prefix_bytes=value_prefix_bytes,
            caching=spec.caching,
            restored=restored,
        )
    if not spec.timestamped:
        return TypedKeyValueStore(buffer, spec.key_serde, spec.value_serde)
    if spec.engine_timestamped:
        return TypedTimestampedKeyValueStore(buffer, spec.key_serde, spec.value_serde)
    return AdaptedTimestampedKeyValueStore(buffer, spec.key_serde, spec.value_serde)


def _engine(spec: StoreSpec) -> KeyValueEngine:
    if spec.engine_factory is not None:
        return spec.engine_factory(spec.name)
    if spec.engine is StoreEngine.IN_MEMORY:
        return MemoryEngine(spec.name)
    return _rocksdb_engine(spec)


def _rocksdb_engine(spec: StoreSpec) -> RocksDBEngine | RocksDBSegmentEngine:
    if spec.kind in {StoreKind.WINDOW, StoreKind.SESSION} and spec.retention is not None:
        return RocksDBSegmentEngine(
            spec.name, spec.retention.segment_interval_ms, timestamped=spec.engine_timestamped
        )
    return RocksDBEngine(
        spec.name,
        timestamped=spec.engine_timestamped,
        versioned=spec.kind is StoreKind.VERSIONED,
    )
