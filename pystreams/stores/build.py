"""From spec to store: the only place that knows engines. A store's kind puts its layers over one.

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

RocksDB is imported when a store is built over it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pystreams.stores.contracts.spec import StoreEngine, StoreSpec
from pystreams.stores.engines.memory import MemoryEngine

if TYPE_CHECKING:
    from pystreams.stores.contracts.key_value import KeyValueEngine, StateStore
    from pystreams.stores.engines.rocksdb import (
        BulkLoadEngine,
        RocksDBEngine,
        RocksDBSegmentEngine,
    )


def build_store(spec: StoreSpec) -> StateStore:
    """Return a new store of any kind, not yet open; the caller owns it."""
    return spec.kind.build(spec, _engine(spec))


def build_bulk_loaded_store(
    spec: StoreSpec, run_entries: int | None = None
) -> tuple[StateStore, BulkLoadEngine]:
    """Return a new store that is to be filled by `restore` and closed, and its engine.

    What it writes is what the store of `build_store` would have, made as sorted files. Not yet
    open.

    Args:
        spec: What it shall be, over a RocksDB of ours.
        run_entries: See `BulkLoadEngine`; None for its default.
    """
    from pystreams.stores.engines.rocksdb import BulkLoadEngine
    from pystreams.stores.engines.rocksdb.bulk_load import RUN_ENTRIES

    engine = BulkLoadEngine(_rocksdb_engine(spec), run_entries=run_entries or RUN_ENTRIES)
    return spec.kind.build(spec, engine), engine


def _engine(spec: StoreSpec) -> KeyValueEngine:
    if spec.engine_factory is not None:
        return spec.engine_factory(spec.name)
    if spec.engine is StoreEngine.IN_MEMORY:
        return MemoryEngine(spec.name)
    return _rocksdb_engine(spec)


def _rocksdb_engine(spec: StoreSpec) -> RocksDBEngine | RocksDBSegmentEngine:
    from pystreams.stores.engines.rocksdb import RocksDBEngine, RocksDBSegmentEngine

    if spec.kind.segmented and spec.retention is not None:
        return RocksDBSegmentEngine(
            spec.name,
            spec.retention.segment_interval_ms,
            timestamped=spec.engine_timestamped,
            time_ordered=spec.retention.time_ordered,
        )
    return RocksDBEngine(
        spec.name,
        timestamped=spec.engine_timestamped,
        versioned=spec.kind.keeps_versions,
    )
