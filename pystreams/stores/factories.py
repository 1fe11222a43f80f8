"""`Stores`: what users of the Processor API call to describe a store."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pystreams.stores.builder_arguments import check_plain, check_serdes, checked_name, spec_over
from pystreams.stores.contracts.spec import StoreEngine, StoreKind, StoreSpec, StoreSupplier
from pystreams.stores.kinds.expiring.kind import expiring
from pystreams.stores.kinds.key_value.kind import KEY_VALUE
from pystreams.stores.kinds.session.kind import SESSION
from pystreams.stores.kinds.versioned.kind import VERSIONED
from pystreams.stores.kinds.window.kind import WINDOW
from pystreams.stores.retentions import (
    check_number,
    session_retention,
    versioned_retention,
    window_retention,
)
from pystreams.stores.spec_builder import StoreSpecBuilder

if TYPE_CHECKING:
    from collections.abc import Callable

    from pystreams.serdes import Serde
    from pystreams.stores.contracts.key_value import KeyValueEngine


class Stores:
    """Suppliers (where the bytes live) and builders (what the store gives)."""

    @staticmethod
    def persistent_key_value_store(name: str) -> StoreSupplier:
        """Return a supplier of a RocksDB store without timestamps."""
        return StoreSupplier(checked_name(name), KEY_VALUE)

    @staticmethod
    def persistent_timestamped_key_value_store(name: str) -> StoreSupplier:
        """Return a supplier of a RocksDB store that keeps a timestamp with each value."""
        return StoreSupplier(checked_name(name), KEY_VALUE, timestamped=True)

    @staticmethod
    def in_memory_key_value_store(name: str) -> StoreSupplier:
        """Return a supplier of a store in memory; restored from its changelog at each start."""
        return StoreSupplier(checked_name(name), KEY_VALUE, engine=StoreEngine.IN_MEMORY)

    @staticmethod
    def persistent_versioned_key_value_store(
        name: str, history_retention_ms: int, segment_interval_ms: int | None = None
    ) -> StoreSupplier:
        """Return a supplier of a RocksDB store that keeps the history of each key.

        Args:
            history_retention_ms: How far back, in stream time, old versions can be read and late
                ones are taken; 0 or more.
            segment_interval_ms: What one segment covers; old versions go away a segment at a
                time. None chooses by the retention, as Kafka does. A store on disk that was
                written with another one is refused.

        Raises:
            TopologyError: A time is not valid.
        """
        return _versioned(name, StoreEngine.ROCKSDB, history_retention_ms, segment_interval_ms)

    @staticmethod
    def in_memory_versioned_key_value_store(
        name: str, history_retention_ms: int, segment_interval_ms: int | None = None
    ) -> StoreSupplier:
        """Return a supplier of the same store in memory; restored from its changelog at each start.

        Differs from Kafka, which has versioned stores on disk only.
        """
        return _versioned(name, StoreEngine.IN_MEMORY, history_retention_ms, segment_interval_ms)

    @staticmethod
    def persistent_window_store(
        name: str,
        retention_ms: int,
        window_size_ms: int,
        *,
        retain_duplicates: bool = False,
        segment_interval_ms: int | None = None,
    ) -> StoreSupplier:
        """Return a supplier of a RocksDB store of windows, without timestamps.

        Args:
            retention_ms: How long windows are kept, in stream time, counted from their start; not
                less than `window_size_ms`.
            window_size_ms: How long a window is; 0 or more.
            retain_duplicates: Whether each put adds a value, where it else replaces the one of its
                key and window.
            segment_interval_ms: What one segment covers; old windows go away a segment at a
                time. None is half the retention, 60 s at least, as in Kafka. A store on disk that
                was written with another one is refused.

        Raises:
            TopologyError: A time is not valid.
        """
        retention = window_retention(
            name,
            retention_ms,
            window_size_ms,
            retain_duplicates=retain_duplicates,
            segment_interval_ms=segment_interval_ms,
        )
        return StoreSupplier(checked_name(name), WINDOW, retention=retention)

    @staticmethod
    def persistent_timestamped_window_store(
        name: str,
        retention_ms: int,
        window_size_ms: int,
        *,
        retain_duplicates: bool = False,
        segment_interval_ms: int | None = None,
    ) -> StoreSupplier:
        """Return a supplier like `persistent_window_store` that keeps timestamps with the values.

        Raises:
            TopologyError: A time is not valid.
        """
        plain = Stores.persistent_window_store(
            name,
            retention_ms,
            window_size_ms,
            retain_duplicates=retain_duplicates,
            segment_interval_ms=segment_interval_ms,
        )
        return replace(plain, timestamped=True)

    @staticmethod
    def in_memory_window_store(
        name: str,
        retention_ms: int,
        window_size_ms: int,
        *,
        retain_duplicates: bool = False,
        segment_interval_ms: int | None = None,
    ) -> StoreSupplier:
        """Return a supplier of windows in memory; restored from its changelog at each start.

        Differs from Kafka, where it drops a window at the moment its retention is over: here as
        on disk, with the segment it is in. Reads find the same.

        Raises:
            TopologyError: A time is not valid.
        """
        plain = Stores.persistent_window_store(
            name,
            retention_ms,
            window_size_ms,
            retain_duplicates=retain_duplicates,
            segment_interval_ms=segment_interval_ms,
        )
        return replace(plain, engine=StoreEngine.IN_MEMORY)

    @staticmethod
    def persistent_session_store(
        name: str, retention_ms: int, *, segment_interval_ms: int | None = None
    ) -> StoreSupplier:
        """Return a supplier of a RocksDB store of sessions.

        Args:
            retention_ms: How long sessions are kept, in stream time, counted from their end; 0 or
                more, and at least the inactivity gap and the grace of the sessions it is used for.
            segment_interval_ms: What one segment covers; old sessions go away a segment at a
                time. None is half the retention, 60 s at least, as in Kafka. A store on disk that
                was written with another one is refused.

        Raises:
            TopologyError: A time is not valid.
        """
        retention = session_retention(name, retention_ms, segment_interval_ms)
        return StoreSupplier(checked_name(name), SESSION, retention=retention)

    @staticmethod
    def in_memory_session_store(
        name: str, retention_ms: int, *, segment_interval_ms: int | None = None
    ) -> StoreSupplier:
        """Return a supplier of sessions in memory; restored from its changelog at each start.

        Differs from Kafka as `in_memory_window_store` does.

        Raises:
            TopologyError: A time is not valid.
        """
        supplier = Stores.persistent_session_store(
            name, retention_ms, segment_interval_ms=segment_interval_ms
        )
        return replace(supplier, engine=StoreEngine.IN_MEMORY)

    @staticmethod
    def lru_map(name: str, max_entries: int) -> StoreSupplier:
        """Return a supplier of a store in memory that keeps the keys that were used last.

        A put of a new key into a full store deletes the key whose last use, put or read by the
        owner, is longest ago; its changelog too. The store has no record cache.

        Args:
            max_entries: How many keys it keeps, in each task. Differs from Kafka: 1 or more, where
                Kafka takes 0, keeps nothing and logs everything.

        Raises:
            TopologyError: `max_entries` is no whole number, or below 1.
        """
        check_number(name, "max_entries", max_entries, 1)
        return StoreSupplier(
            checked_name(name), KEY_VALUE, engine=StoreEngine.IN_MEMORY, max_entries=max_entries
        )

    @staticmethod
    def custom_key_value_store(
        name: str, engine_factory: Callable[[str], KeyValueEngine], *, timestamped: bool = False
    ) -> StoreSupplier:
        """Return a supplier of an engine of your own.

        Args:
            engine_factory: Makes a new engine, once a task, from the store's name.
            timestamped: Whether the engine may hold eight bytes of timestamp before each value.
        """
        return StoreSupplier(
            checked_name(name), KEY_VALUE, timestamped=timestamped, engine_factory=engine_factory
        )

    @staticmethod
    def store_builder(
        kind: StoreKind,
        name: str,
        key_serde: Serde[Any] | None = None,
        value_serde: Serde[Any] | None = None,
        *,
        engine: StoreEngine = StoreEngine.ROCKSDB,
    ) -> StoreSpecBuilder:
        """Return a builder of a store of your own kind, over one of our engines.

        Args:
            kind: Builds the store, and says what it can do.
            key_serde: None takes the configured default.
            value_serde: The same.
            engine: Where the bytes live.
        """
        check_serdes(f"store {name!r}", key_serde, value_serde)
        return StoreSpecBuilder(
            StoreSpec(
                checked_name(name),
                kind,
                engine=engine,
                key_serde=key_serde,
                value_serde=value_serde,
            )
        )

    @staticmethod
    def key_value_store_builder(
        supplier: StoreSupplier,
        key_serde: Serde[Any] | None = None,
        value_serde: Serde[Any] | None = None,
        *,
        ttl_ms: int | None = None,
    ) -> StoreSpecBuilder:
        """Return a builder of a plain store; serdes of None are the configured defaults.

        Args:
            supplier: Where the bytes live.
            key_serde: The keys'.
            value_serde: The values'.
            ttl_ms: How long a row lives, in stream time; None for ever. Not in Kafka Streams.

        Raises:
            TopologyError: The supplier is not of a key-value store, or is of a timestamped one;
                `ttl_ms` is below 1, or its rows can't expire.
        """
        spec = spec_over(supplier, KEY_VALUE, key_serde, value_serde)
        check_plain(supplier, "timestamped_key_value_store_builder")
        return StoreSpecBuilder(expiring(spec, ttl_ms))

    @staticmethod
    def timestamped_key_value_store_builder(
        supplier: StoreSupplier,
        key_serde: Serde[Any] | None = None,
        value_serde: Serde[Any] | None = None,
        *,
        ttl_ms: int | None = None,
    ) -> StoreSpecBuilder:
        """Return a builder of a timestamped store; serdes of None are the configured defaults.

        Over a plain persistent supplier timestamps are read back as -1, unless rows expire.

        Args:
            supplier: Where the bytes live.
            key_serde: The keys'.
            value_serde: The values'.
            ttl_ms: As of `key_value_store_builder`.

        Raises:
            TopologyError: The supplier is not of a key-value store; `ttl_ms` is below 1, or its
                rows can't expire.
        """
        factory = "persistent_timestamped_key_value_store"
        spec = spec_over(
            supplier, KEY_VALUE, key_serde, value_serde, timestamped=True, factory=factory
        )
        return StoreSpecBuilder(expiring(spec, ttl_ms))

    @staticmethod
    def versioned_key_value_store_builder(
        supplier: StoreSupplier,
        key_serde: Serde[Any] | None = None,
        value_serde: Serde[Any] | None = None,
    ) -> StoreSpecBuilder:
        """Return a builder of a versioned store; serdes of None are the configured defaults.

        Raises:
            TopologyError: The supplier is not of a versioned store.
        """
        return StoreSpecBuilder(spec_over(supplier, VERSIONED, key_serde, value_serde))

    @staticmethod
    def window_store_builder(
        supplier: StoreSupplier,
        key_serde: Serde[Any] | None = None,
        value_serde: Serde[Any] | None = None,
    ) -> StoreSpecBuilder:
        """Return a builder of a plain window store; serdes of None are the configured defaults.

        A store that retains duplicates has no record cache, even if one is asked for.

        Raises:
            TopologyError: The supplier is not of a window store, or is of a timestamped one.
        """
        spec = spec_over(supplier, WINDOW, key_serde, value_serde)
        check_plain(supplier, "timestamped_window_store_builder")
        return StoreSpecBuilder(spec)

    @staticmethod
    def timestamped_window_store_builder(
        supplier: StoreSupplier,
        key_serde: Serde[Any] | None = None,
        value_serde: Serde[Any] | None = None,
    ) -> StoreSpecBuilder:
        """Return a builder of a timestamped window store; serdes of None are the defaults.

        Over a plain persistent supplier the store works, but timestamps are read back as -1.

        Raises:
            TopologyError: The supplier is not of a window store.
        """
        spec = spec_over(supplier, WINDOW, key_serde, value_serde, timestamped=True)
        return StoreSpecBuilder(spec)

    @staticmethod
    def session_store_builder(
        supplier: StoreSupplier,
        key_serde: Serde[Any] | None = None,
        value_serde: Serde[Any] | None = None,
    ) -> StoreSpecBuilder:
        """Return a builder of a session store; serdes of None are the configured defaults.

        Raises:
            TopologyError: The supplier is not of a session store.
        """
        return StoreSpecBuilder(spec_over(supplier, SESSION, key_serde, value_serde))


def _versioned(
    name: str,
    engine: StoreEngine,
    history_retention_ms: int,
    segment_interval_ms: int | None,
) -> StoreSupplier:
    retention = versioned_retention(name, history_retention_ms, segment_interval_ms)
    return StoreSupplier(checked_name(name), VERSIONED, engine=engine, retention=retention)
