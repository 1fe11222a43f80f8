"""Declares a table whose values a user's transformer makes.

Source: Kafka Streams' `KTableImpl.doTransformValues`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from pystreams.stores.store_builder import StoreBuilder
from pystreams.topology.contracts.user_functions import made_by
from pystreams.topology.declarations.declared_stream import check_store_names
from pystreams.topology.declarations.kept_serdes import Serdes, kept_serde_of_transformer
from pystreams.topology.declarations.logical_graph.graph_node import Place, TableNode
from pystreams.topology.declarations.tables.declared_table import DeclaredTable
from pystreams.topology.declarations.tables.table_store import TableStore
from pystreams.topology.graph import naming
from pystreams.topology.graph.declaration_checks import stores_brought_by
from pystreams.topology.graph.topology import Topology
from pystreams.topology.operators.tables.table_view import StoreView, TableView
from pystreams.topology.operators.tables.transform_values import (
    TableTransformValuesOperator,
    TransformedView,
    TransformerSupplier,
)
from pystreams.topology.options.materialized import Materialized


@dataclass(frozen=True, eq=False, kw_only=True)
class TransformedNode(TableNode):
    """A table that transformers make of another one.

    Attributes:
        above: The other one.
        connected: Names of the stores that they use, added by others.
        brought: Builders of the stores that their supplier brings.
    """

    above: TableNode
    supplier: TransformerSupplier
    connected: tuple[str, ...]
    brought: tuple[StoreBuilder, ...]

    def view(self) -> TableView:
        """Return the way to look into the table; who does must say so in its `needs`."""
        if self.store is not None:
            return StoreView(self.store.name)
        names = dict.fromkeys((*self.connected, *(store.name for store in self.brought)))
        return TransformedView(self.above.view(), self.supplier, tuple(names), self.name)

    def write(self, topology: Topology, place: Place) -> None:
        """Add the operator, the table's store, and the stores of its transformers."""
        self.write_below(topology, place, place.parents)
        for builder in self.brought:
            topology.add_state_store(builder, self.name)
        topology.connect_processor_and_state_stores(self.name, *self.connected)


def transformed_table(
    table: DeclaredTable,
    supplier: Any,
    stores: Sequence[str],
    chosen: Materialized[Any, Any] | None,
    node_name: str | None,
) -> DeclaredTable:
    """Declare new values; the table is kept only under the user's name.

    Raises:
        TopologyError: The supplier does not make a new transformer at each call, or `stores` are
            not names.
    """
    name = table.graph.names.node_or(node_name, naming.TABLE_TRANSFORM_VALUES)
    kept = kept_serde_of_transformer(made_by(supplier, name, "transform"), table.value_serde)
    check_store_names(stores, name)
    store = None
    if chosen is not None and chosen.store_name is not None:
        serdes = Serdes(table.key_serde, kept)
        store = TableStore.of(chosen, table.graph.names, naming.TABLE_TRANSFORM_VALUES, serdes)
    kept_name = None if store is None else store.name
    node = TransformedNode(
        name,
        TableTransformValuesOperator(kept_name, supplier),
        None if store is None else store.builder(),
        table.node.versioned if store is None else store.versioned,
        derived_from=table.node,
        above=table.node,
        supplier=supplier,
        connected=tuple(stores),
        brought=stores_brought_by(supplier, name),
    )
    table.graph.add(node, table.node)
    return replace(
        table,
        node=node,
        key_serde=(chosen and chosen.key_serde) or table.key_serde,
        value_serde=(chosen and chosen.value_serde) or kept,
        queryable_store_name=kept_name,
    )
