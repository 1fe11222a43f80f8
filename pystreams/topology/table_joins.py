"""Declares a join of a stream with a table. Source: Kafka's `KStreamImpl.doStreamTableJoin`."""

# ruff: noqa: SLF001 - a join looks into its table.

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pystreams.errors import TopologyError
from pystreams.stores.kinds.buffer.kind import BUFFER
from pystreams.stores.spec import StoreSpec
from pystreams.stores.spec_builder import StoreSpecBuilder
from pystreams.topology import naming
from pystreams.topology.graph import StreamsGraph
from pystreams.topology.graph_nodes import GraceJoinNode, GraphNode, ProcessorGraphNode
from pystreams.topology.ktable import KTable
from pystreams.topology.options import Joined
from pystreams.topology.processors.grace_join import GraceJoinOperator
from pystreams.topology.processors.stream_table_join import StreamTableJoinOperator


def add_table_join(
    graph: StreamsGraph,
    stream: GraphNode,
    table: KTable[Any, Any],
    joiner: Callable[..., Any],
    joined: Joined[Any, Any, Any],
    *,
    left: bool,
    with_key: bool,
) -> GraphNode:
    """Declare a join; return its node.

    Args:
        graph: What the builder has declared.
        stream: The stream's node, behind its repartition if it needs one.
        table: The table.
        joiner: The user's function.
        joined: The user's options, with the stream's serdes filled in.
        left: Whether records without a row are joined with None.
        with_key: Whether the joiner takes the key too.

    Raises:
        TopologyError: There is a grace period, and the table is not versioned.
    """
    prefix = naming.STREAM_LEFT_JOIN if left else naming.STREAM_JOIN
    name = graph.names.node_or(joined.name, prefix)
    view = table._operator.view()
    operator = StreamTableJoinOperator(view, joiner, left=left, with_key=with_key)
    node = (
        ProcessorGraphNode(name, operator, stores=view.stores)
        if joined.grace_period_ms is None
        else _waiting_join(name, operator, table, joined, joined.grace_period_ms)
    )
    node.keeps_null_keys = left
    graph.add(node, stream)
    return node


def _waiting_join(
    name: str,
    join: StreamTableJoinOperator,
    table: KTable[Any, Any],
    joined: Joined[Any, Any, Any],
    grace_period_ms: int,
) -> GraceJoinNode:
    if not table._versioned:
        message = (
            f"join {name!r} has a grace_period_ms, and {table._node.name!r} is not a versioned "
            "table: keep its history with history_retention_ms=..., or join without grace"
        )
        raise TopologyError(message)
    buffer = f"{name}-Buffer"
    operator = GraceJoinOperator(
        join, buffer, grace_period_ms, joined.key_serde, joined.value_serde
    )
    builder = StoreSpecBuilder(StoreSpec(buffer, BUFFER))
    return GraceJoinNode(name, operator, stores=join.table.stores, buffer=builder)
