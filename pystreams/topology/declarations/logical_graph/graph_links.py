"""What a graph's nodes read from, as it is while a topology is made of it: rewritten, not declared.

Invariants:
- Parents and children say the same; both are in the order in which they were linked.
- A parent is written before its children; among those that may be written, the one that was
  declared first.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Mapping

from pystreams.topology.declarations.logical_graph.graph_node import GraphNode


class GraphLinks:
    """The nodes of a graph, their parents, and the order in which they are written.

    Args:
        parents: What each node reads from, in the order in which the nodes were declared.
        priorities: When each was last declared.

    Attributes:
        stands_for: The declared node that a new one takes the place of.
    """

    def __init__(
        self,
        parents: Mapping[GraphNode, Iterable[GraphNode]],
        priorities: Mapping[GraphNode, int],
    ) -> None:
        # Dictionaries as sets that keep their order.
        self._parents = {node: dict.fromkeys(above) for node, above in parents.items()}
        self._children: dict[GraphNode, dict[GraphNode, None]] = {node: {} for node in parents}
        self._priorities: dict[GraphNode, tuple[int, int]] = {
            node: (priorities[node], 0) for node in parents
        }
        self.stands_for: dict[GraphNode, GraphNode] = {}
        for node, above in self._parents.items():
            for parent in above:
                self._children[parent][node] = None

    def __iter__(self) -> Iterator[GraphNode]:
        """Go over the nodes, declared ones first, in the order of their declaration."""
        return iter(self._parents)

    def __contains__(self, node: GraphNode) -> bool:
        """Return whether a node is there, or is there still."""
        return node in self._parents

    def parents(self, node: GraphNode) -> tuple[GraphNode, ...]:
        """Return what a node reads from."""
        return tuple(self._parents[node])

    def children(self, node: GraphNode) -> tuple[GraphNode, ...]:
        """Return what reads from a node."""
        return tuple(self._children[node])

    def ancestors(self, nodes: Iterable[GraphNode]) -> set[GraphNode]:
        """Return all that lies above some nodes."""
        found: set[GraphNode] = set()
        waiting = list(nodes)
        while waiting:
            above = self._parents[waiting.pop()].keys() - found
            found |= above
            waiting.extend(above)
        return found

    def in_order(self) -> Iterator[GraphNode]:
        """Give the nodes as they are to be written."""
        numbered = {
            (*priority, number): node
            for number, (node, priority) in enumerate(self._priorities.items())
        }
        number_of = {node: number for number, node in numbered.items()}
        missing = {node: len(above) for node, above in self._parents.items()}
        ready = [number for number, node in numbered.items() if not missing[node]]
        heapq.heapify(ready)
        while ready:
            node = numbered[heapq.heappop(ready)]
            yield node
            for child in self._children[node]:
                missing[child] -= 1
                if not missing[child]:
                    heapq.heappush(ready, number_of[child])

    # ------------------------------------------------------------------ rewriting

    def insert_below(self, parent: GraphNode, node: GraphNode, stands_for: GraphNode) -> None:
        """Add a new node that is written right after its parent, with nothing below it yet."""
        self.stands_for[node] = self.stands_for.get(stands_for, stands_for)
        self._parents[node], self._children[node] = {}, {}
        priority, place = self._priorities[parent]
        self._priorities[node] = (priority, place + 1)
        self.link(parent, node)

    def link(self, parent: GraphNode, child: GraphNode) -> None:
        """Let a node read from another one too, as the last of its parents."""
        self._parents[child][parent] = None
        self._children[parent][child] = None

    def unlink(self, parent: GraphNode, child: GraphNode) -> None:
        """Let a node no longer read from one of its parents."""
        del self._parents[child][parent]
        del self._children[parent][child]

    def bypass(self, node: GraphNode) -> None:
        """Remove a node; what read from it reads from its parents."""
        for child in self.children(node):
            for parent in self._parents[node]:
                self.link(parent, child)
        self.remove(node)

    def remove(self, node: GraphNode) -> None:
        """Remove a node, which nothing has to read from any more."""
        for parent in self.parents(node):
            self.unlink(parent, node)
        for child in self.children(node):
            self.unlink(node, child)
        del self._parents[node], self._children[node], self._priorities[node]

    def replace(self, node: GraphNode, by: GraphNode) -> None:
        """Put a new node into the place of another one, among parents and children too."""
        self.stands_for[by] = self.stands_for.get(node, node)
        self._priorities[by] = self._priorities.pop(node)
        for links in (self._parents, self._children):
            links[by] = links.pop(node)
            for linked, neighbours in links.items():
                if node in neighbours:
                    links[linked] = {by if each is node else each: None for each in neighbours}
