"""A declared table, and how operations go on from it: what is below `KTable`.

Source: Kafka Streams' `KTableImpl`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from pystreams.serdes import Serde
from pystreams.topology.declarations.declared_stream import DeclaredStream
from pystreams.topology.declarations.graph_writing.streams_graph import StreamsGraph
from pystreams.topology.declarations.kept_serdes import Serdes, kept_serde
from pystreams.topology.declarations.logical_graph.graph_node import (
    GraphNode,
    TableNeed,
    TableNode,
    Wanted,
)
from pystreams.topology.declarations.logical_graph.graph_nodes import (
    ProcessorGraphNode,
    TableSourceNode,
)
from pystreams.topology.declarations.tables.table_store import TableStore
from pystreams.topology.graph import naming
from pystreams.topology.operators.tables.changes import (
    DerivedTableOperator,
    TableFilterOperator,
    TableMapValuesOperator,
    TableRegroupOperator,
    TableSourceOperator,
    TableToStreamOperator,
)
from pystreams.topology.operators.tables.table_operator import TableOperator
from pystreams.topology.options.materialized import Materialized
from pystreams.topology.options.operation_options import Consumed, Repartitioned


@dataclass(frozen=True, slots=True, eq=False)
class DeclaredTable:
    """A table, as those after it must know it.

    Attributes:
        sources: Names of the source nodes of its sub-topology that it comes from.
        key_serde: Serde of its keys, as far as it is known.
        value_serde: Serde of its values, likewise.
        queryable_store_name: Name of its store, if the user gave it one.
    """

    graph: StreamsGraph
    node: TableNode
    sources: frozenset[str]
    key_serde: Serde[Any] | None
    value_serde: Serde[Any] | None
    queryable_store_name: str | None

    def filtered(
        self,
        predicate: Callable[[Any, Any], Any],
        chosen: Materialized[Any, Any] | None,
        node_name: str | None,
        *,
        negate: bool,
    ) -> DeclaredTable:
        """Declare a filter; with `negate` it keeps the others."""
        store = self._store(chosen, naming.TABLE_FILTER, self.value_serde)
        operator = TableFilterOperator(
            _queryable_name(store), predicate, negate=negate, versioned=self.node.versioned
        )
        name = self.graph.names.node_or(node_name, naming.TABLE_FILTER)
        needs = (TableNeed(self.node, Wanted.OLD_VALUES_IF_FREE),)
        derived = self._derived(operator, name, store, needs)
        value_serde = (chosen and chosen.value_serde) or self.value_serde
        return replace(derived, value_serde=value_serde)

    def mapped(
        self,
        mapper: Callable[..., Any],
        chosen: Materialized[Any, Any] | None,
        node_name: str | None,
        *,
        with_key: bool,
    ) -> DeclaredTable:
        """Declare new values."""
        kept = kept_serde(mapper, self.value_serde)
        store = self._store(chosen, naming.TABLE_MAP_VALUES, kept)
        operator = TableMapValuesOperator(_queryable_name(store), mapper, with_key=with_key)
        name = self.graph.names.node_or(node_name, naming.TABLE_MAP_VALUES)
        derived = self._derived(operator, name, store)
        return replace(derived, value_serde=(chosen and chosen.value_serde) or kept)

    def changes(self, name: str | None) -> DeclaredStream:
        """Declare the stream of the table's changes."""
        node_name = self.graph.names.node_or(name, naming.TABLE_TO_STREAM)
        node = ProcessorGraphNode(node_name, TableToStreamOperator())
        self.graph.add(node, self.node)
        return DeclaredStream(self.graph, node, self.sources, self.key_serde, self.value_serde)

    def regrouped(
        self, selector: Callable[[Any, Any], tuple[Any, Any]], name: str | None
    ) -> GraphNode:
        """Declare that rows go to groups; return the node that sends them."""
        node = ProcessorGraphNode(
            self.graph.names.node_or(name, naming.TABLE_SELECT),
            TableRegroupOperator(selector),
            needs=(TableNeed(self.node, Wanted.OLD_VALUES),),
        )
        self.graph.add(node, self.node)
        return node

    def _store(
        self, chosen: Materialized[Any, Any] | None, prefix: str, value_serde: Serde[Any] | None
    ) -> TableStore | None:
        """Return the store asked for; options without a name use up a number all the same."""
        if chosen is None:
            return None
        serdes = Serdes(self.key_serde, value_serde)
        return TableStore.of(chosen, self.graph.names, prefix, serdes)

    def _derived(
        self,
        operator: DerivedTableOperator,
        name: str,
        store: TableStore | None,
        needs: tuple[TableNeed, ...] = (),
    ) -> DeclaredTable:
        """Declare a table that is computed from this one; it is kept only under the user's name."""
        kept = None if store is None or store.queryable_name is None else store
        node = TableNode(
            name,
            operator,
            None if kept is None else kept.builder(),
            self.node.versioned if kept is None else kept.versioned,
            derived_from=self.node,
            needs=needs,
        )
        self.graph.add(node, self.node)
        return replace(
            self,
            node=node,
            key_serde=store.key_serde if store is not None else self.key_serde,
            queryable_store_name=_queryable_name(store),
        )


