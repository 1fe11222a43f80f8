"""With which serdes a topology reads and writes a topic."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from pystreams.errors import StreamsError
from pystreams.serdes import BYTES, Serde, filled
from pystreams.topology.graph.nodes import SinkNode

if TYPE_CHECKING:
    from pystreams.config import StreamsConfig
    from pystreams.topology.plan.topology_plan import TopologyPlan


class TopicSerdes(NamedTuple):
    """The serdes of a topic's records."""

    key: Serde[Any]
    value: Serde[Any]


class TopologyTopic(NamedTuple):
    """A topic that a topology reads or writes, and that exists."""

    name: str
    num_partitions: int
    serdes: TopicSerdes


def checked_topic(plan: TopologyPlan, config: StreamsConfig, topic: str) -> TopologyTopic:
    """Return what is known of a topic of a topology.

    Raises:
        UsageError: The topology has no such topic.
        StreamsError: It does not exist, or no broker answers.
    """
    from pystreams.runtime.adapters.client_factory import ConfluentClients

    serdes = serdes_of_topic(plan, config, topic)
    counts = ConfluentClients(config).admin().partition_counts()
    if topic not in counts:
        raise StreamsError(
            f"topic {topic!r} does not exist at {config.bootstrap_servers}: create it with "
            f"`pystreams topics create {topic}`; `pystreams run --dev` creates those it needs"
        )
    return TopologyTopic(topic, counts[topic], serdes)


def serdes_of_topic(plan: TopologyPlan, config: StreamsConfig, topic: str) -> TopicSerdes:
    """Return the serdes of a topic that a topology reads or writes.

    Args:
        config: Its default serdes stand in where an operation has none of its own.
        topic: The topic, a repartition topic by its real name.

    Raises:
        UsageError: The topology has no such topic; names those it has.
    """
    for key_serde, value_serde in _found(plan, topic):
        return TopicSerdes(
            filled(key_serde, config.default_key_serde) or BYTES,
            filled(value_serde, config.default_value_serde) or BYTES,
        )
    known = sorted({*plan.source_topics(), *plan.sink_topics(), *plan.repartition_topics()})
    patterns = [f"those that match {pattern.pattern}" for pattern in plan.source_patterns()]
    raise click.UsageError(
        f"the topology neither reads nor writes a topic {topic!r}: its topics are "
        f"{', '.join([*known, *patterns])}"
    )


def _found(plan: TopologyPlan, topic: str) -> Iterator[tuple[Serde[Any] | None, Serde[Any] | None]]:
    """Give the serdes of the source that reads a topic, and of the sinks that write to it."""
    source = plan.source_of_topic(topic)
    if source is not None:
        yield source.key_serde, source.value_serde
    sinks = (node for node in plan.topology.nodes.values() if isinstance(node, SinkNode))
    for sink in sinks:
        if isinstance(sink.topic, str) and plan.topic_name(sink.topic) == topic:
            yield sink.key_serde, sink.value_serde
