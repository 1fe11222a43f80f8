"""The topics of an application: checked and created at start, counted again when they grow."""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping, Sequence
from collections.abc import Set as AbstractSet

from pystreams.errors import (
    BrokerNotAvailableError,
    FatalStreamsError,
    MissingSourceTopicError,
    RetriableClientError,
    StreamsError,
    how_to_create,
)
from pystreams.ids import TopicPartition, firsts_of
from pystreams.kernel.clock import Clock
from pystreams.kernel.loggers import get_logger
from pystreams.runtime.cluster.internal_topics import (
    check_cleanup_policies,
    check_existing_topics,
    internal_topics,
)
from pystreams.runtime.cluster.new_topic import NewTopic
from pystreams.runtime.ports import AdminPort
from pystreams.topology.plan.partition_plan import PartitionPlan, plan_partitions, topics_of
from pystreams.topology.plan.topology_plan import TopologyPlan

_CREATES_TOPICS = "auto.create.topics.enable"
_log = get_logger("pystreams.topics")

_PATIENCE_S = 150.0
_RETRY_AFTER_S = 0.5
_FIRST_PATIENCE_S = 2.0
_LONGEST_PATIENCE_S = 15.0


class TopicManager:
    """Knows the partition counts of an application's topics; shared by its threads.

    Args:
        topic_config: The configuration's settings for all internal topics.
        additional_retention_ms: `windowstore.changelog.additional.retention.ms`.
        dead_letter_queue: The queue's topic, which is needed in any case; None without one, or
            where a function chooses it.
        needs_sinks: Whether an output topic that nobody will create is an error at the start, and
            not a warning.
    """

    def __init__(
        self,
        plan: TopologyPlan,
        admin: AdminPort,
        topic_config: Mapping[str, str],
        additional_retention_ms: int,
        *,
        dead_letter_queue: str | None = None,
        needs_sinks: bool = False,
    ) -> None:
        self._plan = plan
        self._dead_letter_queue = dead_letter_queue
        self._needs_sinks = needs_sinks
        self._admin = admin
        self._topic_config = topic_config
        self._additional_retention_ms = additional_retention_ms
        self._policies_checked = False
        self._lock = threading.Lock()
        self._partitions = PartitionPlan({}, {})
        # Those that are only written, as far as they were seen or asked for.
        self._outputs: dict[str, int] = {}
        self._patience_s = _FIRST_PATIENCE_S
        self.global_counts: Mapping[str, int] = {}

    def prepare(self, assigned: Collection[TopicPartition] = ()) -> PartitionPlan:
        """Check source topics and create internal ones.

        Args:
            assigned: Partitions that the group has given out: the brokers must show them soon.

        Raises:
            MissingSourceTopicError: A source topic does not exist.
            TopologyError: Partition counts don't fit: co-partitioning, or an internal topic that
                exists with another count.
            ConfigError: `topic.cleanup.policy`, or a store's, does not do for an internal topic.
            FatalStreamsError: The cleanup policy of an internal topic that exists does not.
            BrokerNotAvailableError: No broker answered.
            FatalStreamsError: An output topic does not exist, and is needed.
        """
        sources = [*self._plan.source_topics(), *self._plan.global_topics()]
        existing = self._ask([*firsts_of(sources), *assigned])
        missing = [topic for topic in sources if topic not in existing]
        if missing:
            raise MissingSourceTopicError(missing, self._admin.reached_with)
        self._check_sinks(existing)
        partitions = plan_partitions(self._plan, existing)
        wanted = self._internal_topics(partitions)
        check_existing_topics(wanted, existing)
        if not self._policies_checked:
            self._check_cleanup_policies(wanted, existing)
        new = [topic for topic in wanted if topic.name not in existing]
        if new:
            missed = self._were_there({topic.name for topic in new})
            self._admin.create_topics(new)
            # Another application, or another version of this one, may have been first.
            check_existing_topics(new, self._admin.partition_counts())
            _tell_created({topic.name for topic in new}, missed)
        with self._lock:
            gone = self._found_by_patterns(self._partitions) - existing.keys()
            self._partitions = partitions
            self.global_counts = {topic: existing[topic] for topic in self._plan.global_topics()}
            outputs = existing.keys() & {*self._plan.sink_topics(), *self._outputs}
            self._outputs = {topic: existing[topic] for topic in outputs}
        if gone:
            _log.info("topics that a pattern has found are gone", topics=sorted(gone))
        return partitions

    def prepare_at_start(self, stop: threading.Event, clock: Clock) -> PartitionPlan:
        """Do as `prepare`, again and again while brokers answer that it can't be done yet.

        Kafka Streams goes on for as long, which is half of its `max.poll.interval.ms`.

        Raises:
            RetriableClientError: It could not be done in that time, or before the stop.
            StreamsError: As `prepare`.
        """
        began_ms, told = clock.monotonic_ms(), False
        while True:
            try:
                return self.prepare()
            except RetriableClientError as error:
                waited_s = (clock.monotonic_ms() - began_ms) / 1000
                if waited_s >= _PATIENCE_S:
                    raise RetriableClientError(
                        f"topics could not be made ready in {waited_s:.0f} s: {error}. See what "
                        "keeps the brokers from it (their log, `kafka-topics.sh --describe`), and "
                        "start again"
                    ) from error
                if not told:
                    told = True
                    _log.warning("topics are not ready yet, trying on", why=str(error))
                if stop.wait(_RETRY_AFTER_S):
                    raise

    def internal_settings(self) -> dict[str, Mapping[str, str]]:
        """Return the settings with which internal topics are made, by topic; after `prepare`.

        A topic that was there before may have others.
        """
        with self._lock:
            partitions = self._partitions
        return {topic.name: topic.config for topic in self._internal_topics(partitions)}

    def _internal_topics(self, partitions: PartitionPlan) -> list[NewTopic]:
        return internal_topics(
            self._plan, partitions, self._topic_config, self._additional_retention_ms
        )

    def _found_by_patterns(self, partitions: PartitionPlan) -> set[str]:
        by_pattern = [source for source in self._plan.sources() if source.pattern is not None]
        return set(topics_of(self._plan, by_pattern, partitions.num_partitions))

    def _were_there(self, topics: Collection[str]) -> set[str]:
        """Return those topics that must have held something: what they are made of has been read.

        Their own offsets tell nothing: Kafka deletes them together with a topic.
        """
        try:
            committed = self._admin.committed_offsets(self._plan.application_id)
        except StreamsError as error:
            _log.debug("the group's offsets can't be read", why=str(error))
            return set()
        read = {partition.topic for partition, offset in committed.items() if offset.next_offset}
        reached = (self._plan.internal_topics_reached_from(topic) for topic in read)
        return set().union(*reached).intersection(topics)

    def _check_cleanup_policies(
        self, wanted: Sequence[NewTopic], existing: Mapping[str, int]
    ) -> None:
        """Check those that exist and may be described; without an answer, another time."""
        there = [topic.name for topic in wanted if topic.name in existing]
        try:
            described = self._admin.topic_settings(there) if there else {}
        except RetriableClientError as error:
            _log.debug("internal topics can't be described", why=str(error))
            return
        policies = {
            topic: frozenset(settings["cleanup.policy"].replace(" ", "").split(",")) - {""}
            for topic, settings in described.items()
            if "cleanup.policy" in settings
        }
        check_cleanup_policies(wanted, policies)
        self._policies_checked = True

    def _check_sinks(self, existing: Mapping[str, int]) -> None:
        queue = self._dead_letter_queue
        wanted = dict.fromkeys([*self._plan.sink_topics(), *([queue] if queue else [])])
        missing = [topic for topic in wanted if topic not in existing]
        with self._lock:
            starting = not self._partitions.num_tasks
        if not missing:
            return
        needed = [topic for topic in missing if self._needs_sinks or topic == queue]
        if needed and starting:
            self._admin.topic_ids(needed)  # Raises for one that is there and may not be seen.
        if needed and starting and not self._may_be_created():
            shown = self._admin.partition_counts(awaited=firsts_of(needed))
            if lasting := [topic for topic in needed if topic not in shown]:
                names = ", ".join(map(repr, lasting))
                place = "the topology"
                if queue in lasting:
                    place = "errors.dead.letter.queue.topic.name, or in the topology"
                create = how_to_create(lasting, self._admin.reached_with)
                raise FatalStreamsError(
                    f"output topic {names} does not exist on the broker, which creates none by "
                    f"itself: correct its name in {place}, or {create}, and "
                    "start again"
                )
            missing = [topic for topic in missing if topic not in needed]
            if not missing:
                return
        _log.warning(
            "output topics do not exist yet: a broker that does not create topics by itself "
            "will refuse their first record",
            topics=missing,
        )

    def _may_be_created(self) -> bool:
        """Return whether brokers create topics by themselves, as far as they answer."""
        return {*self._admin.broker_setting(_CREATES_TOPICS)} - {None} != {"false"}

    def partition_counts(self, assigned: Collection[TopicPartition] = ()) -> Mapping[str, int]:
        """Return partition counts of source and repartition topics by real name.

        Args:
            assigned: Partitions the caller was given; when one is unknown, the broker is asked.
        """
        with self._lock:
            counts = self._partitions.num_partitions
        if all(part.partition < counts.get(part.topic, 0) for part in assigned):
            return counts
        return self.prepare(assigned).num_partitions

    def num_partitions_of_store(self, store: str) -> int:
        """Return how many partitions a state store has, over all instances."""
        part = self._plan.subtopology_of_store(store)
        return 0 if part is None else self.num_tasks(part.id)

    def num_tasks(self, subtopology: int) -> int:
        """Return how many tasks a sub-topology has, over all instances."""
        # Without the lock, as queries ask: the plan is replaced, never changed.
        return self._partitions.num_tasks[subtopology]

    def num_partitions(self, topic: str) -> int:
        """Return the partition count of a topic to write to, asking the broker if not known.

        Raises:
            RetriableClientError: No broker tells.
            FatalStreamsError: There is no such topic.
        """
        # Without the lock, as sinks ask once a record: the plan is replaced, never changed.
        known = self._partitions.num_partitions.get(topic) or self._outputs.get(topic)
        if known is not None:
            return known
        try:
            counts = self._ask(firsts_of([topic]))
        except BrokerNotAvailableError as error:
            message = f"how many partitions output topic {topic!r} has is not known: {error}"
            raise RetriableClientError(message) from error
        if topic not in counts:
            raise FatalStreamsError(
                f"output topic {topic!r} does not exist on the broker, and its sink's partitioner "
                "has to know how many partitions it has: correct its name in the topology, or "
                f"{how_to_create([topic], self._admin.reached_with)}, and start again"
            )
        with self._lock:
            self._outputs[topic] = counts[topic]
        return counts[topic]

    def _ask(self, awaited: Collection[TopicPartition]) -> dict[str, int]:
        """Ask how many partitions there are of all topics.

        Later than at the start a loop stands still meanwhile: it waits for a moment only, and for
        twice as long each time that no broker answers.
        """
        if not self._partitions.num_tasks:
            return self._admin.partition_counts(awaited)
        patience_s = self._patience_s
        try:
            counts = self._admin.partition_counts(awaited, patience_s)
        except BrokerNotAvailableError:
            self._patience_s = min(2 * patience_s, _LONGEST_PATIENCE_S)
            raise
        self._patience_s = _FIRST_PATIENCE_S
        return counts


def _tell_created(created: AbstractSet[str], missed: AbstractSet[str]) -> None:
    if first := created - missed:
        _log.info("internal topics created", topics=sorted(first))
    if missed:
        _log.warning(
            "internal topics were missing and are made anew: what they held, if anything, is lost",
            topics=sorted(missed),
            reason="the group has read the input they are made of: either they were deleted, or "
            "they are new in the topology and hold what comes from now on",
            cure="if they were deleted: to have the records in them that were not processed, and "
            "the state of changelogs whose store is not here either, process all input again "
            "after `pystreams reset`",
        )
