"""Declares global tables and global stores, and the joins of streams with global tables.

Each process reads a global table's topic whole, into a store that all its threads look into. So it
is nobody's input: it has no partitions to be co-partitioned, and its updates go nowhere but there.

Source: Kafka Streams' `InternalStreamsBuilder.globalTable`, `KStreamImpl.globalTableJoin`. Differs
from Kafka: options that change nothing are refused.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from pystreams.errors import TopologyError
from pystreams.serdes import Serde
from pystreams.stores.store_builder import StoreBuilder
from pystreams.topology.contracts.user_functions import KEY_VALUE, checked, with_or_without_key
from pystreams.topology.declarations.declared_stream import DeclaredStream
from pystreams.topology.declarations.graph_writing.streams_graph import StreamsGraph
from pystreams.topology.declarations.joins.join_call import JoinCall
from pystreams.topology.declarations.kept_serdes import Serdes, kept_serde
from pystreams.topology.declarations.logical_graph.graph_node import GraphNode, Place
from pystreams.topology.declarations.logical_graph.graph_nodes import ProcessorGraphNode
from pystreams.topology.declarations.tables.table_store import TableStore
from pystreams.topology.graph import naming
from pystreams.topology.graph.nodes import SourceNode
from pystreams.topology.graph.topology import Topology
from pystreams.topology.operators.joins.stream_global_join import StreamGlobalTableJoinOperator
from pystreams.topology.operators.tables.changes import TableSourceOperator
from pystreams.topology.operators.user_processor import AnyProcessor
from pystreams.topology.options.materialized import Materialized
from pystreams.topology.options.operation_options import Consumed


@dataclass(frozen=True, eq=False, kw_only=True)
class GlobalTableNode(GraphNode):
    """A global table, by the name of its node."""

    source: SourceNode
    store: StoreBuilder

    def write(self, topology: Topology, place: Place) -> None:
        """Add source, table and store."""
        operator = TableSourceOperator(self.store.name)
        topology.add_global_operator(self.source, self.name, operator, self.store)


@dataclass(frozen=True, eq=False, kw_only=True)
class GlobalStoreNode(GraphNode):
    """A global store that a processor of the user's fills, by the name of the processor's node."""

    source: SourceNode
    store: StoreBuilder
    supplier: Callable[[], AnyProcessor]

    def write(self, topology: Topology, place: Place) -> None:
        """Add source, processor and store."""
        topology.add_global_store(
            self.store,
            self.source.name,
            self.source.topics[0],
            self.name,
            self.supplier,
            key_serde=self.source.key_serde,
            value_serde=self.source.value_serde,
        )


@dataclass(frozen=True, slots=True, eq=False)
class DeclaredGlobalTable:
    """A global table, as a join must know it.

    Attributes:
        value_serde: Serde of its values, as far as it is known.
        queryable_store_name: The same if the user gave it.
    """

    graph: StreamsGraph
    node: GlobalTableNode
    store: str
    value_serde: Serde[Any] | None
    queryable_store_name: str | None


def declared_global_table(
    graph: StreamsGraph,
    topic: str,
    consumed: Consumed[Any, Any],
    materialized: Materialized[Any, Any],
) -> DeclaredGlobalTable:
    """Declare a global table; serdes that only one of the two options has are taken for both.

    Raises:
        TopologyError: An option means nothing for a global table.
    """
    _check_consumed(consumed, "global_table")
    unlogged = replace(materialized, logging=False, caching=False, log_config={})
    serdes = Serdes(consumed.key_serde, consumed.value_serde)
    store = TableStore.of(unlogged, graph.names, f"{topic}-", serdes)
    if store.versioned:
        raise TopologyError(
            f"global_table({topic!r}): a global table keeps no history: leave "
            "history_retention_ms out, or read the topic with table(...)"
        )
    if materialized.ttl_ms is not None:
        raise TopologyError(
            f"global_table({topic!r}): a global table has the rows of its topic, which it does not "
            "write: leave ttl_ms out, or let a table(...) expire rows into a topic that this reads"
        )
    read = replace(
        consumed,
        key_serde=consumed.key_serde or store.key_serde,
        value_serde=consumed.value_serde or store.value_serde,
    )
    source, name = _named(graph, topic, read)
    node = GlobalTableNode(name, source=source, store=store.builder())
    graph.add(node)
    return DeclaredGlobalTable(graph, node, store.name, read.value_serde, store.queryable_name)


def declare_global_store(
    graph: StreamsGraph,
    store: StoreBuilder,
    topic: str,
    consumed: Consumed[Any, Any],
    supplier: Callable[[], AnyProcessor],
) -> None:
    """Declare a store that a processor of the user's fills.

    Raises:
        TopologyError: An option means nothing for a global store.
    """
    _check_consumed(consumed, "add_global_store")
    source, name = _named(graph, topic, consumed)
    graph.add(GlobalStoreNode(name, source=source, store=store, supplier=supplier))


def join_global_table(
    stream: DeclaredStream, table: DeclaredGlobalTable, call: JoinCall
) -> DeclaredStream:
    """Declare a join; return its results.

    Raises:
        TopologyError: The call does not fit a global table, or the two come from different
            builders.
    """
    stream.graph.check_same_builder(stream.node, table.graph, table.node, "join")
    name = dict(call.options).pop("name", None)
    others = sorted(call.options.keys() - {"name"})
    if call.joined is not None or others or call.windows is not None:
        given = ", ".join(others) or ("joined" if call.joined is not None else "windows")
        raise TopologyError(
            f"{call.kind} with the global table {table.node.name!r} takes a key_selector, a joiner "
            f"and a name: leave {given} out"
        )
    if call.key_selector is None:
        raise TopologyError(
            f"{call.kind} with the global table {table.node.name!r} needs a key_selector before "
            "the joiner, a function (key, value) -> the table's key: "
            f"{call.kind}(table, lambda key, value: key, joiner) looks up the record's own key"
        )
    checked(call.key_selector, f"{call.kind}: key_selector", KEY_VALUE)
    with_or_without_key(call.joiner, call.kind, ("value", "row"), with_key=call.with_key)
    left = call.kind == "left_join"
    operator = StreamGlobalTableJoinOperator(
        table.store, call.key_selector, call.joiner, left=left, with_key=call.with_key
    )
    # Kafka names both kinds alike.
    name = stream.graph.names.node_or(name, naming.STREAM_LEFT_JOIN)
    node = ProcessorGraphNode(name, operator, keeps_null_keys=left)
    value_serde = kept_serde(call.joiner, stream.value_serde, table.value_serde)
    return stream.followed_by(node, stream.key_serde, value_serde)


def _named(graph: StreamsGraph, topic: str, consumed: Consumed[Any, Any]) -> tuple[SourceNode, str]:
    """Return the source, and the name of the node below it."""
    source_name = graph.names.suffixed_or(consumed.name, "-source", naming.STREAM_SOURCE)
    name = graph.names.node_or(consumed.name, naming.TABLE_SOURCE)
    source = SourceNode(
        source_name, (topic,), None, consumed.key_serde, consumed.value_serde, is_global=True
    )
    return source, name


def _check_consumed(consumed: Consumed[Any, Any], where: str) -> None:
    """Refuse what would change nothing: Kafka Streams takes it, and passes it over."""
    if consumed.timestamp_extractor is not None:
        raise TopologyError(
            f"{where}: records of a global store have their own timestamps: leave "
            "timestamp_extractor out"
        )
    if consumed.offset_reset not in {None, "earliest"}:
        raise TopologyError(
            f"{where}: the topic of a global store is read from its beginning: leave "
            f"offset_reset={consumed.offset_reset!r} out"
        )
