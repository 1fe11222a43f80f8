"""The dirty map that a spec asks for: transactional, or written through."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pystreams.stores.dirty_map.buffered import BufferedKeyValueStore
from pystreams.stores.dirty_map.restoring import RestoredChanges, plain_changes
from pystreams.stores.dirty_map.write_through import WriteThroughKeyValueStore

if TYPE_CHECKING:
    from pystreams.stores.contracts.key_value import KeyValueEngine
    from pystreams.stores.contracts.spec import StoreSpec


def dirty_map(
    spec: StoreSpec,
    engine: KeyValueEngine,
    *,
    value_prefix_bytes: int = 0,
    key_prefix_bytes: int = 0,
    caching: bool = False,
    restored: RestoredChanges = plain_changes,
) -> BufferedKeyValueStore:
    """Return the bytes-level store under a typed one; see `BufferedKeyValueStore`."""
    made = BufferedKeyValueStore if spec.transactional else WriteThroughKeyValueStore
    return made(
        spec.name,
        engine,
        value_prefix_bytes=value_prefix_bytes,
        key_prefix_bytes=key_prefix_bytes,
        caching=caching,
        restored=restored,
        logs_headers=spec.logs_headers,
    )
