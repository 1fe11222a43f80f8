"""Declares a join of two tables by their keys. Source: Kafka's `KTableImpl.doJoin`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from pystreams.topology.contracts.user_functions import of_key_and_values, with_or_without_key
from pystreams.topology.declarations.kept_serdes import Serdes, kept_serde
from pystreams.topology.declarations.logical_graph.graph_node import (
    Place,
    TableNeed,
    TableNode,
    Wanted,
)
from pystreams.topology.declarations.tables.declared_table import DeclaredTable
from pystreams.topology.declarations.tables.table_store import TableStore
from pystreams.topology.graph import naming
from pystreams.topology.graph.topology import Topology
from pystreams.topology.operators.joins.table_table_join import (
    JoinedView,
    TableJoin,
    TableJoinMergeOperator,
    TableJoinSideOperator,
)
from pystreams.topology.operators.tables.table_view import StoreView, TableView
from pystreams.topology.options.materialized import Materialized, optional_table_options


@dataclass(frozen=True, eq=False, kw_only=True)
class JoinedTablesNode(TableNode):
    """A join of two tables: a node for each side, and one for the result.

    Attributes:
        left_name: Name of the node that takes the left table's changes.
        right_name: Name of the other one.
    """

    left: TableNode
    right: TableNode
    join: TableJoin
    left_name: str
    right_name: str

    @property
    def joined_from(self) -> tuple[TableNode, ...]:
        """Both tables."""
        return (self.left, self.right)

    def view(self) -> TableView:
        """Return the way to look into the table."""
        if self.store is not None:
            return StoreView(self.store.name)
        return JoinedView(self.left.view(), self.right.view(), self.join)

    def write(self, topology: Topology, place: Place) -> None:
        """Add both sides, then the result with its store, if it has one."""
        left_view, right_view = self.left.view(), self.right.view()
        for name, table, view, left in (
            (self.left_name, self.left, right_view, True),
            (self.right_name, self.right, left_view, False),
        ):
            side = TableJoinSideOperator(
                view, self.join, left, send_old_values=place.sends_old_values
            )
            topology.add_operator(name, side, (table.name,), looks_into=view.stores)
        self.write_below(topology, place, (self.left_name, self.right_name))
        topology.connect_processor_and_state_stores(self.left_name, *right_view.stores)
        topology.connect_processor_and_state_stores(self.right_name, *left_view.stores)


@dataclass(frozen=True, slots=True)
class TableJoinCall:
    """A call of a table's `join`, `left_join` or `outer_join`.

    Attributes:
        with_key: Whether it takes the key too.
        node_name: Name of the result's node, and beginning of the others'.
        materialized: How the result is kept, as an object.
        options: The same as keywords.
    """

    kind: Literal["join", "left_join", "outer_join"]
    joiner: Callable[..., Any]
    with_key: bool
    node_name: str | None
    materialized: Any
    options: Mapping[str, Any]


def join_tables(left: DeclaredTable, right: DeclaredTable, call: TableJoinCall) -> DeclaredTable:
    """Declare a join; return the table of its results.

    Raises:
        TopologyError: The two come from different builders, or the options or the joiner are not
            right.
    """
    kind, node_name = call.kind, call.node_name
    with_or_without_key(call.joiner, kind, ("value", "other_value"), with_key=call.with_key)
    chosen: Materialized[Any, Any] | None = optional_table_options(
        call.materialized, call.options, kind
    )
    joiner = of_key_and_values(call.joiner, with_key=call.with_key)
    names = left.graph.names
    left.graph.check_same_builder(left.node, right.graph, right.node, "join")
    kept = kept_serde(call.joiner, left.value_serde, right.value_serde)
    store = None
    if chosen is not None:
        serdes = Serdes(left.key_serde, kept)
        store = TableStore.of(chosen, names, naming.TABLE_MERGE, serdes)
    name = names.node_or(node_name, naming.TABLE_MERGE)
    join = TableJoin(joiner, left_required=kind != "outer_join", right_required=kind == "join")
    needs = []
    if kind != "join":
        needs.append(TableNeed(left.node, Wanted.OLD_VALUES))
    if kind == "outer_join":
        needs.append(TableNeed(right.node, Wanted.OLD_VALUES))
    needs += [TableNeed(left.node, Wanted.LOOKUP), TableNeed(right.node, Wanted.LOOKUP)]
    # Options without a name keep the result all the same, unlike those of a filter.
    node = JoinedTablesNode(
        name,
        TableJoinMergeOperator(None if store is None else store.name),
        None if store is None else store.builder(),
        store is not None and store.versioned,
        needs=tuple(needs),
        left=left.node,
        right=right.node,
        join=join,
        left_name=names.suffixed_or(node_name, "-join-this", naming.TABLE_JOIN_THIS),
        right_name=names.suffixed_or(node_name, "-join-other", naming.TABLE_JOIN_OTHER),
    )
    left.graph.add(node, left.node, right.node)
    sources = left.sources | right.sources
    left.graph.require_copartition(sources, name)
    return replace(
        left,
        node=node,
        sources=sources,
        key_serde=left.key_serde if store is None else store.key_serde,
        value_serde=kept if store is None else store.value_serde,
        queryable_store_name=None if store is None else store.queryable_name,
    )
