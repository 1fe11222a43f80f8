"""What key-value stores can do, plain and timestamped, of limited size and not."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, ClassVar

from pystreams.stores.contracts.queries import (
    KeyQuery,
    Query,
    RangeQuery,
    TimestampedKeyQuery,
    TimestampedRangeQuery,
)
from pystreams.stores.contracts.spec import Answer, StoreKind, StoreSpec, value_of_key
from pystreams.stores.dirty_map.of_spec import dirty_map
from pystreams.stores.dirty_map.restoring import TIMESTAMP_BYTES, plain_changes, timestamped_changes
from pystreams.stores.kinds.key_value.local import LocalKeyValueStore
from pystreams.stores.kinds.key_value.lru import BufferedLruStore
from pystreams.stores.kinds.key_value.plain import TypedKeyValueStore
from pystreams.stores.kinds.key_value.timestamped import (
    AdaptedTimestampedKeyValueStore,
    TypedTimestampedKeyValueStore,
)

if TYPE_CHECKING:
    from pystreams.stores.contracts.key_value import KeyValueEngine
    from pystreams.stores.dirty_map.buffered import BufferedKeyValueStore

KeyValueStateStore = TypedKeyValueStore[Any, Any] | TypedTimestampedKeyValueStore[Any, Any]


def _get_plain(view: Any, query: KeyQuery) -> Any:
    found = view.get(query.key)
    return None if found is None else found.value


def _range(view: Any, query: RangeQuery | TimestampedRangeQuery) -> Iterator[tuple[Any, Any]]:
    walk = view.reverse_range if query.descending else view.range
    entries: Iterator[tuple[Any, Any]] = walk(query.lower, query.upper)
    return entries


def _range_plain(view: Any, query: RangeQuery) -> Iterator[tuple[Any, Any]]:
    return ((key, found.value) for key, found in _range(view, query))


_TIMESTAMPED_ANSWERS: dict[type[Query[Any]], Answer] = {
    KeyQuery: _get_plain,
    RangeQuery: _range_plain,
    TimestampedKeyQuery: value_of_key,
    TimestampedRangeQuery: _range,
}


class KeyValueKind(StoreKind):
    """The last value of each key."""

    name = "key-value"
    factory = "persistent_key_value_store"
    contract = "KeyValueStoreContract"
    holds_tables = True
    answers: ClassVar = {KeyQuery: value_of_key, RangeQuery: _range}
    how_to_ask = "ask it with KeyQuery or RangeQuery"
    local_store = LocalKeyValueStore

    def build(self, spec: StoreSpec, engine: KeyValueEngine) -> KeyValueStateStore:
        """Return a new store; one of limited size is transactional and has no record cache."""
        value_prefix_bytes = TIMESTAMP_BYTES if spec.engine_timestamped else 0
        restored = timestamped_changes if spec.engine_timestamped else plain_changes
        buffer: BufferedKeyValueStore
        if spec.max_entries is not None:
            buffer = BufferedLruStore(
                spec.name,
                engine,
                spec.max_entries,
                value_prefix_bytes=value_prefix_bytes,
                restored=restored,
            )
        else:
            buffer = dirty_map(
                spec,
                engine,
                value_prefix_bytes=value_prefix_bytes,
                caching=spec.caching,
                restored=restored,
            )
        if not spec.timestamped:
            return TypedKeyValueStore(buffer, spec.key_serde, spec.value_serde)
        if spec.engine_timestamped:
            return TypedTimestampedKeyValueStore(buffer, spec.key_serde, spec.value_serde)
        return AdaptedTimestampedKeyValueStore(buffer, spec.key_serde, spec.value_serde)

    def metrics_scope(self, spec: StoreSpec) -> str:
        """Return the store's type in the tags of its metrics."""
        return super().metrics_scope(spec) if spec.max_entries is None else "in-memory-lru"

    def form(self, spec: StoreSpec) -> str:
        """Return what stores are for the test driver."""
        return "timestamped_key_value_store" if spec.timestamped else "key_value_store"

    def answer(self, query: Query[Any], spec: StoreSpec) -> Answer | None:
        """Return what answers a query; timestamps are asked of timestamped stores only."""
        answers = _TIMESTAMPED_ANSWERS if spec.timestamped else self.answers
        return answers.get(type(query))

    def unknown_query(self, query: Query[Any], spec: StoreSpec) -> str:
        """Return what to say of a query that nothing answers."""
        kind, cure = "key-value store without timestamps", self.how_to_ask
        if spec.timestamped:
            kind = "key-value store"
            cure += ", or with TimestampedKeyQuery or TimestampedRangeQuery"
        return f"state store {spec.name!r} is a {kind} and can't answer {query}: {cure}"


KEY_VALUE = KeyValueKind()
