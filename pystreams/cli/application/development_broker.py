"""What `--dev` does so that a topology can be tried at once: start a broker, create topics."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from pystreams.config import StreamsConfig
    from pystreams.runtime.cluster.new_topic import NewTopic
    from pystreams.topology.graph.topology import Topology

_PARTITIONS = 4
"""Where nothing else says how many: enough to see tasks, processes and threads share them."""


def bootstrap_servers() -> str:
    """Return the address of the development broker; start it when none runs.

    Raises:
        StreamsError: It can't be started.
    """
    from pystreams.broker import BrokerRegistry, DevelopmentBroker

    broker = DevelopmentBroker.find()
    if broker is None:
        click.echo("Starting the development broker (`pystreams broker stop` ends it)", err=True)
        broker = DevelopmentBroker.start(registry=BrokerRegistry())
    return broker.bootstrap_servers


def create_missing_topics(
    topology: Topology,
    config: StreamsConfig,
    *,
    partitions: int | None = None,
    processes: int = 1,
) -> list[NewTopic]:
    """Create the topics that a topology reads or writes by name and that do not exist yet.

    All get the same number of partitions, so that they can be joined.

    Args:
        partitions: How many; None for as many as the largest source topic that exists has, else
            four, and one for each process at least.
        processes: How many processes share them.

    Returns:
        Those that were created, by name.

    Raises:
        StreamsError: A broker refuses, or none answers.
    """
    from pystreams.runtime.adapters.client_factory import ConfluentClients
    from pystreams.runtime.cluster.new_topic import NewTopic
    from pystreams.topology.plan.topology_plan import TopologyPlan

    plan = TopologyPlan(topology, config.application_id)
    sources = [*plan.source_topics(), *plan.global_topics()]
    admin = ConfluentClients(config).admin()
    existing = admin.partition_counts()
    queue = [config.dead_letter_queue] if config.dead_letter_queue else []
    missing = sorted({*sources, *plan.sink_topics(), *queue} - existing.keys())
    read = [existing[topic] for topic in sources if topic in existing]
    count = partitions or max(read, default=max(_PARTITIONS, processes))
    created = [NewTopic(topic, count, {}) for topic in missing]
    if created:
        admin.create_topics(created)
    return created
