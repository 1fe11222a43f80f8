"""From where something may come to a node: along the edges, and through stores."""

from __future__ import annotations

from collections.abc import Mapping

from pystreams.topology.graph.nodes import Node, ProcessorNode


def on_the_way_to(nodes: Mapping[str, Node], name: str) -> frozenset[str]:
    """Return the nodes from which records may come to one, itself included, or into its stores.

    Whoever writes into a store that one of them uses is among them; who only looks into it is not.
    """
    writers: dict[str, list[str]] = {}
    for other, node in nodes.items():
        looks_into = node.looks_into if isinstance(node, ProcessorNode) else frozenset()
        for store in node.stores:
            if store not in looks_into:
                writers.setdefault(store, []).append(other)
    found: set[str] = set()
    left = [name]
    while left:
        here = left.pop()
        if here not in found:
            found.add(here)
            left += nodes[here].parents
            for store in nodes[here].stores:
                left += writers.get(store, ())
    return frozenset(found)
