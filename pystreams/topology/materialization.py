"""The store of a table: its name, whether users may query it, and its builder.

A table that keeps state always has a store; without a name from the user it gets a generated one
that only this topology knows. Source: Kafka Streams' `MaterializedInternal`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pystreams.serdes import Serde
from pystreams.stores.spec import StoreEngine, StoreSpec
from pystreams.stores.spec_builder import StoreSpecBuilder
from pystreams.topology.naming import NameCounter
from pystreams.topology.options import Materialized


@dataclass(frozen=True, slots=True)
class TableStore:
    """How one table is kept.

    Attributes:
        name: The store's name.
        queryable_name: The same name if the user gave it, else None.
        key_serde: How keys are stored.
        value_serde: How values are stored.
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
        *,
        key_serde: Serde[Any] | None,
        value_serde: Serde[Any] | None,
    ) -> TableStore:
        """Name the store; a number is used up only if the user gave no name.

        Args:
            options: What the user asked for.
            names: Names of the builder.
            prefix: Begins a generated name.
            key_serde: Taken where the options have none.
            value_serde: Taken where the options have none.
        """
        return cls(
            options.name or names.store(prefix),
            options.name,
            options.key_serde or key_serde,
            options.value_serde or value_serde,
            options,
        )

    def builder(self) -> StoreSpecBuilder:
        """Return the store's builder."""
        options = self.options
        spec = StoreSpec(
            name=self.name,
            engine=options.store_type or StoreEngine.ROCKSDB,
            timestamped=True,
            engine_timestamped=True,
            key_serde=self.key_serde,
            value_serde=self.value_serde,
            caching=options.caching,
            logging=options.logging,
            changelog_config=dict(options.log_config) if options.logging else {},
            transactional=options.transactional,
        )
        return StoreSpecBuilder(spec)
