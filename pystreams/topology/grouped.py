"""`KGroupedStream`: a stream grouped by key, to be aggregated. Source: `KGroupedStreamImpl`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, Unpack

from pystreams.serdes import LONG, Serde
from pystreams.topology.functions import KEY_VALUE, checked
from pystreams.topology.graph import StreamsGraph
from pystreams.topology.graph_nodes import GraphNode, ProcessorGraphNode, RepartitionNode
from pystreams.topology.ktable import KTable
from pystreams.topology.materialization import TableStore
from pystreams.topology.naming import STREAM_AGGREGATE, STREAM_REDUCE
from pystreams.topology.options import (
    Grouped,
    Materialized,
    MaterializedOptions,
    Repartitioned,
    options_of,
)
from pystreams.topology.processors.aggregate import (
    AggregateOperator,
    CountOperator,
    ReduceOperator,
)
from pystreams.topology.processors.table_view import TableOperator
from pystreams.topology.repartitioning import new_repartition
from pystreams.topology.type_variables import K, V, VAgg


class KGroupedStream(Generic[K, V]):
    """The records of a stream, grouped by key. Made by `KStream.group_by_key` and `group_by`.

    Each aggregation makes a table that is kept in a state store. Give it a name
    (`count(name="counts")`): the store, its changelog topic and, where records must travel to
    their group, the repartition topic are called after it, and only a named store can be queried.
    Records without key or value are dropped.
    """

    def __init__(
        self,
        graph: StreamsGraph,
        node: GraphNode,
        grouped: Grouped[K, V],
        *,
        sources: frozenset[str],
        repartition_required: bool,
    ) -> None:
        self._graph = graph
        self._node = node
        self._grouped = grouped
        self._sources = sources
        self._repartition_required = repartition_required
        self._repartition: RepartitionNode | None = None

    def count(
        self,
        *,
        node_name: str | None = None,
        materialized: Materialized[K, int] | None = None,
        **options: Unpack[MaterializedOptions[K, int]],
    ) -> KTable[K, int]:
        """Count the records of each key.

        Args:
            node_name: Name of the node.
            materialized: Options of the table's store; or give them as keywords.
            options: Keywords of `Materialized`. `value_serde` is `serdes.LONG` unless given.
        """
        chosen = options_of(Materialized, materialized, options, "count")
        names = self._graph.names
        if (materialized is not None or options) and chosen.store_name is None:
            # Kafka takes a number here for the sake of old topologies.
            names.store(STREAM_AGGREGATE)
        store = self._store(chosen, STREAM_AGGREGATE, LONG)
        name = names.node_or(node_name, STREAM_AGGREGATE)
        return self._aggregated(name, CountOperator(store.name), store)

    def reduce(
        self,
        reducer: Callable[[V, V], V],
        *,
        node_name: str | None = None,
        materialized: Materialized[K, V] | None = None,
        **options: Unpack[MaterializedOptions[K, V]],
    ) -> KTable[K, V]:
        """Combine the values of each key.

        Args:
            reducer: Called with (value so far, value) from a key's second record on; returning
                None deletes the key.
            node_name: Name of the node.
            materialized: Options of the table's store; or give them as keywords.
            options: Keywords of `Materialized`.
        """
        checked(reducer, "reduce", ("so_far", "value"))
        chosen = options_of(Materialized, materialized, options, "reduce")
        store = self._store(chosen, STREAM_REDUCE, self._grouped.value_serde)
        name = self._graph.names.node_or(node_name, STREAM_REDUCE)
        return self._aggregated(name, ReduceOperator(store.name, reducer), store)

    def aggregate(
        self,
        initializer: Callable[[], VAgg],
        aggregator: Callable[[K, V, VAgg], VAgg],
        *,
        node_name: str | None = None,
        materialized: Materialized[K, VAgg] | None = None,
        **options: Unpack[MaterializedOptions[K, VAgg]],
    ) -> KTable[K, VAgg]:
        """Fold the values of each key into one of another type.

        Args:
            initializer: Returns the value a key begins with.
            aggregator: Called with (key, value, value so far); returns the new value, or None to
                delete the key. It may change what it was given and return that.
            node_name: Name of the node.
            materialized: Options of the table's store; or give them as keywords.
            options: Keywords of `Materialized`. Without `value_serde` the configured default is
                used, because the stream's own is of another type.
        """
        checked(initializer, "aggregate", ())
        checked(aggregator, "aggregate", (*KEY_VALUE, "so_far"))
        chosen = options_of(Materialized, materialized, options, "aggregate")
        store = self._store(chosen, STREAM_AGGREGATE, None)
        name = self._graph.names.node_or(node_name, STREAM_AGGREGATE)
        return self._aggregated(name, AggregateOperator(store.name, initializer, aggregator), store)

    def _store(
        self, chosen: Materialized[Any, Any], prefix: str, value_serde: Serde[Any] | None
    ) -> TableStore:
        return TableStore.of(
            chosen,
            self._graph.names,
            prefix,
            key_serde=self._grouped.key_serde,
            value_serde=value_serde,
        )

    def _aggregated(
        self, name: str, operator: TableOperator, store: TableStore
    ) -> KTable[Any, Any]:
        parent, sources = self._node, self._sources
        if self._repartition_required:
            parent = self._repartitioned(store.name)
            sources = frozenset((parent.name,))
        node = ProcessorGraphNode(name, operator, own_store=store.builder())
        self._graph.add(node, parent)
        node.versioned = store.versioned
        return KTable(
            self._graph,
            node,
            operator,
            sources=sources,
            key_serde=store.key_serde,
            value_serde=store.value_serde,
            queryable_store_name=store.queryable_name,
        )

    def _repartitioned(self, store_name: str) -> RepartitionNode:
        """Return the repartition of this aggregation; one with a name serves several."""
        grouped = self._grouped
        options = Repartitioned(key_serde=grouped.key_serde, value_serde=grouped.value_serde)
        # Made even if it is not used: its numbers are used up.
        repartition = new_repartition(self._graph.names, grouped.name or store_name, options)
        if self._repartition is None or grouped.name is None:
            self._repartition = repartition
        self._graph.add(self._repartition, self._node)
        return self._repartition
