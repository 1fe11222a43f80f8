"""Publishing as one call: `pystreams.backfill.publish(topology, config, output=...)`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from pystreams.backfill.broker_waiting import REAL_WAITING
from pystreams.backfill.plan.fingerprint import declared_configuration
from pystreams.backfill.publishing.progress import PublishingMeter, PublishingProgress
from pystreams.backfill.publishing.published_note import PublishedNote
from pystreams.backfill.publishing.publisher import (
    Published,
    Publisher,
    PublishingSettings,
    publishing_config,
)
from pystreams.backfill.publishing.staged_publication import staged_publication
from pystreams.backfill.publishing.staged_state import staged_state
from pystreams.backfill.publishing.store_seeder import StateSeeder
from pystreams.backfill.staging.results import StagedResults, kept_results
from pystreams.backfill.teller import Teller
from pystreams.config import StreamsConfig
from pystreams.kernel.clock import SystemClock
from pystreams.runtime.adapters.event_loop import EventLoop
from pystreams.runtime.adapters.state_directory import StateDirectory
from pystreams.runtime.settings import task_settings
from pystreams.runtime.topics.application_topics import TopicManager
from pystreams.topology.contracts.user_functions import checked_callback
from pystreams.topology.graph.topology import Topology
from pystreams.topology.plan.topology_plan import TopologyPlan


def publish(
    topology: Topology,
    config: Mapping[str, object] | StreamsConfig,
    *,
    output: Path | str,
    settings: PublishingSettings | None = None,
    progress: Callable[[PublishingProgress], None] = lambda _: None,
    seed_state: bool = False,
) -> Published:
    """Publish staged results to Kafka, exactly once, and hand the group over.

    Needs no Spark. Call it again after whatever ended it: it goes on where it was, and does nothing
    when all is done, also while the application runs. No backfill or rescale works in the directory
    meanwhile; of several that publish from it, one goes on.

    Args:
        settings: How; without, the state alone is published.
        progress: Called in this thread after each transaction of records, and for what an earlier
            run has published of a task. What it raises is logged, and it is not called again.
        seed_state: Whether to build the stores in `state.dir` of this host as well, so that an
            application that starts here restores nothing.

    Raises:
        TopologyError: `progress` is async, or no function of one argument.
        StagingError: The directory is not complete, or in use; or files of it go meanwhile.
        PublishingRefusedError: The group is in use, belongs to something else, or does not fit the
            results; or another publisher took over; or there is state of something else in
            `state.dir`; or the history was an archive without offsets.
        MissingSourceTopicError: A source topic does not exist.
        BrokerNotAvailableError: No broker answered.
        StateDirectoryError: `state.dir` can't be written.
        StateStoreError: A store there can't.
    """
    # Imported here: Spark's workers import this package, and talk to no broker.
    from pystreams.runtime.adapters.client_factory import ConfluentClients

    checked_callback(progress, "publish: progress", ("publishing_progress",))
    own = config if isinstance(config, StreamsConfig) else StreamsConfig.of(config)
    plan = TopologyPlan(topology, own.application_id)
    chosen = settings or PublishingSettings()
    waiting = replace(REAL_WAITING, transaction_timeout_ms=own.transaction_timeout_ms)
    clients = ConfluentClients(publishing_config(own))
    additional_ms = own.windowstore_changelog_additional_retention_ms
    topics = TopicManager(plan, clients.admin(), own.topic_config(), additional_ms)
    with kept_results(Path(output)) as results:
        publication = staged_publication(
            results, plan, declared_configuration(own), with_outputs=chosen.with_outputs
        )
        of_records = _records_to_publish(results, plan, with_outputs=chosen.with_outputs)
        meter = PublishingMeter(of_records, Teller(progress), SystemClock())
        publisher = Publisher(publication, plan, topics, clients, chosen, meter.published, waiting)
        note = PublishedNote(results.path, publication, plan, clients.admin(), waiting)
        if not seed_state:
            return publisher.run(note=note)
        of_tasks = task_settings(
            own, num_partitions=topics.num_partitions, async_calls=EventLoop().calls
        )
        environment = of_tasks.stores.environment
        directory = StateDirectory(own.state_dir, own.application_id)
        try:
            state = staged_state(results)
            seeder = StateSeeder(publication, plan, state, environment, directory)
            return publisher.run(seeder, note)
        finally:
            directory.close()


def _records_to_publish(results: StagedResults, plan: TopologyPlan, *, with_outputs: bool) -> int:
    """Return how many records of staged results are published."""
    stages = results.manifest.stages
    state = sum(sum(stage.state.values()) for stage in stages)
    if not with_outputs:
        return state
    internal = plan.repartition_topics()
    return state + sum(
        records
        for stage in stages
        for topic, records in stage.outputs.items()
        if topic not in internal
    )
