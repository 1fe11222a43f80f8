"""The store of a table: its name, whether users may query it, and its builder.

A table that keeps state always has a store; without a name from the user it gets a generated one
that only this topology knows. Source: Kafka Streams' `MaterializedInternal`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from pystreams.serdes import Serde
from pystreams.stores.contracts.spec import StoreEngine, StoreSpec, StoreSupplier
from pystreams.stores.kinds.expiring.kind import expiring
from pystreams.stores.kinds.key_value.kind import KEY_VALUE
from pystreams.stores.kinds.versioned.kind import VERSIONED
from pystreams.stores.retentions import versioned_retention
from pystreams.stores.spec_builder import StoreSpecBuilder
from pystreams.topology.declarations.kept_serdes import Serdes
from pystreams.topology.graph.naming import NameCounter
from pystreams.topology.options.materialized import Materialized


@dataclass(frozen=True, slots=True)
class TableStore:
    """How one table is kept.

    Attributes:
        queryable_name: The same name if the user gave it, else None.
        options: The rest of what the user asked for.
    """

    name: str
    queryable_name: str | None
    key_serde: Serde[Any] | None
    value_serde: Serde[Any] | None
    options: Materialized[Any, Any]

    @classmethod
    def of(
        cls,
        options: Materialized[Any, Any],
        names: NameCounter,
        prefix: str,
        serdes: Serdes,
    ) -> TableStore:
        """Name the store; a number is used up only if the user gave no name.

        Args:
            prefix: Begins a generated name.
            serdes: Taken where the options have none.
        """
        return cls(
            options.store_name or names.store(prefix),
            options.store_name,
            options.key_serde or serdes.key,
            options.value_serde or serdes.value,
            options,
        )

    @property
    def versioned(self) -> bool:
        """Whether the store keeps the history of each key."""
        return self._supplier().kind.keeps_versions

    def builder(self) -> StoreSpecBuilder:
        """Return the store's builder."""
        options, supplier = self.options, self._supplier()
        kind = supplier.kind
        timestamped = not kind.keeps_versions
        spec = StoreSpec.of(supplier, self.key_serde, self.value_serde, timestamped=timestamped)
        return StoreSpecBuilder(
            replace(
                expiring(spec, options.ttl_ms),
                caching=options.caching and kind.caches,
                logging=options.logging,
                changelog_config=dict(options.log_config) if options.logging else {},
                transactional=options.transactional,
            )
        )

    def _supplier(self) -> StoreSupplier:
        options = self.options
        if options.supplier is not None:
            return options.supplier
        return self._own_supplier(options.store_type or StoreEngine.ROCKSDB)

    def _own_supplier(self, engine: StoreEngine) -> StoreSupplier:
        """Return where the store's bytes live if the user has no supplier."""
        options = self.options
        if options.history_retention_ms is None:
            return StoreSupplier(self.name, KEY_VALUE, engine, timestamped=True)
        retention = versioned_retention(
            self.name, options.history_retention_ms, options.segment_interval_ms
        )
        return StoreSupplier(self.name, VERSIONED, engine, retention=retention)
