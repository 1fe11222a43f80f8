"""With which serdes a topology reads and writes a topic."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from pystreams.errors import StreamsError, how_to_create
from pystreams.serdes import BYTES, Serde, filled, filled_value

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
    admin = ConfluentClients(config).admin()
    counts = admin.partition_counts()
    if topic not in counts:
        raise StreamsError(
            f"topic {topic!r} does not exist at {config.bootstrap_servers}: "
            f"{how_to_create([topic], admin.reached_with)}; `pystreams run --dev` creates those it "
            "needs"
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
    found = plan.serdes_of_topic(topic)
    if found is not None:
        return filled_serdes(found, config)
    names = (plan.source_topics(), plan.global_topics(), plan.sink_topics())
    known = sorted({*chain(*names), *plan.repartition_topics()})
    patterns = [f"those that match {pattern.pattern}" for pattern in plan.source_patterns()]
    raise click.UsageError(
        f"the topology neither reads nor writes a topic {topic!r}: its topics are "
        f"{', '.join([*known, *patterns])}"
    )


def filled_serdes(
    declared: tuple[Serde[Any] | None, Serde[Any] | None], config: StreamsConfig
) -> TopicSerdes:
    """Return the serdes of keys and values that a node uses, given those it declares."""
    key, value = declared
    return TopicSerdes(
        filled(key, config.default_key_serde) or BYTES,
        filled_value(value, config.default_value_serde, config.default_key_serde) or BYTES,
    )
