"""Finds what a topology writes that comes back to it: a record may go round for ever.

Kafka Streams allows it, and it may be meant: a record that is tried again until a counter in it
has run out goes round, too. What ends such a circle can't be seen, so it is told, never refused.
"""

from __future__ import annotations

from collections.abc import Iterator

from pystreams.topology.graph.nodes import Node, SinkNode, SourceNode
from pystreams.topology.graph.topology import Topology


def circles_of(topology: Topology) -> list[str]:
    """Return, for each sink whose records come to it again, a sentence for its user.

    A topic that is read only by what does not lead back to the sink is no circle, and neither is
    one of a global store. Where a function chooses the topic, nothing is known.
    """
    below = {name: list(_below(topology, node)) for name, node in topology.nodes.items()}
    return [
        f"sink {name!r}{topology.call_of(name).told()} writes to topic {node.topic!r}, which the "
        "topology reads, and what comes of that is written there again: unless something on the "
        "way ends it, a record goes round for ever. Write to another topic, or leave out what has "
        "been round"
        for name, node in topology.nodes.items()
        if isinstance(node, SinkNode)
        and isinstance(node.topic, str)
        and node.topic not in topology.repartition_topics
        and _reaches_itself(name, below)
    ]


def _below(topology: Topology, node: Node) -> Iterator[str]:
    """Yield the nodes that are given what a node hands on."""
    yield from topology.children(node.name)
    if isinstance(node, SinkNode) and isinstance(node.topic, str):
        internal = node.topic in topology.repartition_topics
        for source in topology.nodes.values():
            if not isinstance(source, SourceNode) or source.is_global:
                continue
            if node.topic in source.topics or (not internal and source.reads(node.topic)):
                yield source.name


def _reaches_itself(start: str, below: dict[str, list[str]]) -> bool:
    reached: set[str] = set()
    coming = list(below[start])
    while coming:
        name = coming.pop()
        if name == start:
            return True
        if name not in reached:
            reached.add(name)
            coming += below[name]
    return False
