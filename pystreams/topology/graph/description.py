"""What a topology looks like, as values and as Kafka Streams' text.

Source: `TopologyDescription` and `InternalTopologyBuilder.describe` of Kafka Streams. Nodes are
listed by the size of the tree below them, largest first, then by name; `java_order` has the rest.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from pystreams.topology.graph.java_order import InsertionOrderedTree, hash_order
from pystreams.topology.graph.nodes import Node, SinkNode, SourceNode
from pystreams.topology.graph.subtopologies import Subtopology, subtopologies_of


@dataclass(frozen=True, slots=True)
class NodeDescription:
    """One node.

    Attributes:
        kind: "source", "processor" or "sink".
        topics: Topics read or written; empty for processors and for sinks that choose by record.
        pattern: The pattern of a source that reads by pattern, else None.
        stores: Stores a processor uses.
        predecessors: Names of parents, in the order they are printed.
        successors: Names of children, in the order they are printed.
    """

    name: str
    kind: str
    topics: tuple[str, ...]
    pattern: str | None
    stores: tuple[str, ...]
    predecessors: tuple[str, ...]
    successors: tuple[str, ...]

    def __str__(self) -> str:
        """Return the node's lines of the description."""
        arrows = f"\n      --> {_names(self.successors)}"
        back = f"\n      <-- {_names(self.predecessors)}"
        if self.kind == "source":
            topics = self.pattern or f"[{', '.join(self.topics)}]"
            return f"Source: {self.name} (topics: {topics}){arrows}"
        if self.kind == "sink":
            target = f"topic: {self.topics[0]}" if self.topics else "extractor class: function"
            return f"Sink: {self.name} ({target}){back}"
        return f"Processor: {self.name} (stores: [{', '.join(self.stores)}]){arrows}{back}"


@dataclass(frozen=True, slots=True)
class SubtopologyDescription:
    """One sub-topology.

    Attributes:
        nodes: Its nodes, largest tree first.
        is_global: Whether it is a global store, of which there are no tasks.
    """

    id: int
    nodes: tuple[NodeDescription, ...]
    is_global: bool = False

    def __str__(self) -> str:
        """Return the sub-topology's lines of the description."""
        lines = "".join(f"    {node}\n" for node in self.nodes)
        if self.is_global:
            return f"Sub-topology: {self.id} for global store (will not generate tasks)\n{lines}"
        return f"Sub-topology: {self.id}\n{lines}\n"


@dataclass(frozen=True, slots=True)
class TopologyDescription:
    """A whole topology.

    Attributes:
        subtopologies: Its parts, by number; global stores among them.
    """

    subtopologies: tuple[SubtopologyDescription, ...]

    def __str__(self) -> str:
        """Return Kafka Streams' text."""
        return "Topologies:\n " + "".join(f"  {part}" for part in self.subtopologies)


def describe(nodes: Mapping[str, Node], stores: Iterable[str]) -> TopologyDescription:
    """Describe a topology; the arguments are those of `subtopologies_of`."""
    parts = [_describe_subtopology(nodes, part) for part in subtopologies_of(nodes, stores)]
    return TopologyDescription(tuple(parts))


def _names(names: tuple[str, ...]) -> str:
    return ", ".join(names) or "none"


def _describe_subtopology(nodes: Mapping[str, Node], part: Subtopology) -> SubtopologyDescription:
    sizes, predecessors, successors = _links(nodes, part)
    described = [
        NodeDescription(
            name=name,
            kind=_kind(node),
            topics=_topics(node),
            pattern=node.pattern.pattern if isinstance(node, SourceNode) and node.pattern else None,
            stores=tuple(hash_order(node.stores)),
            predecessors=tuple(predecessors[name]),
            successors=tuple(successors[name]),
        )
        for name in sorted(part.nodes, key=lambda name: (-sizes[name], name))
        for node in [nodes[name]]
    ]
    return SubtopologyDescription(part.id, tuple(described), part.is_global)


def _links(
    nodes: Mapping[str, Node], part: Subtopology
) -> tuple[dict[str, int], dict[str, InsertionOrderedTree], dict[str, InsertionOrderedTree]]:
    """Return sizes, predecessors and successors as Kafka Streams works them out.

    It connects nodes one by one, in the order of a `HashMap` filled from a `HashSet`; a set of
    neighbours is sorted by the sizes at that moment, which grow while links are added.
    """
    sizes = dict.fromkeys(part.nodes, 1)

    def compare(name: str, other: str) -> int:
        if name == other:
            return 0
        if sizes[name] != sizes[other]:
            return sizes[other] - sizes[name]
        return -1 if name < other else 1

    predecessors = {name: InsertionOrderedTree(compare) for name in part.nodes}
    successors = {name: InsertionOrderedTree(compare) for name in part.nodes}

    def grow(name: str, by: int) -> None:
        sizes[name] += by
        for predecessor in predecessors[name]:
            grow(predecessor, by)

    for name in hash_order(hash_order(part.nodes)):
        node = nodes[name]
        for parent in node.parents:
            predecessors[name].add(parent)
            successors[parent].add(name)
            grow(parent, sizes[name])
    return sizes, predecessors, successors


def _kind(node: Node) -> str:
    if isinstance(node, SourceNode):
        return "source"
    return "sink" if isinstance(node, SinkNode) else "processor"


def _topics(node: Node) -> tuple[str, ...]:
    if isinstance(node, SourceNode):
        return tuple(hash_order(node.topics))
    if isinstance(node, SinkNode) and isinstance(node.topic, str):
        return (node.topic,)
    return ()
