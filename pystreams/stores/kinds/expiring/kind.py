"""What key-value stores can do whose rows expire."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pystreams.errors import TopologyError
from pystreams.stores.contracts.spec import StoreSpec
from pystreams.stores.dirty_map.of_spec import dirty_map
from pystreams.stores.dirty_map.restoring import TIMESTAMP_BYTES
from pystreams.stores.kinds.expiring.layout import ROW, row_changes
from pystreams.stores.kinds.expiring.rows import ExpiringRows
from pystreams.stores.kinds.expiring.store import (
    ExpiringKeyValueStore,
    ExpiringTimestampedKeyValueStore,
)
from pystreams.stores.kinds.key_value.kind import KEY_VALUE, KeyValueKind
from pystreams.stores.retentions import check_number

if TYPE_CHECKING:
    from pystreams.stores.contracts.key_value import KeyValueEngine


class ExpiringKind(KeyValueKind):
    """The last value of each key, until its time to live is over."""

    name = "expiring key-value"
    keeps_timestamps = True
    expires_rows = True

    def build(
        self, spec: StoreSpec, engine: KeyValueEngine
    ) -> ExpiringKeyValueStore[Any, Any] | ExpiringTimestampedKeyValueStore[Any, Any]:
        """Return a new store."""
        ttl_ms = spec.ttl_ms
        assert ttl_ms is not None, f"store {spec.name}: rows that expire have a time to live"
        buffer = dirty_map(
            spec,
            engine,
            value_prefix_bytes=TIMESTAMP_BYTES,
            key_prefix_bytes=len(ROW),
            caching=spec.caching,
            restored=lambda messages: row_changes(messages, rows.saw),
        )
        rows = ExpiringRows(buffer, ttl_ms, plain=not spec.timestamped)
        kind = ExpiringTimestampedKeyValueStore if spec.timestamped else ExpiringKeyValueStore
        return kind(buffer, rows, ttl_ms, spec.key_serde, spec.value_serde)


EXPIRING = ExpiringKind()


def expiring(spec: StoreSpec, ttl_ms: int | None) -> StoreSpec:
    """Return the spec of a key-value store whose rows live so long; the same for None.

    Raises:
        TopologyError: That is no time; or the store is not one whose rows can expire.
    """
    if ttl_ms is None:
        return spec
    check_number(spec.name, "ttl_ms", ttl_ms, 1)
    if spec.kind != KEY_VALUE or spec.max_entries is not None:
        what = (
            "of limited size" if spec.max_entries is not None else f"of the kind {spec.kind.name}"
        )
        raise TopologyError(
            f"store {spec.name!r} has ttl_ms={ttl_ms}, and is a store {what}: rows of plain and "
            "timestamped key-value stores can expire; leave ttl_ms out"
        )
    return replace(spec, kind=EXPIRING, ttl_ms=ttl_ms, engine_timestamped=True)
