"""`Stores`: what users of the Processor API call to describe a store."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pystreams.errors import TopologyError
from pystreams.stores.spec import Retention, StoreEngine, StoreKind, StoreSpec, StoreSupplier
from pystreams.stores.spec_builder import StoreSpecBuilder

if TYPE_CHECKING:
    from collections.abc import Callable

    from pystreams.serdes import Serde
    from pystreams.stores.api import KeyValueEngine

MIN_SEGMENT_INTERVAL_MS = 60_000
"""What a segment of a window or session store covers at least; else it is half the retention."""

_LEGAL_NAME = re.compile(r"[a-zA-Z0-9._-]{1,249}")


class Stores:
    """Suppliers (where the bytes live) and builders (what the store gives)."""

    @staticmethod
    def persistent_key_value_store(name: str) -> StoreSupplier:
        """Return a supplier of a RocksDB store without timestamps."""
        return StoreSupplier(_checked(name))

    @staticmethod
    def persistent_timestamped_key_value_store(name: str) -> StoreSupplier:
        """Return a supplier of a RocksDB store that keeps a timestamp with each value."""
        return StoreSupplier(_checked(name), timestamped=True)

    @staticmethod
    def in_memory_key_value_store(name: str) -> StoreSupplier:
        """Return a supplier of a store in memory; restored from its changelog at each start."""
        return StoreSupplier(_checked(name), engine=StoreEngine.IN_MEMORY)

    @staticmethod
    def persistent_versioned_key_value_store(
        name: str, history_retention_ms: int, segment_interval_ms: int | None = None
    ) -> StoreSupplier:
        """Return a supplier of a RocksDB store that keeps the history of each key.

        Args:
            name: The store's name.
            history_retention_ms: How far back, in stream time, old versions can be read and late
                ones are taken; 0 or more.
            segment_interval_ms: What one segment covers; old versions go away a segment at a
                time. None chooses by the retention, as Kafka does. Must not change while the store
                has data.

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
        name: str, retention_ms: int, window_size_ms: int, *, retain_duplicates: bool = False
    ) -> StoreSupplier:
        """Return a supplier of a RocksDB store of windows, without timestamps.

        Args:
            name: The store's name.
            retention_ms: How long windows are kept, in stream time, counted from their start; not
                less than `window_size_ms`. Must not change while the store has data.
            window_size_ms: How long a window is; 0 or more.
            retain_duplicates: Whether each put adds a value, where it else replaces the one of its
                key and window.

        Raises:
            TopologyError: A time is not valid.
        """
        retention = window_retention(
            name, retention_ms, window_size_ms, retain_duplicates=retain_duplicates
        )
        return StoreSupplier(_checked(name), kind=StoreKind.WINDOW, retention=retention)

    @staticmethod
    def persistent_timestamped_window_store(
        name: str, retention_ms: int, window_size_ms: int, *, retain_duplicates: bool = False
    ) -> StoreSupplier:
        """Return a supplier like `persistent_window_store` that keeps timestamps with the values.

        Raises:
            TopologyError: A time is not valid.
        """
        plain = Stores.persistent_window_store(
            name, retention_ms, window_size_ms, retain_duplicates=retain_duplicates
        )
        return replace(plain, timestamped=True)

    @staticmethod
    def in_memory_window_store(
        name: str, retention_ms: int, window_size_ms: int, *, retain_duplicates: bool = False
    ) -> StoreSupplier:
        """Return a supplier of windows in memory; restored from its changelog at each start.

        Differs from Kafka, where it drops a window at the moment its retention is over: here as
        on disk, with the segment it is in. Reads find the same.

        Raises:
            TopologyError: A time is not valid.
        """
        plain = Stores.persistent_window_store(
            name, retention_ms, window_size_ms, retain_duplicates=retain_duplicates
        )
        return replace(plain, engine=StoreEngine.IN_MEMORY)

    @staticmethod
    def custom_key_value_store(
        name: str, engine_factory: Callable[[str], KeyValueEngine], *, timestamped: bool = False
    ) -> StoreSupplier:
        """Return a supplier of an engine of your own.

        Args:
            name: The store's name.
            engine_factory: Makes a new engine, once a task, from the store's name.
            timestamped: Whether the engine may hold eight bytes of timestamp before each value.
        """
        return StoreSupplier(_checked(name), timestamped=timestamped, engine_factory=engine_factory)

    @staticmethod
    def key_value_store_builder(
        supplier: StoreSupplier,
        key_serde: Serde[Any] | None = None,
        value_serde: Serde[Any] | None = None,
    ) -> StoreSpecBuilder:
        """Return a builder of a plain store; serdes of None are the configured defaults.

        Raises:
            TopologyError: The supplier is of a timestamped store.
        """
        if supplier.timestamped:
            raise TopologyError(
                f"store {supplier.name!r}: a plain store can't be built over a timestamped "
                "supplier; use timestamped_key_value_store_builder, or a plain supplier"
            )
        return StoreSpecBuilder(StoreSpec.of(supplier, key_serde, value_serde))

    @staticmethod
    def timestamped_key_value_store_builder(
        supplier: StoreSupplier,
        key_serde: Serde[Any] | None = None,
        value_serde: Serde[Any] | None = None,
    ) -> StoreSpecBuilder:
        """Return a builder of a timestamped store; serdes of None are the configured defaults.

        Over a plain persistent supplier the store works, but timestamps are read back as -1.
        """
        return StoreSpecBuilder(StoreSpec.of(supplier, key_serde, value_serde, timestamped=True))

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
        if supplier.kind is not StoreKind.VERSIONED:
            raise TopologyError(
                f"store {supplier.name!r}: a versioned store needs a supplier of one; use "
                "Stores.persistent_versioned_key_value_store"
            )
        return StoreSpecBuilder(StoreSpec.of(supplier, key_serde, value_serde))

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
        _check_window_supplier(supplier)
        if supplier.timestamped:
            raise TopologyError(
                f"store {supplier.name!r}: a plain store can't be built over a timestamped "
                "supplier; use timestamped_window_store_builder, or a plain supplier"
            )
        return StoreSpecBuilder(StoreSpec.of(supplier, key_serde, value_serde))

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
        _check_window_supplier(supplier)
        return StoreSpecBuilder(StoreSpec.of(supplier, key_serde, value_serde, timestamped=True))


