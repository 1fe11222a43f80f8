"""The admin port of one simulated process."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import Future

from pystreams.errors import BrokerNotAvailableError, RetriableClientError, StreamsError
from pystreams.ids import TopicPartition
from pystreams.runtime.cluster.committed_offsets import CommittedOffset, OffsetRange
from pystreams.runtime.cluster.group_description import GroupDescription
from pystreams.runtime.cluster.new_topic import NewTopic
from pystreams.testing.simulation.broker import SimulatedBroker
from pystreams.testing.simulation.faults import Lifeline


class SimulatedAdmin:
    """Implements `AdminPort`."""

    reached_with = "-c bootstrap.servers=simulated:9092"

    def __init__(self, broker: SimulatedBroker, lifeline: Lifeline) -> None:
        self._broker = broker
        self._lifeline = lifeline

    def partition_counts(
        self, awaited: Collection[TopicPartition] = (), patience_s: float | None = None
    ) -> dict[str, int]:
        """Return the partition count of each topic; this broker shows new ones at once."""
        self._lifeline.pulse("partition_counts")
        self._broker.faults.maybe_fail("partition_counts")
        if self._broker.away:
            raise BrokerNotAvailableError("partition_counts: no answer in time (simulated)")
        return self._broker.partition_counts()

    def topic_ids(self, topics: Sequence[str]) -> dict[str, str]:
        """Return what identifies topics; those that do not exist are left out."""
        self._lifeline.pulse("topic_ids")
        self._broker.faults.maybe_fail("topic_ids")
        if self._broker.away:
            raise RetriableClientError("topic_ids: no answer in time (simulated)")
        ids = self._broker.topic_ids()
        return {topic: ids[topic] for topic in topics if topic in ids}

    def topic_settings(self, topics: Sequence[str]) -> dict[str, dict[str, str]]:
        """Return the settings of topics; those that do not exist are left out."""
        self._lifeline.pulse("topic_settings")
        settings = self._broker.topic_settings
        return {topic: dict(settings[topic]) for topic in topics if topic in settings}

    def change_topic_settings(self, changes: Mapping[str, Mapping[str, str]]) -> None:
        """Set some settings of topics."""
        self._lifeline.pulse("change_topic_settings")
        self._broker.faults.maybe_fail("change_topic_settings")
        for topic, settings in changes.items():
            self._broker.topic_settings[topic].update(settings)

    def broker_setting(self, name: str) -> list[str | None]:
        """Return that the broker creates no topic by itself, and what it takes with an offset."""
        known = {"auto.create.topics.enable": "false", "offset.metadata.max.bytes": "4096"}
        return [known.get(name)]

    def create_topics(self, topics: Sequence[NewTopic]) -> None:
        """Create topics that do not exist."""
        self._lifeline.pulse("create_topics")
        for topic in topics:
            self._broker.create_topic(topic.name, topic.num_partitions, topic.config)

    def delete_topics(self, topics: Sequence[str]) -> dict[str, StreamsError]:
        """Delete topics; a scripted failure is that of the first of them."""
        failures: dict[str, StreamsError] = {}
        for topic in topics:
            self._lifeline.pulse(f"delete_topics {topic}")
            error = self._broker.faults.scripted("delete_topics")
            if error is not None:
                failures[topic] = error
            elif topic in self._broker.partition_counts():
                self._broker.delete_topic(topic)
        return failures

    def offset_ranges(
        self, partitions: Sequence[TopicPartition]
    ) -> dict[TopicPartition, OffsetRange]:
        """Return what partitions hold."""
        self._lifeline.pulse("offset_ranges")
        self._broker.faults.maybe_fail("offset_ranges")
        self._broker.maybe_no_answer("offset_ranges")
        return {partition: self._broker.offset_range(partition) for partition in partitions}

    def told_ends(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        """Return where partitions end of which the broker says that."""
        self._lifeline.pulse("told_ends")
        self._broker.faults.maybe_fail("told_ends")
        self._broker.maybe_no_answer("told_ends")
        told = [at for at in partitions if at not in self._broker.ends_in_vain]
        return {partition: self._broker.offset_range(partition).end for partition in told}

    def delete_records(self, before: Mapping[TopicPartition, int]) -> None:
        """Delete records; a scripted failure is nobody's error, as in the real client."""
        self._lifeline.pulse("delete_records")
        if self._broker.away or self._broker.faults.scripted("delete_records") is not None:
            return
        for partition, offset in before.items():
            self._broker.log(partition).delete_before(offset)

    def offsets_at(self, times_ms: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Return the offset of the first committed record at or after a time, a partition."""
        self._lifeline.pulse("offsets_at")
        found = {}
        for partition, time_ms in times_ms.items():
            for record in self._broker.log(partition).committed_records():
                if record.timestamp_ms >= time_ms:
                    found[partition] = record.message_offset
                    break
        return found

    def describe_group(self, group: str) -> Future[GroupDescription]:
        """Describe the broker's one group."""
        self._lifeline.pulse("describe_group")
        answer: Future[GroupDescription] = Future()
        error = self._broker.faults.scripted("describe_group")
        if error is not None:
            answer.set_exception(error)
        elif self._broker.gives_no_answer():
            answer.set_exception(RetriableClientError("describe_group: no answer (simulated)"))
        else:
            answer.set_result(self._broker.group.describe())
        return answer

    def group_members(self, group: str) -> list[str]:
        """Return the members of the broker's one group."""
        self._lifeline.pulse("group_members")
        return self._broker.group.members()

    def committed_offsets(self, group: str) -> dict[TopicPartition, CommittedOffset]:
        """Return what the broker's one group has committed."""
        self._lifeline.pulse("committed_offsets")
        return dict(self._broker.group.offsets)

    def alter_offsets(self, group: str, offsets: Mapping[TopicPartition, CommittedOffset]) -> None:
        """Commit offsets for the broker's one group."""
        self._lifeline.pulse("alter_offsets")
        self._broker.group.commit(offsets)

    def delete_group(self, group: str) -> None:
        """Delete all offsets of the broker's one group."""
        self._lifeline.pulse("delete_group")
        self._broker.group.offsets.clear()
