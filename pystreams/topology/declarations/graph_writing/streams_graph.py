"""The logical graph: what the DSL's methods record, and how it is written into a `Topology`.

Methods of streams and tables only add nodes here. Writing waits for `StreamsBuilder.build`,
because later declarations count for earlier nodes: a table has a store when something downstream
looks into it, two streams of one topic share a source, a repartition keeps null keys when a left
join needs them.

Invariants:
- A node's priority is the order of its declaration; a node that gets another parent is declared
  anew. Nodes are written by priority, parents first. This is the order that numbers
  sub-topologies, so it must be Kafka's.
- Writing changes nothing in the graph: `build` may be called again, and more may be declared
  in between.

Source: Kafka Streams' `InternalStreamsBuilder`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from copy import copy

from pystreams.config import TopologyOptimization
from pystreams.errors import TopologyError
from pystreams.kernel.user_tracebacks import UsersCall, users_call
from pystreams.topology.declarations.graph_writing.final_results import final_results_below
from pystreams.topology.declarations.graph_writing.optimizations import optimize
from pystreams.topology.declarations.graph_writing.table_decisions import TableDecisions
from pystreams.topology.declarations.logical_graph.graph_links import GraphLinks
from pystreams.topology.declarations.logical_graph.graph_node import GraphNode, Place
from pystreams.topology.declarations.logical_graph.graph_nodes import (
    RepartitionNode,
    StreamSourceNode,
)
from pystreams.topology.graph.naming import NameCounter
from pystreams.topology.graph.nodes import CopartitionGroup
from pystreams.topology.graph.topology import Topology
from pystreams.topology.operators.idle_time import NEVER

Merged = Mapping[GraphNode, StreamSourceNode]
"""Sources of topics that an earlier one reads as well, with that one; in order of declaration."""


class StreamsGraph:
    """All that one builder has declared. Not for several threads.

    Attributes:
        repartitions: The repartition that joins of one stream, or aggregations of one group,
            have in common; by what they belong to.
        idle_timeout_ms: How long the input is silent before the wall clock moves the stream time
            of what waits for it; None if it never does.
    """

    def __init__(self, idle_timeout_ms: int | None = None) -> None:
        self.idle_timeout_ms = None if idle_timeout_ms == NEVER else idle_timeout_ms
        self.names = NameCounter()
        self.repartitions: dict[object, RepartitionNode] = {}
        # All by node, in the order of declaration.
        self._parents: dict[GraphNode, list[GraphNode]] = {}
        self._priorities: dict[GraphNode, int] = {}
        self._calls: dict[GraphNode, UsersCall] = {}
        self._declared = 0
        self._copartition_groups: list[CopartitionGroup] = []

    def idle_timeout_of(self, own_ms: int | None) -> int | None:
        """Return the idle timeout of an operation (ms) that has one of its own, or none."""
        if own_ms is None:
            return self.idle_timeout_ms
        return None if own_ms == NEVER else own_ms

    def check_same_builder(
        self, node: GraphNode, graph: StreamsGraph, other: GraphNode, operation: str
    ) -> None:
        """Refuse to put together what comes from two builders.

        Raises:
            TopologyError: The other node is of another graph.
        """
        if graph is not self:
            raise TopologyError(
                f"can't {operation} {node.name!r} and {other.name!r}: they come from two "
                "StreamsBuilders; make both with the same one"
            )

    def add(self, node: GraphNode, *parents: GraphNode) -> None:
        """Declare a node after its parents, or once more after another one."""
        if node not in self._calls:
            self._calls[node] = users_call()
        known = self._parents.setdefault(node, [])
        for parent in parents:
            if parent not in known:
                known.append(parent)
        self._priorities[node] = self._declared
        self._declared += 1

    def parents_of(self, node: GraphNode) -> tuple[GraphNode, ...]:
        """Return what a node reads from, as far as it is declared."""
        return tuple(self._parents[node])

    def require_copartition(self, sources: frozenset[str], node: str) -> None:
        """Require equal partition counts of the topics of these sources, for the sake of a node."""
        self._copartition_groups.append(CopartitionGroup(sources, node))

    def write(
        self, topology: Topology, optimizations: Collection[TopologyOptimization] = ()
    ) -> None:
        """Write all nodes, by priority, parents first.

        Args:
            topology: An empty topology.
            optimizations: Ways to need fewer topics and stores.

        Raises:
            TopologyError: The declarations contradict each other; names the node and the cure.
        """
        merged = _merged_sources(self._parents)
        links = GraphLinks(
            {
                node: _parents_after(merged, above)
                for node, above in self._parents.items()
                if node not in merged
            },
            self._priorities,
        )
        renamed = {node.name: first.name for node, first in merged.items()}
        renamed |= optimize(links, optimizations, copy(self.names))
        feeding_null_keys = links.ancestors(node for node in links if node.keeps_null_keys)
        tables, final = TableDecisions(links), final_results_below(links)
        reuses_topics = TopologyOptimization.REUSE_KTABLE_SOURCE_TOPICS in optimizations
        for node in links.in_order():
            topology.declare_for(self._calls[links.stands_for.get(node, node)])
            place = Place(
                parents=tuple(parent.name for parent in links.parents(node)),
                children=links.children(node),
                feeds_null_keys=node in feeding_null_keys,
                keeps_store=tables.keeps_store(node),
                sends_old_values=tables.sends_old_values(node),
                reuses_topics=reuses_topics,
                final_results_below=frozenset(final.get(node, ())),
            )
            node.write(topology, place)
        topology.declare_for(None)
        topology.generated_names |= self.names.generated
        for group in self._copartition_groups:
            sources = frozenset(renamed.get(name, name) for name in group.sources)
            topology.add_copartition_group(CopartitionGroup(sources, group.node))


def _merged_sources(nodes: Iterable[GraphNode]) -> Merged:
    """Let streams of equal topics, or of an equal pattern, share the first one's source."""
    by_pattern: dict[tuple[str, int], StreamSourceNode] = {}
    by_topic: dict[str, StreamSourceNode] = {}
    merged: dict[GraphNode, StreamSourceNode] = {}
    for node in nodes:
        if not isinstance(node, StreamSourceNode):
            continue
        if node.pattern is not None:
            key = (node.pattern.pattern, node.pattern.flags)
            first = by_pattern.setdefault(key, node)
        else:
            first = _first_reader(by_topic, node)
        if first is not node:
            first.check_reads_as(node)
            merged[node] = first
    return merged


def _parents_after(merged: Merged, parents: list[GraphNode]) -> list[GraphNode]:
    """Return a node's parents when sources are merged; those that took a place stand last."""
    kept = [parent for parent in parents if parent not in merged]
    taken = [first for node, first in merged.items() if node in parents]
    return list(dict.fromkeys((*kept, *taken)))


def _first_reader(
    by_topic: dict[str, StreamSourceNode], node: StreamSourceNode
) -> StreamSourceNode:
    """Return the first source of the same topics, which may be the node itself."""
    readers = {by_topic.setdefault(topic, node) for topic in node.topics}
    for reader in readers:
        if set(reader.topics) != set(node.topics):
            raise TopologyError(
                f"streams {reader.name!r} and {node.name!r} read overlapping but different topics "
                f"({', '.join(reader.topics)} and {', '.join(node.topics)}): "
                "read each topic in one stream and merge the streams"
            )
    return readers.pop()