def table_of_topic(
    graph: StreamsGraph,
    topic: str,
    consumed: Consumed[Any, Any],
    materialized: Materialized[Any, Any],
) -> DeclaredTable:
    """Declare a table that is read from a topic.

    Serdes that only one of the two options has are taken for both, reading and keeping.
    """
    names = graph.names
    serdes = Serdes(consumed.key_serde, consumed.value_serde)
    store = TableStore.of(materialized, names, f"{topic}-", serdes)
    read = replace(
        consumed,
        key_serde=consumed.key_serde or store.key_serde,
        value_serde=consumed.value_serde or store.value_serde,
    )
    source_name = names.suffixed_or(read.name, "-source", naming.STREAM_SOURCE)
    node = TableSourceNode(
        names.node_or(read.name, naming.TABLE_SOURCE),
        operator=TableSourceOperator(store.name),
        store=store.builder(),
        versioned=store.versioned,
        on_demand=store.queryable_name is None,
        source_name=source_name,
        topic=topic,
        consumed=read,
    )
    graph.add(node)
    table = kept_table(graph, node, frozenset((source_name,)), store)
    return replace(table, key_serde=read.key_serde, value_serde=read.value_serde)


def table_of_stream(
    stream: DeclaredStream, materialized: Materialized[Any, Any], node_name: str | None
) -> DeclaredTable:
    """Declare a table of which a stream is the updates."""
    names = stream.graph.names
    name = names.node_or(node_name, naming.STREAM_TO_TABLE)
    store = TableStore.of(materialized, names, naming.STREAM_TO_TABLE, stream.serdes)
    if stream.repartition_required:
        options = Repartitioned(store.key_serde, store.value_serde)
        stream = stream.repartitioned(name, options, mergeable=True)
    return updated_table(stream, name, store)


def updated_table(stream: DeclaredStream, name: str, store: TableStore) -> DeclaredTable:
    """Declare a table of which a stream is the updates, in the partitions of its keys."""
    node = TableNode(
        name,
        TableSourceOperator(store.name),
        store.builder(),
        store.versioned,
        on_demand=store.queryable_name is None,
    )
    stream.graph.add(node, stream.node)
    return kept_table(stream.graph, node, stream.sources, store)


def aggregated_table(
    stream: DeclaredStream,
    name: str,
    operator: TableOperator,
    store: TableStore,
    window_grace_ms: int | None = None,
) -> DeclaredTable:
    """Declare a table that aggregates a stream, whose records are in their groups' partitions."""
    node = TableNode(
        name, operator, store.builder(), store.versioned, window_grace_ms=window_grace_ms
    )
    stream.graph.add(node, stream.node)
    return kept_table(stream.graph, node, stream.sources, store)


def kept_table(
    graph: StreamsGraph, node: TableNode, sources: frozenset[str], store: TableStore
) -> DeclaredTable:
    """Return the table of a node that has a store."""
    return DeclaredTable(
        graph, node, sources, store.key_serde, store.value_serde, store.queryable_name
    )


def _queryable_name(store: TableStore | None) -> str | None:
    return None if store is None else store.queryable_name