def window_retention(
    name: str, retention_ms: int, window_size_ms: int, *, retain_duplicates: bool
) -> Retention:
    """Return the retention of a window store.

    Args:
        name: The store's name, for error messages.
        retention_ms: How long windows are kept, counted from their start.
        window_size_ms: How long a window is.
        retain_duplicates: Whether each put adds a value.

    Raises:
        TopologyError: A time is not valid.

    Spec: Kafka Stores.persistentWindowStore.
    """
    for argument, value in (("retention_ms", retention_ms), ("window_size_ms", window_size_ms)):
        if value < 0:
            raise TopologyError(f"store {name!r}: {argument} must be 0 or more, not {value}")
    if window_size_ms > retention_ms:
        raise TopologyError(
            f"store {name!r}: retention_ms {retention_ms} is less than window_size_ms "
            f"{window_size_ms}; a window has to be kept at least until it ends"
        )
    return Retention(
        retention_ms,
        max(retention_ms // 2, MIN_SEGMENT_INTERVAL_MS),
        window_size_ms=window_size_ms,
        retain_duplicates=retain_duplicates,
    )


def versioned_retention(
    name: str, history_retention_ms: int, segment_interval_ms: int | None
) -> Retention:
    """Return the retention of a versioned store.

    Args:
        name: The store's name, for error messages.
        history_retention_ms: How far back history goes.
        segment_interval_ms: What one segment covers; None chooses by the retention.

    Raises:
        TopologyError: A time is not valid.

    Spec: Kafka RocksDbVersionedKeyValueBytesStoreSupplier.defaultSegmentInterval.
    """
    if history_retention_ms < 0:
        raise TopologyError(
            f"store {name!r}: history_retention_ms must be 0 or more, not {history_retention_ms}"
        )
    if segment_interval_ms is None:
        segment_interval_ms = _default_segment_interval_ms(history_retention_ms)
    elif segment_interval_ms < 1:
        raise TopologyError(
            f"store {name!r}: segment_interval_ms must be 1 or more, not {segment_interval_ms}"
        )
    return Retention(history_retention_ms, segment_interval_ms)


def _versioned(
    name: str,
    engine: StoreEngine,
    history_retention_ms: int,
    segment_interval_ms: int | None,
) -> StoreSupplier:
    retention = versioned_retention(name, history_retention_ms, segment_interval_ms)
    return StoreSupplier(
        _checked(name), kind=StoreKind.VERSIONED, engine=engine, retention=retention
    )


def _default_segment_interval_ms(history_retention_ms: int) -> int:
    if history_retention_ms <= 60_000:
        return max(history_retention_ms // 3, 2_000)
    if history_retention_ms <= 300_000:
        return max(history_retention_ms // 5, 20_000)
    if history_retention_ms <= 3_600_000:
        return max(history_retention_ms // 12, 60_000)
    return max(history_retention_ms // 24, 300_000)


def _check_window_supplier(supplier: StoreSupplier) -> None:
    if supplier.kind is not StoreKind.WINDOW:
        raise TopologyError(
            f"store {supplier.name!r}: a window store needs a supplier of one; use "
            "Stores.persistent_window_store"
        )


def _checked(name: str) -> str:
    """Return a store's name if it can be part of a topic's and a directory's name.

    Spec: Kafka Named.validate.
    """
    if not _LEGAL_NAME.fullmatch(name) or name in {".", ".."}:
        raise TopologyError(
            f"store name {name!r} is not valid: use 1 to 249 letters, digits, '.', '_' or '-'"
        )
    return name
