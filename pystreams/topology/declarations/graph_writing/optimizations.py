"""Rewrites a graph so that it needs fewer topics and stores: what `topology.optimization` names.

Names are Kafka Streams', so that an optimized application can go on with what its Java version
left. A rewrite is left out, though Kafka Streams does it, where the results would be others.

Source: Kafka Streams' `InternalStreamsBuilder.optimizeTopology`. Spec: KIP-295, KIP-862.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

from pystreams.config import TopologyOptimization
from pystreams.serdes import Serde
from pystreams.topology.declarations.graph_writing.repartitioning import new_repartition
from pystreams.topology.declarations.graph_writing.stream_join_nodes import (
    SelfJoinNode,
    StreamStreamJoinNode,
)
from pystreams.topology.declarations.logical_graph.graph_links import GraphLinks
from pystreams.topology.declarations.logical_graph.graph_node import Effect, GraphNode
from pystreams.topology.declarations.logical_graph.graph_nodes import RepartitionNode
from pystreams.topology.graph.naming import NameCounter
from pystreams.topology.options.operation_options import Repartitioned

Origins = dict[GraphNode, list[RepartitionNode]]
"""Repartitions by the node whose records they carry: one that changes keys, or a merge."""


def optimize(
    links: GraphLinks, optimizations: Collection[TopologyOptimization], names: NameCounter
) -> dict[str, str]:
    """Rewrite a graph.

    Args:
        names: Names of the builder; numbers are used up.

    Returns:
        The names of sources that are gone, with those that have taken their place.
    """
    renamed: dict[str, str] = {}
    if TopologyOptimization.MERGE_REPARTITION_TOPICS in optimizations:
        renamed = _merge_repartitions(links, names)
    if TopologyOptimization.SINGLE_STORE_SELF_JOIN in optimizations:
        for node in list(links):
            if isinstance(node, StreamStreamJoinNode) and len(links.parents(node)) == 1:
                _keep_once(links, node)
    return renamed


# ---------------------------------------------------------------------- repartition topics


def _merge_repartitions(links: GraphLinks, names: NameCounter) -> dict[str, str]:
    """Repartition once what comes of one change of keys; return what the sources are now."""
    renamed: dict[str, str] = {}
    for origin, found in _origins(links).items():
        repartitions = [node for node in found if _carries_records_of(links, origin, node)]
        if not repartitions:
            continue
        first = repartitions[0]
        options: Repartitioned[Any, Any] = Repartitioned(
            _first(node.key_serde for node in repartitions),
            _first(node.value_serde for node in repartitions),
        )
        merged = new_repartition(names, first.topic, options)
        tops = [_top(links, origin, node) for node in repartitions]
        links.insert_below(origin, merged, first)
        for node, top in zip(repartitions, tops, strict=True):
            if merged not in links.parents(top):
                links.link(merged, top)
                links.unlink(origin, top)
            links.bypass(node)
            renamed[node.name] = merged.name
    return renamed


def _origins(links: GraphLinks) -> Origins:
    """Return what Kafka Streams merges: repartitions by the change of keys or merge above them."""
    by_change: Origins = {node: [] for node in links if node.effect is Effect.NEW_KEY}
    for node in links:
        if isinstance(node, RepartitionNode) and node.mergeable:
            change = _nearest_change(links, node)
            if change is not None and change.effect is Effect.NEW_KEY:
                by_change[change].append(node)
    by_merge: Origins = {}
    taken: set[GraphNode] = set()
    for merge in [node for node in links if node.effect is Effect.MERGED]:
        changes = [
            change
            for change, repartitions in by_change.items()
            if all(merge in links.ancestors([node]) for node in repartitions)
            and change in links.ancestors([merge])
        ]
        by_merge[merge] = list(
            dict.fromkeys(node for change in changes for node in by_change[change])
        )
        taken.update(changes)
    left = {change: nodes for change, nodes in by_change.items() if change not in taken}
    return left | by_merge


def _nearest_change(links: GraphLinks, node: GraphNode) -> GraphNode | None:
    """Return the first node above that makes new keys or values, the first parent's side first."""
    for parent in links.parents(node):
        changes = parent.effect in {Effect.NEW_KEY, Effect.NEW_VALUE}
        found = parent if changes else _nearest_change(links, parent)
        if found is not None:
            return found
    return None


def _carries_records_of(links: GraphLinks, origin: GraphNode, node: GraphNode) -> bool:
    """Return whether all that a repartition gets are records of a node, as they came from there.

    Differs from Kafka, which also goes past what makes new keys or values in between.
    """
    while node in links:
        parents = links.parents(node)
        if parents == (origin,):
            return True
        if len(parents) != 1 or parents[0].effect is not Effect.SAME:
            return False
        node = parents[0]
    return False


def _top(links: GraphLinks, origin: GraphNode, node: GraphNode) -> GraphNode:
    """Return the child of a node on the way to what `_carries_records_of` it."""
    while (parent := links.parents(node)[0]) is not origin:
        node = parent
    return node


def _first(serdes: Iterable[Serde[Any] | None]) -> Serde[Any] | None:
    return next((serde for serde in serdes if serde is not None), None)


# ---------------------------------------------------------------------- self-joins


def _keep_once(links: GraphLinks, node: StreamStreamJoinNode) -> None:
    """Let a stream that is joined with itself keep its records once.

    Differs from Kafka, which does so with left and outer joins too, where records without a key
    are lost, and with windows that hold no pair of a record with itself, where it joins that pair.
    """
    windows = node.join.windows
    if node.join.left_outer or windows.before_ms < 0 or windows.after_ms < 0:
        return
    (parent,) = links.parents(node)
    for sibling in links.children(parent):
        if sibling.name == node.names.other_windowed:
            links.remove(sibling)
    links.replace(node, SelfJoinNode(node.name, node.names, node.join))
