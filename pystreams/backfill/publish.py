"""Publishing as one call: `pystreams.backfill.publish(topology, config, output=...)`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from pystreams.backfill.publication import TaskResults
from pystreams.backfill.publishing import (
    Published,
    Publisher,
    PublishingSettings,
    publishing_config,
)
from pystreams.backfill.staged_publication import staged_publication
from pystreams.config import StreamsConfig
from pystreams.runtime.topics import TopicManager
from pystreams.topology.plan import TopologyPlan
from pystreams.topology.topology import Topology


def publish(
    topology: Topology,
    config: Mapping[str, object] | StreamsConfig,
    *,
    output: Path | str,
    settings: PublishingSettings | None = None,
    progress: Callable[[TaskResults, int], None] = lambda _task, _records: None,
) -> Published:
    """Publish staged results to Kafka, exactly once, and hand the group over.

    Needs no Spark. Call it again after whatever ended it: it goes on where it was.

    Args:
        topology: The topology the backfill ran.
        config: The application's configuration.
        output: The staging directory.
        settings: How; without, the state alone is published.
        progress: Told the task and the records of each transaction that was committed.

    Raises:
        StagingError: The directory is not complete.
        PublishingRefusedError: The group is in use, belongs to something else, or does not fit the
            results; or another publisher took over.
        MissingSourceTopicError: A source topic does not exist.
        BrokerNotAvailableError: No broker answered.
    """
    # Imported here: Spark's workers import this package, and talk to no broker.
    from pystreams.runtime.adapters.factory import ConfluentClients

    own = config if isinstance(config, StreamsConfig) else StreamsConfig.of(config)
    plan = TopologyPlan(topology, own.application_id)
    publication = staged_publication(Path(output), plan)
    clients = ConfluentClients(publishing_config(own))
    topics = TopicManager(
        plan,
        clients.admin(),
        own.topic_config(),
        own.windowstore_changelog_additional_retention_ms,
    )
    chosen = settings or PublishingSettings()
    return Publisher(publication, plan, topics, clients, chosen, progress).run()
