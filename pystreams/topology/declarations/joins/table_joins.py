"""Declares a join of a stream with a table. Source: Kafka's `KStreamImpl.doStreamTableJoin`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from pystreams.errors import TopologyError
from pystreams.stores.contracts.spec import StoreSpec
from pystreams.stores.kinds.buffer.kind import BUFFER
from pystreams.stores.spec_builder import StoreSpecBuilder
from pystreams.topology.contracts.user_functions import with_or_without_key
from pystreams.topology.declarations.declared_stream import DeclaredStream
from pystreams.topology.declarations.joins.join_call import JoinCall
from pystreams.topology.declarations.kept_serdes import kept_serde
from pystreams.topology.declarations.logical_graph.graph_node import (
    GraphNode,
    TableNeed,
    TableNode,
    Wanted,
)
from pystreams.topology.declarations.logical_graph.graph_nodes import (
    GraceJoinNode,
    ProcessorGraphNode,
)
from pystreams.topology.declarations.tables.declared_table import DeclaredTable
from pystreams.topology.graph import naming
from pystreams.topology.operators.joins.grace_join import GraceJoinOperator
from pystreams.topology.operators.joins.stream_table_join import StreamTableJoinOperator
from pystreams.topology.options.given_options import options_of
from pystreams.topology.options.operation_options import Joined


def join_table(stream: DeclaredStream, table: DeclaredTable, call: JoinCall) -> DeclaredStream:
    """Declare a join; return its results.

    Raises:
        TopologyError: The call does not fit a table, the two come from different builders, or
            there is a grace period and the table is not versioned.
    """
    if call.windows is not None:
        raise TopologyError(
            f"{call.kind} with the table {table.node.name!r} has no windows: a record meets the "
            "row there is when it arrives; leave windows out"
        )
    # Differs from Kafka: a key serde that nobody has told is the table's, not the default.
    joined = options_of(Joined, call.joined, call.options, call.kind)
    with_or_without_key(call.joiner, call.kind, ("value", "row"), with_key=call.with_key)
    stream.graph.check_same_builder(stream.node, table.graph, table.node, "join")
    joined = replace(
        joined,
        key_serde=joined.key_serde or stream.key_serde or table.key_serde,
        value_serde=joined.value_serde or stream.value_serde,
    )
    stream = stream.copartitioned(joined.name, joined.key_serde, joined.value_serde)
    node = _join_node(stream, table.node, joined, call)
    other_serde = joined.other_value_serde or table.value_serde
    value_serde = kept_serde(call.joiner, joined.value_serde, other_serde)
    joined_stream = stream.followed_by(node, joined.key_serde, value_serde)
    sources = stream.sources | table.sources
    stream.graph.require_copartition(sources, node.name)
    return replace(joined_stream, sources=sources)


def _join_node(
    stream: DeclaredStream, table: TableNode, joined: Joined[Any, Any, Any], call: JoinCall
) -> GraphNode:
    left = call.kind == "left_join"
    prefix = naming.STREAM_LEFT_JOIN if left else naming.STREAM_JOIN
    name = stream.graph.names.node_or(joined.name, prefix)
    view = table.view()
    join = StreamTableJoinOperator(view, call.joiner, left=left, with_key=call.with_key)
    needs = (TableNeed(table, Wanted.LOOKUP),)
    if joined.grace_period_ms is None:
        if joined.idle_timeout_ms is not None:
            raise TopologyError(
                f"join {name!r} has an idle_timeout_ms and no grace_period_ms: it waits for "
                "nothing; leave idle_timeout_ms out"
            )
        return ProcessorGraphNode(
            name, join, looks_into=view.stores, keeps_null_keys=left, needs=needs
        )
    if not table.versioned:
        raise TopologyError(
            f"join {name!r} has a grace_period_ms, and {table.name!r} is not a versioned "
            "table: keep its history with history_retention_ms=..., or join without grace"
        )
    buffer = stream.graph.names.made_of(name, f"{name}-Buffer")
    operator = GraceJoinOperator(
        join,
        buffer,
        joined.grace_period_ms,
        joined.key_serde,
        joined.value_serde,
        stream.graph.idle_timeout_of(joined.idle_timeout_ms),
    )
    builder = StoreSpecBuilder(StoreSpec(buffer, BUFFER))
    return GraceJoinNode(name, operator, view.stores, builder, keeps_null_keys=left, needs=needs)
