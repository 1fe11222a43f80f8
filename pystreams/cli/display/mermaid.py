"""A topology as a Mermaid flowchart.

One subgraph a sub-topology, with its nodes and stores; topics stand outside, so that a repartition
topic is seen to join the sub-topology that writes it with the one that reads it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pystreams.topology.graph.description import (
        NodeDescription,
        SubtopologyDescription,
        TopologyDescription,
    )

_CHOSEN_BY_RECORD = "topic chosen by record"


def to_mermaid(description: TopologyDescription) -> str:
    """Return the flowchart's text, ending in a newline."""
    return "\n".join(_Flowchart().lines(description)) + "\n"


class _Flowchart:
    """Numbers things as they come, so that any name may hold any character."""

    def __init__(self) -> None:
        self._ids: dict[tuple[str, str], str] = {}

    def lines(self, description: TopologyDescription) -> Iterator[str]:
        yield "flowchart TD"
        for part in description.subtopologies:
            yield from self._subtopology(part)
        nodes = [node for part in description.subtopologies for node in part.nodes]
        for topic in dict.fromkeys(topic for node in nodes for topic in _topics(node)):
            yield f"  {self._id('topic', topic)}{{{{{_quoted(topic)}}}}}"
        for node in nodes:
            yield from self._edges_to_topics(node)

    def _subtopology(self, part: SubtopologyDescription) -> Iterator[str]:
        title = f"Sub-topology {part.id}" + (" (global store)" if part.is_global else "")
        yield f'  subgraph subtopology{part.id}["{title}"]'
        for node in part.nodes:
            yield f"    {self._id('node', node.name)}{_shape(node)}"
        for store in dict.fromkeys(store for node in part.nodes for store in node.stores):
            yield f"    {self._id('store', store)}[({_quoted(store)})]"
        for node in part.nodes:
            for successor in node.successors:
                yield f"    {self._id('node', node.name)} --> {self._id('node', successor)}"
            for store in node.stores:
                yield f"    {self._id('node', node.name)} <-.-> {self._id('store', store)}"
        yield "  end"

    def _edges_to_topics(self, node: NodeDescription) -> Iterator[str]:
        own = self._id("node", node.name)
        for topic in _topics(node):
            other = self._id("topic", topic)
            yield f"  {other} --> {own}" if node.kind == "source" else f"  {own} --> {other}"

    def _id(self, kind: str, name: str) -> str:
        return self._ids.setdefault((kind, name), f"{kind}{len(self._ids)}")


def _topics(node: NodeDescription) -> tuple[str, ...]:
    """Return the topics of a node as they are drawn."""
    if node.kind == "processor":
        return ()
    if node.pattern is not None:
        return (node.pattern,)
    return node.topics or (_CHOSEN_BY_RECORD,)


def _shape(node: NodeDescription) -> str:
    """Sources and sinks are rounded, processors are boxes."""
    text = _quoted(node.name)
    return f"[{text}]" if node.kind == "processor" else f"([{text}])"


def _quoted(name: str) -> str:
    return '"' + name.replace('"', "#quot;") + '"'
