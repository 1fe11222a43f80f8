"""Tells windowed aggregations what holds their results back until the windows close.

    aggregation --> filter --> suppress(until_window_closes, idle_timeout_ms=500)
         ^                                        |
         +--- closes windows no later than that --+

What a suppression has let go of is final, so that its window must be closed above, too. None of
that is noted on the aggregation when a suppression is declared: it is worked out here, of the whole
graph, each time a topology is written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from pystreams.topology.declarations.logical_graph.graph_links import GraphLinks
from pystreams.topology.declarations.logical_graph.graph_node import GraphNode, TableNode
from pystreams.topology.operators.tables.suppress import SuppressOperator


def final_results_below(links: GraphLinks) -> Mapping[GraphNode, set[int | None]]:
    """Return the idle timeouts (ms) of what lets final results go, by windowed aggregation."""
    found: dict[GraphNode, set[int | None]] = {}
    for node in links:
        operator = node.operator if isinstance(node, TableNode) else None
        if isinstance(operator, SuppressOperator) and operator.until_window_closes:
            for table in nearest_windowed_aggregations(links.parents(node), links.parents):
                found.setdefault(table, set()).add(operator.idle_timeout_ms)
    return found


def nearest_windowed_aggregations(
    nodes: Iterable[GraphNode], parents_of: Callable[[GraphNode], Iterable[GraphNode]]
) -> Iterator[TableNode]:
    """Go over those among some nodes or nearest above, on each way up; of a cogroup over its parts.

    Args:
        parents_of: Returns what a node reads from.
    """
    for node in nodes:
        if isinstance(node, TableNode) and node.window_grace_ms is not None:
            yield from node.joined_from or (node,)
        else:
            yield from nearest_windowed_aggregations(parents_of(node), parents_of)
