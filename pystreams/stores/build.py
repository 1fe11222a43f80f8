"""From spec to store: the only place where layers are put together.

TypedKeyValueStore | TypedTimestampedKeyValueStore | AdaptedTimestampedKeyValueStore |
TypedVersionedKeyValueStore
  serdes, timestamps                             (timestamped, by spec.timestamped, adapted
            |                                     when not spec.engine_timestamped)
BufferedKeyValueStore | WriteThroughKeyValueStore, or of those with versions
  dirty map: record cache (spec.caching), changelog (spec.logging), transaction
                                                   (none unless spec.transactional)
            |
RocksDBEngine | MemoryEngine | spec.engine_factory(name)
  committed bytes and offsets
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pystreams.stores.buffered import BufferedKeyValueStore
from pystreams.stores.engines.memory import MemoryEngine
from pystreams.stores.engines.rocksdb import RocksDBEngine
from pystreams.stores.key_value import TypedKeyValueStore
from pystreams.stores.restoring import plain_changes, timestamped_changes
from pystreams.stores.spec import StoreEngine, StoreKind, StoreSpec
from pystreams.stores.timestamped import (
    TIMESTAMP_BYTES,
    AdaptedTimestampedKeyValueStore,
    TypedTimestampedKeyValueStore,
)
from pystreams.stores.versioned import TypedVersionedKeyValueStore
from pystreams.stores.versioned_buffered import BufferedVersionedStore, WriteThroughVersionedStore
from pystreams.stores.write_through import WriteThroughKeyValueStore

if TYPE_CHECKING:
    from pystreams.stores.api import KeyValueEngine

KeyValueStateStore = TypedKeyValueStore[Any, Any] | TypedTimestampedKeyValueStore[Any, Any]
OwnStateStore = KeyValueStateStore | TypedVersionedKeyValueStore[Any, Any]


def build_store(spec: StoreSpec) -> OwnStateStore:
    """Return a new store of any kind, not yet open; the caller owns it."""
    if spec.kind is StoreKind.VERSIONED:
        return build_versioned_store(spec)
    return build_key_value_store(spec)


def build_versioned_store(spec: StoreSpec) -> TypedVersionedKeyValueStore[Any, Any]:
    """Return a new versioned store, not yet open; it has no record cache, whatever the spec."""
    assert spec.retention is not None, f"store {spec.name}: a versioned store has a retention"
    versioned = BufferedVersionedStore if spec.transactional else WriteThroughVersionedStore
    buffer = versioned(spec.name, _engine(spec), spec.retention)
    return TypedVersionedKeyValueStore(buffer, spec.key_serde, spec.value_serde)


def build_key_value_store(spec: StoreSpec) -> KeyValueStateStore:
    """Return a new key-value store, not yet open."""
    buffer_class = BufferedKeyValueStore if spec.transactional else WriteThroughKeyValueStore
    buffer = buffer_class(
        spec.name,
        _engine(spec),
        value_prefix_bytes=TIMESTAMP_BYTES if spec.engine_timestamped else 0,
        caching=spec.caching,
        restored=timestamped_changes if spec.engine_timestamped else plain_changes,
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
    return RocksDBEngine(spec.name, timestamped=spec.engine_timestamped)
