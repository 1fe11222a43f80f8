"""Declared groups of a stream or of a table, to be aggregated: below `KGroupedStream` and such.

Source: Kafka Streams' `GroupedStreamAggregateBuilder`, `KGroupedTableImpl`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from pystreams.serdes import Serde
from pystreams.topology.aggregations.aggregation import Aggregation
from pystreams.topology.declarations.declared_stream import DeclaredStream, behind
from pystreams.topology.declarations.graph_writing.repartitioning import new_repartition
from pystreams.topology.declarations.graph_writing.streams_graph import StreamsGraph
from pystreams.topology.declarations.kept_serdes import Serdes
from pystreams.topology.declarations.logical_graph.graph_node import GraphNode
from pystreams.topology.declarations.logical_graph.graph_nodes import RepartitionNode
from pystreams.topology.declarations.tables.declared_table import DeclaredTable, aggregated_table
from pystreams.topology.declarations.tables.table_store import TableStore
from pystreams.topology.graph import naming
from pystreams.topology.operators.tables.aggregations import (
    AggregateOperator,
    TableAggregateOperator,
)
from pystreams.topology.operators.tables.change_serde import ChangeSerde
from pystreams.topology.operators.tables.results import ResultsOperator, fold_of
from pystreams.topology.operators.tables.table_operator import TableOperator
from pystreams.topology.options.materialized import Materialized
from pystreams.topology.options.operation_options import Grouped, Repartitioned


@dataclass(frozen=True, slots=True, eq=False)
class StreamGroups:
    """The records of a stream, grouped.

    Attributes:
        stream: The stream, with the groups as keys.
        grouped: How records travel to their groups, if they must.
    """

    stream: DeclaredStream
    grouped: Grouped[Any, Any]

    def store(
        self, chosen: Materialized[Any, Any], prefix: str, value_serde: Serde[Any] | None
    ) -> TableStore:
        """Return the store of an aggregation; options that have no name use up a number."""
        serdes = Serdes(self.grouped.key_serde, value_serde)
        return TableStore.of(chosen, self.stream.graph.names, prefix, serdes)

    def aggregated(
        self,
        operator: TableOperator,
        node_name: str | None,
        prefix: str,
        store: TableStore,
        *,
        window_grace_ms: int | None = None,
    ) -> DeclaredTable:
        """Declare an aggregation; one of windows, with how long those may still change."""
        stream = self.stream
        name = stream.graph.names.node_or(node_name, prefix)
        if stream.repartition_required:
            stream = behind(stream.graph, self._repartition(store.name))
        return aggregated_table(stream, name, operator, store, window_grace_ms)

    def aggregated_by(
        self,
        aggregation: Aggregation[Any, Any, Any],
        chosen: Materialized[Any, Any],
        node_name: str | None,
    ) -> DeclaredTable:
        """Declare a ready aggregation: the store keeps its states, the table has its results."""
        prefix = naming.STREAM_AGGREGATE
        store = self.store(keeping_states(aggregation, chosen), prefix, None)
        operator = AggregateOperator(store.name, fold_of(aggregation))
        results = ResultsOperator(operator, aggregation)
        return with_results(aggregation, chosen, self.aggregated(results, node_name, prefix, store))

    def _repartition(self, store_name: str) -> RepartitionNode:
        """Return the repartition of an aggregation; one with a name serves several."""
        grouped, graph = self.grouped, self.stream.graph
        options = Repartitioned(key_serde=grouped.key_serde, value_serde=grouped.value_serde)
        # Made even if it is not used: its numbers are used up.
        repartition = new_repartition(graph.names, grouped.name or store_name, options)
        if grouped.name is not None:
            repartition = graph.repartitions.setdefault(self, repartition)
        graph.add(repartition, self.stream.node)
        return repartition


@dataclass(frozen=True, slots=True, eq=False)
class TableGroups:
    """The rows of a table, grouped."""

    graph: StreamsGraph
    node: GraphNode
    grouped: Grouped[Any, Any]

    def store(self, chosen: Materialized[Any, Any], value_serde: Serde[Any] | None) -> TableStore:
        """Return the store of an aggregation."""
        # Kafka names the store of a reduction after aggregations, too.
        serdes = Serdes(self.grouped.key_serde, value_serde)
        return TableStore.of(chosen, self.graph.names, naming.TABLE_AGGREGATE, serdes)

    def aggregated(
        self, operator: TableOperator, node_name: str | None, prefix: str, store: TableStore
    ) -> DeclaredTable:
        """Declare an aggregation."""
        graph, names, grouped = self.graph, self.graph.names, self.grouped
        sink_name = names.suffixed_or(node_name, "-sink", naming.STREAM_SINK)
        source_name = names.suffixed_or(node_name, "-source", naming.STREAM_SOURCE)
        name = names.node_or(node_name, prefix)
        above = grouped.name or store.name
        repartition = RepartitionNode(
            source_name,
            topic=names.made_of(above, above + naming.REPARTITION_SUFFIX),
            filter_name=None,
            sink_name=sink_name,
            key_serde=grouped.key_serde,
            value_serde=ChangeSerde(grouped.value_serde),
        )
        if grouped.name is not None:
            repartition = graph.repartitions.setdefault(self, repartition)
        graph.add(repartition, self.node)
        return aggregated_table(behind(graph, repartition), name, operator, store)

    def aggregated_by(
        self,
        aggregation: Aggregation[Any, Any, Any],
        chosen: Materialized[Any, Any],
        node_name: str | None,
    ) -> DeclaredTable:
        """Declare a ready aggregation: the store keeps its states, the table has its results.

        Raises:
            TopologyError: It can't be undone.
        """
        subtractor = aggregation.subtractor_or_raise()
        store = self.store(keeping_states(aggregation, chosen), None)
        operator = TableAggregateOperator(
            store.name, aggregation.initializer, aggregation.aggregator, subtractor
        )
        results = ResultsOperator(operator, aggregation)
        table = self.aggregated(results, node_name, naming.TABLE_AGGREGATE, store)
        return with_results(aggregation, chosen, table)


def keeping_states(
    aggregation: Aggregation[Any, Any, Any], chosen: Materialized[Any, Any]
) -> Materialized[Any, Any]:
    """Return options for a store of states; the serde that was given is that of the results."""
    return replace(chosen, value_serde=aggregation.state_serde())


def with_results(
    aggregation: Aggregation[Any, Any, Any], chosen: Materialized[Any, Any], table: DeclaredTable
) -> DeclaredTable:
    """Return the table of an aggregation with the serde of its results."""
    return replace(table, value_serde=chosen.value_serde or aggregation.result_serde)
