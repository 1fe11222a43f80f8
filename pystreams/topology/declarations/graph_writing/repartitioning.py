"""Names of what a repartition consists of. Source: `KStreamImpl.createRepartitionedSource`."""

from __future__ import annotations

from typing import Any

from pystreams.topology.declarations.logical_graph.graph_nodes import RepartitionNode
from pystreams.topology.graph.naming import (
    GENERATED_STREAM_NAME,
    REPARTITION_SUFFIX,
    STREAM_FILTER,
    STREAM_SINK,
    STREAM_SOURCE,
    NameCounter,
)
from pystreams.topology.options.operation_options import Repartitioned


def new_repartition(
    names: NameCounter,
    topic_prefix: str,
    options: Repartitioned[Any, Any],
    *,
    mergeable: bool = True,
) -> RepartitionNode:
    """Return the node of a repartition; three numbers are used up, whatever its name is.

    Args:
        topic_prefix: The topic's name without `-repartition`. When it is generated, sink, filter
            and source have numbers; else they are named after the topic.
        options: Serdes, partitioner, number of partitions; the name in it is not looked at.
        mergeable: See `RepartitionNode`.
    """
    topic = topic_prefix
    if not topic.endswith(REPARTITION_SUFFIX):
        topic = names.made_of(topic_prefix, topic + REPARTITION_SUFFIX)
    sink = names.node(STREAM_SINK)
    null_key_filter = names.node(STREAM_FILTER)
    source = names.node(STREAM_SOURCE)
    if not GENERATED_STREAM_NAME.fullmatch(topic_prefix):
        sink, null_key_filter, source = f"{topic}-sink", f"{topic}-filter", f"{topic}-source"
    return RepartitionNode(
        source,
        topic=topic,
        filter_name=null_key_filter,
        sink_name=sink,
        key_serde=options.key_serde,
        value_serde=options.value_serde,
        partitioner=options.partitioner,
        num_partitions=options.num_partitions,
        mergeable=mergeable,
    )
