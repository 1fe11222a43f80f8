"""What versioned stores can do."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from pystreams.record import MAX_TIME
from pystreams.stores.contracts.queries import MultiVersionedKeyQuery, VersionedKeyQuery
from pystreams.stores.contracts.spec import HeldEntry, Retention, StoreKind, StoreSpec
from pystreams.stores.kinds.versioned.buffered import (
    BufferedVersionedStore,
    WriteThroughVersionedStore,
)
from pystreams.stores.kinds.versioned.local import LocalVersionedKeyValueStore
from pystreams.stores.kinds.versioned.store import TypedVersionedKeyValueStore

if TYPE_CHECKING:
    from pystreams.stores.contracts.key_value import KeyValueEngine

ADDITIONAL_LAG_MS = 86_400_000
"""Added to the history retention in the changelog's compaction lag: brokers compact by the wall
clock, history goes by stream time. Spec: KIP-889."""


def _get(view: Any, query: VersionedKeyQuery) -> Any:
    return view.get(query.key, query.as_of)


def _get_range(view: Any, query: MultiVersionedKeyQuery) -> Any:
    return view.get_range(query.key, query.from_time, query.to_time, descending=query.descending)


class VersionedKind(StoreKind):
    """The history of each key."""

    name = "versioned"
    factory = "persistent_versioned_key_value_store"
    contract = "VersionedStoreContract"
    caches = False
    holds_tables = True
    keeps_timestamps = True
    keeps_versions = True
    answers: ClassVar = {VersionedKeyQuery: _get, MultiVersionedKeyQuery: _get_range}
    how_to_ask = "ask it with VersionedKeyQuery or MultiVersionedKeyQuery"
    local_store = LocalVersionedKeyValueStore

    def build(
        self, spec: StoreSpec, engine: KeyValueEngine
    ) -> TypedVersionedKeyValueStore[Any, Any]:
        """Return a new store; it has no record cache, whatever the spec."""
        assert spec.retention is not None, f"store {spec.name}: a versioned store has a retention"
        versioned = BufferedVersionedStore if spec.transactional else WriteThroughVersionedStore
        buffer = versioned(spec.name, engine, spec.retention)
        return TypedVersionedKeyValueStore(buffer, spec.key_serde, spec.value_serde)

    def form(self, spec: StoreSpec) -> str:
        """Return what stores are for the test driver."""
        return "versioned_key_value_store"

    def held(self, store: Any) -> Iterator[HeldEntry]:
        """Return all versions with the time in which each is valid, key by key."""
        for key, value, timestamp, valid_to in store.stored_versions():
            yield key, value, timestamp, {"timestamp": timestamp, "valid_to": valid_to}

    def changelog_defaults(
        self, retention: Retention | None, additional_retention_ms: int
    ) -> Mapping[str, str]:
        """Return settings that leave the history uncompacted.

        Spec: Kafka VersionedChangelogTopicConfig.
        """
        defaults = super().changelog_defaults(retention, additional_retention_ms)
        if retention is None:
            return defaults
        lag_ms = min(retention.retention_ms + ADDITIONAL_LAG_MS, MAX_TIME)
        return {**defaults, "min.compaction.lag.ms": str(lag_ms)}


VERSIONED = VersionedKind()
