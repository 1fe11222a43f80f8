"""Declares a join of two streams; `stream_join_nodes` has its nodes, stores and names.

Source: Kafka Streams' `KStreamImplJoin`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from pystreams.errors import TopologyError
from pystreams.topology.contracts.user_functions import of_key_and_values, with_or_without_key
from pystreams.topology.declarations.declared_stream import DeclaredStream
from pystreams.topology.declarations.graph_writing.stream_join_nodes import (
    JoinNames,
    StreamJoin,
    StreamStreamJoinNode,
)
from pystreams.topology.declarations.joins.join_call import JoinCall
from pystreams.topology.declarations.kept_serdes import kept_serde
from pystreams.topology.declarations.logical_graph.graph_nodes import ProcessorGraphNode
from pystreams.topology.operators.joins.stream_stream_join import JoinWindowOperator
from pystreams.topology.options.given_options import options_of
from pystreams.topology.options.join_windows import JoinWindows
from pystreams.topology.options.stream_joined import StreamJoined


def join_streams(left: DeclaredStream, right: DeclaredStream, call: JoinCall) -> DeclaredStream:
    """Declare a join of two streams, which may be the same; return its results.

    Raises:
        TopologyError: The call does not fit two streams, or they come from different builders.
    """
    windows = call.windows
    if not isinstance(windows, JoinWindows):
        raise TopologyError(
            f"{call.kind} of two streams needs windows, such as "
            f"JoinWindows.of_time_difference_with_no_grace(60_000), not {windows!r}"
        )
    left.graph.check_same_builder(left.node, right.graph, right.node, call.kind)
    with_or_without_key(call.joiner, call.kind, ("value", "other_value"), with_key=call.with_key)
    chosen: StreamJoined[Any, Any, Any] = options_of(
        StreamJoined, call.joined, call.options, call.kind
    )
    chosen.check_suppliers(windows)
    if call.kind == "join" and chosen.idle_timeout_ms is not None:
        raise TopologyError(
            "join of two streams has an idle_timeout_ms: it joins each pair at once, and waits for "
            "nothing; leave idle_timeout_ms out"
        )
    # Differs from Kafka: serdes that are left open are the streams', not the defaults.
    joined = replace(
        chosen,
        key_serde=chosen.key_serde or left.key_serde or right.key_serde,
        value_serde=chosen.value_serde or left.value_serde,
        other_value_serde=chosen.other_value_serde or right.value_serde,
    )
    name = joined.name
    this = left.copartitioned(name and f"{name}-left", joined.key_serde, joined.value_serde)
    that = right.copartitioned(name and f"{name}-right", joined.key_serde, joined.other_value_serde)
    join = StreamJoin(
        windows,
        of_key_and_values(call.joiner, with_key=call.with_key),
        left_outer=call.kind != "join",
        right_outer=call.kind == "outer_join",
        joined=joined,
        idle_timeout_ms=(
            None if call.kind == "join" else left.graph.idle_timeout_of(joined.idle_timeout_ms)
        ),
    )
    graph, names = left.graph, JoinNames.of(join, left.graph.names)
    silence_of = None if join.idle_timeout_ms is None else names.held_back
    for windowed, store, stream in (
        (names.this_windowed, names.this_store, this),
        (names.other_windowed, names.other_store, that),
    ):
        window = JoinWindowOperator(store, silence_of, windows.grace_period_ms)
        graph.add(ProcessorGraphNode(windowed, window), stream.node)
    keeps_null_keys = join.left_outer or join.right_outer
    node = StreamStreamJoinNode(names.merge, names, join, keeps_null_keys=keeps_null_keys)
    graph.add(node, this.node, that.node)
    sources = this.sources | that.sources
    graph.require_copartition(sources, node.name)
    value_serde = kept_serde(call.joiner, joined.value_serde, joined.other_value_serde)
    return DeclaredStream(graph, node, sources, joined.key_serde, value_serde)
