"""`KGroupedTable`: a table put into other groups, to be aggregated. Source: `KGroupedTableImpl`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, Unpack

from pystreams.serdes import LONG, Serde
from pystreams.topology.functions import checked
from pystreams.topology.graph import StreamsGraph
from pystreams.topology.graph_nodes import (
    GraphNode,
    ProcessorGraphNode,
    Repartition,
    RepartitionNode,
)
from pystreams.topology.ktable import KTable
from pystreams.topology.materialization import TableStore
from pystreams.topology.naming import (
    REPARTITION_SUFFIX,
    STREAM_SINK,
    STREAM_SOURCE,
    TABLE_AGGREGATE,
    TABLE_REDUCE,
)
from pystreams.topology.options import Grouped, Materialized, MaterializedOptions, options_of
from pystreams.topology.processors.aggregate import TableAggregateOperator, TableReduceOperator
from pystreams.topology.processors.change_serde import ChangeSerde
from pystreams.topology.processors.table_view import TableOperator
from pystreams.topology.type_variables import K, V, VAgg


class KGroupedTable(Generic[K, V]):
    """The rows of a table, put into groups. Made by `KTable.group_by`.

    Aggregations undo the old value of a changed row with their subtractor before they add the new
    one, so that each group holds what its present rows say. When a row moves between groups, one
    group is updated before the other.
    """

    def __init__(self, graph: StreamsGraph, node: GraphNode, grouped: Grouped[K, V]) -> None:
        self._graph = graph
        self._node = node
        self._grouped = grouped
        self._repartition: RepartitionNode | None = None

    def count(
        self,
        *,
        node_name: str | None = None,
        materialized: Materialized[K, int] | None = None,
        **options: Unpack[MaterializedOptions[K, int]],
    ) -> KTable[K, int]:
        """Count the rows of each group.

        Args:
            node_name: Name of the node.
            materialized: Options of the table's store; or give them as keywords.
            options: Keywords of `Materialized`. `value_serde` is `serdes.LONG` unless given.
        """
        chosen = options_of(Materialized, materialized, options, "count")
        store = self._store(chosen, LONG)
        operator = TableAggregateOperator(store.name, int, _one_more, _one_less)
        return self._aggregated(operator, node_name, TABLE_AGGREGATE, store)

    def reduce(
        self,
        adder: Callable[[V, V], V],
        subtractor: Callable[[V, V], V],
        *,
        node_name: str | None = None,
        materialized: Materialized[K, V] | None = None,
        **options: Unpack[MaterializedOptions[K, V]],
    ) -> KTable[K, V]:
        """Combine the rows of each group.

        Args:
            adder: Called with (value so far, new value) unless the group is empty.
            subtractor: Called with (value so far, old value); returning None deletes the group.
            node_name: Name of the node.
            materialized: Options of the table's store; or give them as keywords.
            options: Keywords of `Materialized`.
        """
        for function in (adder, subtractor):
            checked(function, "reduce", ("so_far", "value"))
        chosen = options_of(Materialized, materialized, options, "reduce")
        store = self._store(chosen, self._grouped.value_serde)
        operator = TableReduceOperator(store.name, adder, subtractor)
        return self._aggregated(operator, node_name, TABLE_REDUCE, store)

    def aggregate(
        self,
        initializer: Callable[[], VAgg],
        adder: Callable[[K, V, VAgg], VAgg],
        subtractor: Callable[[K, V, VAgg], VAgg],
        *,
        node_name: str | None = None,
        materialized: Materialized[K, VAgg] | None = None,
        **options: Unpack[MaterializedOptions[K, VAgg]],
    ) -> KTable[K, VAgg]:
        """Fold the rows of each group into a value of another type.

        Args:
            initializer: Returns the value a group begins with.
            adder: Called with (group, new value, value so far).
            subtractor: Called with (group, old value, value so far); None deletes the group.
            node_name: Name of the node.
            materialized: Options of the table's store; or give them as keywords.
            options: Keywords of `Materialized`.
        """
        checked(initializer, "aggregate", ())
        for function in (adder, subtractor):
            checked(function, "aggregate", ("group", "value", "so_far"))
        chosen = options_of(Materialized, materialized, options, "aggregate")
        store = self._store(chosen, None)
        operator = TableAggregateOperator(store.name, initializer, adder, subtractor)
        return self._aggregated(operator, node_name, TABLE_AGGREGATE, store)

    def _store(self, chosen: Materialized[Any, Any], value_serde: Serde[Any] | None) -> TableStore:
        # Kafka names the store of a reduction after aggregations, too.
        return TableStore.of(
            chosen,
            self._graph.names,
            TABLE_AGGREGATE,
            key_serde=self._grouped.key_serde,
            value_serde=value_serde,
        )

    def _aggregated(
        self, operator: TableOperator, node_name: str | None, prefix: str, store: TableStore
    ) -> KTable[Any, Any]:
        names, grouped = self._graph.names, self._grouped
        sink_name = names.suffixed_or(node_name, "-sink", STREAM_SINK)
        source_name = names.suffixed_or(node_name, "-source", STREAM_SOURCE)
        name = names.node_or(node_name, prefix)
        if self._repartition is None or grouped.name is None:
            self._repartition = RepartitionNode(
                Repartition(
                    (grouped.name or store.name) + REPARTITION_SUFFIX,
                    None,
                    sink_name,
                    source_name,
                    grouped.key_serde,
                    ChangeSerde(grouped.value_serde),
                )
            )
        self._graph.add(self._repartition, self._node)
        node = ProcessorGraphNode(name, operator, own_store=store.builder())
        self._graph.add(node, self._repartition)
        node.versioned = store.versioned
        return KTable(
            self._graph,
            node,
            operator,
            sources=frozenset((self._repartition.name,)),
            key_serde=store.key_serde,
            value_serde=store.value_serde,
            queryable_store_name=store.queryable_name,
        )


def _one_more(group: Any, value: Any, count: int) -> int:  # noqa: ARG001 - the form of an adder
    return count + 1


def _one_less(group: Any, value: Any, count: int) -> int:  # noqa: ARG001 - the form of a subtractor
    return count - 1
