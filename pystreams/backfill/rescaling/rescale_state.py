"""State of a stopped application, moved to other partition counts, as one call.

    check --> staging directory (Spark) --> publishing to a new application.id, exactly once

The old application's topics and offsets stay as they are: until the new one has run, the way back
is to start the old one, with topics of the old partition counts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from pystreams.backfill.broker_waiting import REAL_WAITING, Waiting
from pystreams.backfill.plan.identity import BackfillIdentity
from pystreams.backfill.plan.partition_bounds import PartitionBounds
from pystreams.backfill.publishing.broker_checks import own_offsets, refuse_used_group
from pystreams.backfill.publishing.hand_over import is_handed_over_with
from pystreams.backfill.publishing.publication import (
    PartitionHistory,
    Publication,
    PublishingCommand,
)
from pystreams.backfill.publishing.published_note import PublishedNote
from pystreams.backfill.publishing.publisher import (
    Published,
    Publisher,
    PublishingSettings,
    publishing_config,
)
from pystreams.backfill.publishing.staged_publication import staged_publication
from pystreams.backfill.rescaling.checks import OldGroup, RescaleChecks
from pystreams.backfill.rescaling.move_plan import MovePlan, RescaleRefusedError, begins, plan_move
from pystreams.backfill.rescaling.settings import RescaleSettings
from pystreams.backfill.rescaling.state_staging import Staging
from pystreams.backfill.sources.kafka_source import KafkaSource
from pystreams.backfill.spark.connector_jars import kafka_session
from pystreams.backfill.spark.session import require_pyspark
from pystreams.backfill.spark.shared_paths import local_path
from pystreams.backfill.staging.directory import StagingDirectory, begun_identity
from pystreams.backfill.staging.results import StagedResults, kept_results
from pystreams.config import StreamsConfig
from pystreams.errors import ConfigError
from pystreams.ids import TopicPartition
from pystreams.kernel.clock import SystemClock
from pystreams.runtime.ports import ClientFactory
from pystreams.runtime.topics.application_topics import TopicManager
from pystreams.topology.graph.topology import Topology
from pystreams.topology.plan.topology_plan import TopologyPlan


@dataclass(frozen=True, slots=True)
class PlannedMove:
    """A move that may be done.

    Attributes:
        begins: Where the new application begins to read, and with what time.
    """

    plan: MovePlan
    begins: Mapping[TopicPartition, PartitionHistory]


def rescale(
    topology: Topology,
    config: Mapping[str, object] | StreamsConfig,
    settings: RescaleSettings,
    *,
    master: str | None = None,
    spark_conf: Mapping[str, str] | None = None,
) -> Published:
    """Move a stopped application's state to the partition counts that its topics have now.

    The state goes to another application.id, which goes on at the committed offsets of the old
    one. Call it again after whatever ended it: it goes on where it was.

    Args:
        topology: The topology, as both applications run it.
        config: The old application's configuration.
        master: Spark's master; see `session.spark_session`.
        spark_conf: More of Spark's configuration.

    Raises:
        RescaleRefusedError: The application runs, or has not processed what it must have; or its
            state can't be moved by its keys. Nothing is changed.
        PublishingRefusedError: The new application has run, or another publisher took over.
        MissingChangelogError: A changelog topic does not exist.
        TopologyError: Partition counts do not fit the topology.
        StagingError: The directory holds something else, or another process uses it.
        ConfigError: Spark's Kafka reader can't reach brokers as the configuration says.
        SparkNotAvailableError: pyspark or Java is missing.
        BrokerNotAvailableError: No broker answered.
    """
    # Imported here: Spark's workers import this package, and talk to no broker.
    from pystreams.runtime.adapters.client_factory import ConfluentClients

    require_pyspark()
    old = config if isinstance(config, StreamsConfig) else StreamsConfig.of(config)
    new = publishing_config(replace(old, application_id=settings.to_application_id))
    clients = ConfluentClients(publishing_config(old))
    directory = StagingDirectory(local_path(settings.output))
    with directory.held():
        move = planned_move(topology, old, settings, clients)
        identity = _identity(move)
        if begun_identity(directory.path) is None and _moved_before(move, identity, clients):
            return Published(0, 0, resumed=False, was_done=True)
        started_ms = directory.begin(identity, SystemClock().now_ms())
        if not (directory.path / "manifest.json").is_file():
            servers, admin = old.bootstrap_servers, clients.admin()
            source = KafkaSource(servers, admin, options=settings.options, config=old)
            source.connector_options()
            staging = Staging(move.plan, move.begins, source, directory, identity, started_ms)
            with kafka_session(master, spark_conf) as spark:
                staging.run(spark)
    plan = move.plan.new
    waiting = replace(REAL_WAITING, transaction_timeout_ms=new.transaction_timeout_ms)
    new_clients = ConfluentClients(new)
    additional_ms = new.windowstore_changelog_additional_retention_ms
    topics = TopicManager(plan, new_clients.admin(), new.topic_config(), additional_ms)
    with kept_results(directory.path) as results:
        publication = rescaled_publication(results, plan)
        how = PublishingSettings()
        publisher = Publisher(publication, plan, topics, new_clients, how, waiting=waiting)
        note = PublishedNote(results.path, publication, plan, new_clients.admin(), waiting)
        return publisher.run(note=note)


def _moved_before(move: PlannedMove, identity: BackfillIdentity, clients: ClientFactory) -> bool:
    """Return whether this very move was done, and its staged state is not here any more.

    Raises:
        PublishingRefusedError: The new application's group is not free.
    """
    plan, admin = move.plan.new, clients.admin()
    if is_handed_over_with(identity.fingerprint, own_offsets(plan, admin, REAL_WAITING)):
        return True
    command = PublishingCommand.RESCALE
    refuse_used_group(plan, admin, REAL_WAITING, with_outputs=False, command=command)
    return False


def rescaled_publication(results: StagedResults, plan: TopologyPlan) -> Publication:
    """Return the staged results of a rescale as what is published.

    The user's own topics in the middle are read on from where the old application was.

    Raises:
        StagingError: A file is damaged or gone.
        PublishingRefusedError: They are of another application or another topology.
    """
    return replace(
        staged_publication(results, plan, with_outputs=False),
        edge_topics=frozenset(plan.repartition_topics()),
        command=PublishingCommand.RESCALE,
    )


def planned_move(
    topology: Topology,
    config: StreamsConfig,
    settings: RescaleSettings,
    clients: ClientFactory,
    *,
    is_rehearsal: bool = False,
    waiting: Waiting = REAL_WAITING,
) -> PlannedMove:
    """Return what is to be moved, after all checks that can be made before; change nothing.

    Args:
        config: The old application's configuration.
        settings: Where the state goes. What has been begun there is not checked again for records
            that wait: those have come since.
        clients: Makes clients of the old application; of `publisher.publishing_config`.
        is_rehearsal: Take the partition counts of `settings` for the topics' own.

    Raises:
        RescaleRefusedError: It may not be done now, or not at all.
        MissingChangelogError: A changelog topic does not exist.
        TopologyError: Partition counts do not fit the topology.
    """
    if settings.to_application_id == config.application_id:
        raise ConfigError(
            f"the state is to move from {config.application_id!r} to itself: choose another "
            "application.id for the new application, so that the old one's topics stay as they are"
        )
    admin = clients.admin()
    counts = admin.partition_counts()
    _check_counts(counts, settings, is_rehearsal=is_rehearsal)
    old = TopologyPlan(topology, config.application_id)
    new = TopologyPlan(topology, settings.to_application_id)
    plan = plan_move(old, new, {**counts, **settings.num_partitions})
    checks = RescaleChecks(plan, admin, waiting, settings.created_again)
    checks.check_stopped()
    group = _old_group(plan, counts, clients, waiting)
    checks.check_group(group)
    checks.check_changelogs()
    if begun_identity(local_path(settings.output)) is None:
        reader = clients.restore_consumer(f"{config.application_id}-rescale-reader")
        try:
            checks.check_all_processed(group, reader)
            checks.check_source_changelogs(group, reader)
        finally:
            reader.close()
    beginnings = {partition: held.beginning for partition, held in group.ranges.items()}
    return PlannedMove(plan, begins(plan, group.committed, beginnings, settings.created_again))


def _check_counts(
    counts: Mapping[str, int], settings: RescaleSettings, *, is_rehearsal: bool
) -> None:
    missing = sorted((settings.num_partitions.keys() | settings.created_again) - counts.keys())
    if missing:
        raise RescaleRefusedError(
            f"there is no topic {missing[0]!r}: correct its name, or create it"
        )
    for topic, wanted in sorted(settings.num_partitions.items()):
        if counts[topic] != wanted and not is_rehearsal:
            raise RescaleRefusedError(
                f"topic {topic!r} has {counts[topic]} partitions, and is to have {wanted}: give it "
                "so many first (kafka-topics --alter --partitions)"
            )


def _old_group(
    plan: MovePlan, counts: Mapping[str, int], clients: ClientFactory, waiting: Waiting
) -> OldGroup:
    sources = [
        source for source in plan.sources() if source.partition < counts.get(source.topic, 0)
    ]
    admin = clients.admin()
    consumer = clients.consumer(f"{plan.old.application_id}-rescale", "")
    try:
        committed = waiting.until_answered(lambda: consumer.committed(sources))
        ranges = waiting.until_answered(lambda: admin.offset_ranges(sources))
    finally:
        consumer.close()
    return OldGroup(committed, ranges)


def _identity(move: PlannedMove) -> BackfillIdentity:
    """Return what is staged: what came of all that was read before these offsets."""
    partitions = move.plan.partitions
    internal = move.plan.new.repartition_topics()
    bounds = {
        partition: PartitionBounds(begin.next_offset, begin.next_offset, 0)
        for partition, begin in move.begins.items()
        if partition.topic not in internal
    }
    return BackfillIdentity.of(
        move.plan.new, partitions.num_partitions, partitions.num_tasks, bounds
    )
