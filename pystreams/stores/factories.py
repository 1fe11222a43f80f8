"""`Stores`: what users of the Processor API call to describe a store."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from pystreams.errors import TopologyError
from pystreams.stores.spec import Retention, StoreEngine, StoreKind, StoreSpec, StoreSupplier
from pystreams.stores.spec_builder import StoreSpecBuilder

if TYPE_CHECKING:
    from collections.abc import Callable

    from pystreams.serdes import Serde
    from pystreams.stores.api import KeyValueEngine

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


def _checked(name: str) -> str:
    """Return a store's name if it can be part of a topic's and a directory's name.

    Spec: Kafka Named.validate.
    """
    if not _LEGAL_NAME.fullmatch(name) or name in {".", ".."}:
        raise TopologyError(
            f"store name {name!r} is not valid: use 1 to 249 letters, digits, '.', '_' or '-'"
        )
    return name
