"""The logical graph: what the DSL's methods record, and how it is written into a `Topology`.

Methods of streams and tables only add nodes here. Writing waits for `StreamsBuilder.build`,
because later declarations change earlier nodes: a table is materialized when something
downstream looks into it, two streams of one topic share a source, a repartition keeps null keys
when a left join needs them.

Invariants:
- A node's priority is the order of its declaration; a node that gets another parent is declared
  anew. Nodes are written by priority, parents first. This is the order that numbers
  sub-topologies, so it must be Kafka's.
- Writing changes nothing in the graph but the merging of sources, which is done once: `build`
  may be called again.

Source: Kafka Streams' `InternalStreamsBuilder`.
"""

from __future__ import annotations

import heapq

from pystreams.errors import TopologyError
from pystreams.topology.graph_nodes import (
    GraphNode,
    StreamSourceNode,
    connect,
    disconnect,
)
from pystreams.topology.naming import NameCounter
from pystreams.topology.nodes import CopartitionGroup
from pystreams.topology.topology import Topology
from pystreams.tracebacks import users_call


class StreamsGraph:
    """All that one builder has declared. Not for several threads.

    Attributes:
        names: Names the nodes.
        root: Parent of sources and of stores.
    """

    def __init__(self) -> None:
        self.names = NameCounter()
        self.root = GraphNode("root")
        self._next_priority = 0
        self._copartition_groups: list[CopartitionGroup] = []
        # Sources that were merged into another one, with the other's name.
        self._merged: dict[str, str] = {}

    def add(self, node: GraphNode, *parents: GraphNode) -> None:
        """Declare a node after its parents; after the root when there are none."""
        node.call = node.call or users_call()
        for parent in parents or (self.root,):
            connect(parent, node)
            node.priority = self._next_priority
            self._next_priority += 1

    def require_copartition(self, sources: frozenset[str], node: str) -> None:
        """Require equal partition counts of the topics of these sources, for the sake of a node."""
        self._copartition_groups.append(CopartitionGroup(sources, node))

    def write(self, topology: Topology) -> None:
        """Write all nodes, by priority, parents first.

        Args:
            topology: An empty topology.

        Raises:
            TopologyError: The declarations contradict each other; names the node and the cure.
        """
        self._merge_sources()
        written = {self.root}
        waiting = [(child.priority, index, child) for index, child in enumerate(self.root.children)]
        heapq.heapify(waiting)
        pushed = len(waiting)
        while waiting:
            _, _, node = heapq.heappop(waiting)
            if node in written or not written.issuperset(node.parents):
                continue
            topology.declare_for(node.call)
            node.write(topology)
            written.add(node)
            for child in node.children:
                heapq.heappush(waiting, (child.priority, pushed, child))
                pushed += 1
        topology.declare_for(None)
        for group in self._copartition_groups:
            sources = frozenset(self._merged.get(name, name) for name in group.sources)
            topology.add_copartition_group(CopartitionGroup(sources, group.node))

    def _merge_sources(self) -> None:
        """Let streams of equal topics, or of an equal pattern, share the first one's source."""
        by_pattern: dict[tuple[str, int], StreamSourceNode] = {}
        by_topic: dict[str, StreamSourceNode] = {}
        for node in list(self.root.children):
            if not isinstance(node, StreamSourceNode):
                continue
            if node.pattern is not None:
                key = (node.pattern.pattern, node.pattern.flags)
                first = by_pattern.setdefault(key, node)
            else:
                first = _first_reader(by_topic, node)
            if first is not node:
                first.take_over(node)
                disconnect(self.root, node)
                self._merged[node.name] = first.name


def _first_reader(
    by_topic: dict[str, StreamSourceNode], node: StreamSourceNode
) -> StreamSourceNode:
    """Return the first source of the same topics, which may be the node itself."""
    readers = {by_topic.setdefault(topic, node) for topic in node.topics}
    for reader in readers:
        if set(reader.topics) != set(node.topics):
            message = (
                f"streams {reader.name!r} and {node.name!r} read overlapping but different topics "
                f"({', '.join(reader.topics)} and {', '.join(node.topics)}): "
                "read each topic in one stream and merge the streams"
            )
            raise TopologyError(message)
    return readers.pop()
