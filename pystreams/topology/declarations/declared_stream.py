"""A declared stream, and how operations go on from it: what is below `KStream`.

Nothing here knows of a method's docstring, overloads or options: those are in `streams_and_tables`.
Source: Kafka Streams' `AbstractStream`, `KStreamImpl`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pystreams.errors import TopologyError
from pystreams.serdes import Serde
from pystreams.topology.contracts.operator import Operator
from pystreams.topology.contracts.user_functions import made_by
from pystreams.topology.contracts.windowed_serdes import WindowedSerde, WindowedStreamPartitioner
from pystreams.topology.declarations.graph_writing.repartitioning import new_repartition
from pystreams.topology.declarations.graph_writing.streams_graph import StreamsGraph
from pystreams.topology.declarations.kept_serdes import Serdes, kept_serdes_of_processor
from pystreams.topology.declarations.logical_graph.graph_node import Effect, GraphNode
from pystreams.topology.declarations.logical_graph.graph_nodes import (
    ProcessorGraphNode,
    RepartitionNode,
    SinkGraphNode,
    UserProcessorNode,
)
from pystreams.topology.graph import naming
from pystreams.topology.graph.nodes import TopicNameExtractor
from pystreams.topology.operators.records.stateless import PassThroughOperator
from pystreams.topology.operators.user_processor import AnyProcessor
from pystreams.topology.options.operation_options import Produced, Repartitioned


@dataclass(frozen=True, slots=True, eq=False)
class DeclaredStream:
    """A stream, as those after it must know it.

    Attributes:
        sources: Names of the source nodes of its sub-topology that it comes from.
        key_serde: Serde of its keys, as far as it is known.
        value_serde: Serde of its values, likewise.
        repartition_required: Whether its keys may be others than those it was partitioned by.
    """

    graph: StreamsGraph
    node: GraphNode
    sources: frozenset[str]
    key_serde: Serde[Any] | None
    value_serde: Serde[Any] | None
    repartition_required: bool = False

    def unchanged(self, operator: Operator, prefix: str, name: str | None) -> DeclaredStream:
        """Declare an operation that hands on records as they are, perhaps fewer."""
        node = self._node(operator, prefix, name, Effect.SAME)
        return self.followed_by(node, self.key_serde, self.value_serde)

    def new_value(
        self,
        operator: Operator,
        prefix: str,
        name: str | None,
        value_serde: Serde[Any] | None = None,
    ) -> DeclaredStream:
        """Declare an operation that makes new values, with their serde as far as it is known."""
        node = self._node(operator, prefix, name, Effect.NEW_VALUE)
        return self.followed_by(node, self.key_serde, value_serde)

    def new_key(
        self, operator: Operator, prefix: str, name: str | None, key_serde: Serde[Any] | None
    ) -> DeclaredStream:
        """Declare an operation that makes new keys, with their serde as far as it is known."""
        node = self._node(operator, prefix, name, Effect.NEW_KEY)
        return self.followed_by(node, key_serde, self.value_serde, new_key=True)

    def new_record(
        self, operator: Operator, prefix: str, name: str | None, serdes: Serdes
    ) -> DeclaredStream:
        """Declare an operation that makes new keys and values, with their serdes likewise."""
        node = self._node(operator, prefix, name, Effect.NEW_KEY)
        return self.followed_by(node, serdes.key, serdes.value, new_key=True)

    @property
    def serdes(self) -> Serdes:
        """Return the serdes of its keys and values, as far as they are known."""
        return Serdes(self.key_serde, self.value_serde)

    def followed_by(
        self,
        node: GraphNode,
        key_serde: Serde[Any] | None,
        value_serde: Serde[Any] | None,
        *,
        new_key: bool = False,
    ) -> DeclaredStream:
        """Add a node and return the stream behind it."""
        self.graph.add(node, self.node)
        return replace(
            self,
            node=node,
            key_serde=key_serde,
            value_serde=value_serde,
            repartition_required=self.repartition_required or new_key,
        )

    def processed(
        self,
        supplier: Callable[[], AnyProcessor],
        stores: Sequence[str],
        name: str | None,
        *,
        fixed_key: bool,
    ) -> DeclaredStream:
        """Declare a processor of the user's.

        Raises:
            TopologyError: The supplier does not make a new processor at each call, or `stores` are
                not names.
        """
        prefix = naming.STREAM_PROCESS_VALUES if fixed_key else naming.STREAM_PROCESS
        if name is None:
            # No number is used up when the name is given.
            name = self.graph.names.node(prefix)
        naming.check_name(name, "a node")
        processor = made_by(supplier, name)
        check_store_names(stores, name)
        node = UserProcessorNode(name, supplier, tuple(stores), fixed_key)
        kept = kept_serdes_of_processor(processor, self.serdes, fixed_key=fixed_key)
        return self.followed_by(node, kept.key, kept.value, new_key=not fixed_key)

    def merged_with(self, other: DeclaredStream, name: str | None) -> DeclaredStream:
        """Declare a merge.

        Raises:
            TopologyError: The streams come from different builders.
        """
        self.graph.check_same_builder(self.node, other.graph, other.node, "merge")
        node_name = self.graph.names.node_or(name, naming.STREAM_MERGE)
        node = ProcessorGraphNode(node_name, PassThroughOperator(), effect=Effect.MERGED)
        self.graph.add(node, self.node, other.node)
        # Kafka trusts neither serde, even if both streams have the same.
        return DeclaredStream(
            self.graph,
            node,
            self.sources | other.sources,
            self.key_serde if self.key_serde == other.key_serde else None,
            self.value_serde if self.value_serde == other.value_serde else None,
            self.repartition_required or other.repartition_required,
        )

    def written_to(self, topic: str | TopicNameExtractor, options: Produced[Any, Any]) -> None:
        """Declare a sink."""
        key_serde, partitioner = options.key_serde or self.key_serde, options.partitioner
        if partitioner is None and isinstance(key_serde, WindowedSerde):
            partitioner = WindowedStreamPartitioner(key_serde)
        node = SinkGraphNode(
            self.graph.names.node_or(options.name, naming.STREAM_SINK),
            topic=topic,
            key_serde=key_serde,
            value_serde=options.value_serde or self.value_serde,
            partitioner=partitioner,
        )
        self.graph.add(node, self.node)

    def repartitioned(
        self, prefix: str, options: Repartitioned[Any, Any], *, mergeable: bool = False
    ) -> DeclaredStream:
        """Declare a repartition and return the stream behind it.

        Args:
            prefix: The topic's name, see `new_repartition`.
            options: How; serdes are the stream's own unless given.
            mergeable: See `RepartitionNode`.
        """
        inherited = replace(
            options,
            key_serde=options.key_serde or self.key_serde,
            value_serde=options.value_serde or self.value_serde,
        )
        node = new_repartition(self.graph.names, prefix, inherited, mergeable=mergeable)
        self.graph.add(node, self.node)
        return behind(self.graph, node)

    def copartitioned(
        self, name: str | None, key_serde: Serde[Any] | None, value_serde: Serde[Any] | None
    ) -> DeclaredStream:
        """Return this stream for a join: behind a repartition if its keys may be new.

        Joins without a name share one.
        """
        if not self.repartition_required:
            return self
        prefix = name or self.node.name
        # Made even if it is not used: its numbers are used up.
        node = new_repartition(self.graph.names, prefix, Repartitioned(key_serde, value_serde))
        shared = self.graph.repartitions
        if self not in shared or prefix != self.node.name:
            self.graph.add(node, self.node)
            shared[self] = node
        return replace(
            behind(self.graph, shared[self]), key_serde=key_serde, value_serde=value_serde
        )

    def _node(
        self, operator: Operator, prefix: str, name: str | None, effect: Effect
    ) -> ProcessorGraphNode:
        return ProcessorGraphNode(self.graph.names.node_or(name, prefix), operator, effect=effect)


def behind(graph: StreamsGraph, node: RepartitionNode) -> DeclaredStream:
    """Return the stream that a repartition's source gives."""
    return DeclaredStream(graph, node, frozenset((node.name,)), node.key_serde, node.value_serde)


def declared_of(stream: object, operation: str) -> DeclaredStream:
    """Return what is below a `KStream`.

    Raises:
        TopologyError: It is no stream.
    """
    declared = getattr(stream, "_declared", None)
    if not isinstance(declared, DeclaredStream):
        raise TopologyError(
            f"{operation} takes a stream, not {stream!r}; to_stream() makes one of a table"
        )
    return declared


def check_store_names(stores: Any, node: str) -> None:
    """Refuse stores of a node that are not given by their names."""
    is_list = isinstance(stores, Iterable) and not isinstance(stores, str)
    if not is_list or not all(isinstance(store, str) for store in stores):
        raise TopologyError(
            f"processor {node!r}: stores must be a list of names, not {stores!r}; add each "
            "store with add_state_store(...) and give its name here"
        )
