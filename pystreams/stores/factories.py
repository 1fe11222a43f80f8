"""`Stores`: what users of the Processor API call to describe a store."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from pystreams.errors import TopologyError
from pystreams.stores.spec import StoreEngine, StoreSpec, StoreSupplier
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


def _checked(name: str) -> str:
    """Return a store's name if it can be part of a topic's and a directory's name.

    Spec: Kafka Named.validate.
    """
    if not _LEGAL_NAME.fullmatch(name) or name in {".", ".."}:
        raise TopologyError(
            f"store name {name!r} is not valid: use 1 to 249 letters, digits, '.', '_' or '-'"
        )
    return name
