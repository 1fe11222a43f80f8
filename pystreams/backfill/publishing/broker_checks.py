"""What the brokers must look like for results to be published to them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pystreams.backfill.broker_waiting import ATTEMPTS, Waiting
from pystreams.backfill.publishing.hand_over import (
    Offsets,
    PublishingRefusedError,
    start_again,
    why_not_free,
)
from pystreams.backfill.publishing.publication import Publication, PublishingCommand
from pystreams.ids import TopicPartition, all_partitions, firsts_of
from pystreams.runtime.cluster.committed_offsets import OffsetRange
from pystreams.runtime.cluster.topic_ids import known_ids
from pystreams.runtime.ports import AdminPort
from pystreams.topology.plan.partition_plan import plan_partitions
from pystreams.topology.plan.topology_plan import TopologyPlan

_AFTER_A_GAP = {
    PublishingCommand.BACKFILL: (
        "The history must reach into what the topic still holds, with the topic's own offsets"
    ),
    PublishingCommand.RESCALE: (
        "Since its state was staged, the topic was created again (see --created-again), or has "
        "lost records that the application had not processed. Run the rescale again in another "
        "directory"
    ),
}


@dataclass
class PublishingChecks:
    """Looks at the brokers. Every check raises `PublishingRefusedError`."""

    publication: Publication
    plan: TopologyPlan
    admin: AdminPort
    waiting: Waiting

    def check_partition_counts(self, *, with_outputs: bool) -> None:
        """Refuse topics whose keys would meet another task's state, or lie where no live run's do.

        Args:
            with_outputs: Whether output records are published too.
        """
        existing = self.admin.partition_counts()
        if with_outputs:
            self._check_outputs(existing)
        for topic, count in sorted(self.publication.num_partitions.items()):
            found = existing.get(topic, count)
            if found != count:
                raise PublishingRefusedError(
                    f"topic {topic!r} has {found} partitions, and had {count} in the "
                    f"{self.publication.command}: keys would meet another task's state. Run the "
                    f"{self.publication.command} again with another --output directory, or delete "
                    "this one first"
                )
        self._check_internal(existing)

    def _check_internal(self, existing: Mapping[str, int]) -> None:
        """Refuse what would give internal topics more partitions: a larger topic of a pattern."""
        command, staged = self.publication.command, self.publication.num_partitions
        wanted = plan_partitions(self.plan, {**staged, **existing}).num_partitions
        for topic in sorted(self.plan.repartition_topics().keys() & staged.keys()):
            if wanted[topic] != staged[topic]:
                raise PublishingRefusedError(
                    f"topic {topic!r} would get {wanted[topic]} partitions, and had "
                    f"{staged[topic]} in the {command}: since then a source's pattern matches "
                    "another topic, with more partitions, and keys would meet another task's "
                    f"state. Run the {command} again in another directory"
                )

    def _check_outputs(self, existing: Mapping[str, int]) -> None:
        command = self.publication.command
        for topic, count in sorted(self.publication.written):
            found = existing.get(topic)
            if found is None:
                raise PublishingRefusedError(
                    f"there is no topic {topic!r}, which output records are for: create it with "
                    f"{count} partitions, for which the {command} has placed them. For another "
                    f"number create it, and run the {command} again in another directory"
                )
            if found != count:
                raise PublishingRefusedError(
                    f"topic {topic!r} has {found} partitions, and the {command} has placed output "
                    f"records in {count} (1 if nothing told it how many there are): keys would lie "
                    "where the application does not write them. Run it again in another directory, "
                    f"with num_partitions={{{topic!r}: {found}}} (--partitions {topic}={found}) "
                    "for an archive; or publish without outputs"
                )

    def check_members(self) -> None:
        """Refuse a group that somebody is in."""
        refuse_members(self.plan.application_id, self.admin, self.waiting, self.publication.command)

    def check_members_after_claim(self) -> None:
        """Refuse a group that somebody is in who may have begun before it was claimed."""
        group, command = self.plan.application_id, self.publication.command
        members = self.waiting.until_answered(lambda: self.admin.group_members(group))
        if members:
            raise PublishingRefusedError(
                f"group {group!r} got members ({', '.join(members[:4])}) while it was claimed for "
                f"this {command}. Stop them. What has ended by itself, because the publishing has "
                f"not finished, has changed nothing: run the {command} again, and it goes on. "
                "Anything else may have processed records without the state: "
                f"{start_again(command)}"
            )

    def changelogs(self) -> list[TopicPartition]:
        """Return the changelog partitions of all tasks."""
        return [
            TopicPartition(self.plan.changelog_topic(store.name), task.task_id.partition)
            for task in self.publication.tasks
            for store in self.plan.logged_stores(self.plan.by_id[task.task_id.subtopology])
        ]

    def changelog_ends(self) -> dict[TopicPartition, int]:
        """Return the offsets behind all that is in the changelogs of all tasks.

        Markers that brokers have yet to write are waited for, so that nothing at all is left to
        read; one that comes later would be no record.
        """
        changelogs = self.changelogs()
        left = ATTEMPTS
        while True:
            ranges = self.waiting.until_answered(lambda: self.admin.offset_ranges(changelogs))
            left -= 1
            if left == 0 or all(held.end == held.high_watermark for held in ranges.values()):
                break
            self.waiting.before_retry()
        return {changelog: held.high_watermark for changelog, held in ranges.items()}

    def check_changelogs(self) -> None:
        """Refuse changelogs with records: a claim is always before the first record of ours."""
        refuse_filled(self.changelogs(), self.admin, self.waiting, self.publication.command)

    def source_ids(self) -> dict[str, str]:
        """Return the ids of the source topics, as far as they tell topics apart."""
        read = {partition.topic for partition in self.publication.histories}
        topics = sorted(read - self.plan.repartition_topics().keys())
        return known_ids(self.waiting.until_answered(lambda: self.admin.topic_ids(topics)))

    def check_edges(self) -> None:
        """Refuse the user's own topics in the middle that hold more than the history has."""
        internal = self.plan.repartition_topics()
        ends = {
            partition: history.next_offset
            for partition, history in self.publication.histories.items()
            if partition.topic in self.publication.edge_topics and partition.topic not in internal
        }
        ranges = self.waiting.until_answered(lambda: self.admin.offset_ranges(list(ends)))
        for partition, end in sorted(ends.items()):
            if ranges[partition].high_watermark > end:
                raise PublishingRefusedError(
                    f"{partition} goes up to offset {ranges[partition].high_watermark}, and the "
                    f"history of it to {end}: the topology writes to this topic itself, so that "
                    "the application goes on at its end, and would miss what others wrote. Stop "
                    f"them, and run the {self.publication.command} again with all of it in the "
                    "history"
                )

    def check_sources(self) -> None:
        """Refuse a hand-over to offsets that are not in the topics: records would be lost."""
        edges = self.publication.edge_topics
        ends = {
            partition: history.next_offset
            for partition, history in self.publication.histories.items()
            if partition.topic not in edges
        }
        ranges = self.waiting.until_answered(lambda: self.admin.offset_ranges(list(ends)))
        for partition, end in sorted(ends.items()):
            held = ranges[partition]
            if not held.beginning <= end <= held.high_watermark:
                raise PublishingRefusedError(
                    f"the history of {partition} goes up to offset {end}, and the partition holds "
                    f"{held.beginning} to {held.high_watermark}: the application could not go on "
                    f"there without a gap. {_AFTER_A_GAP[self.publication.command]}"
                )
        self._check_source_changelogs(ranges)

    def _check_source_changelogs(self, ranges: Mapping[TopicPartition, OffsetRange]) -> None:
        """Refuse a history of which the topic has lost a part that a table is restored from."""
        topics = {
            topic: store
            for part in self.plan.subtopologies
            for store, topic in self.plan.source_changelogs(part).items()
        }
        for task in self.publication.tasks:
            for partition, history in sorted(task.histories.items()):
                store, held = topics.get(partition.topic), ranges.get(partition)
                if store is None or held is None or history.start >= held.beginning:
                    continue
                raise PublishingRefusedError(
                    f"store {store!r} is restored from {partition}, which begins at offset "
                    f"{held.beginning} by now, and the history at {history.start}: rows in between "
                    "would be lost. Build the topology without reuse.ktable.source.topics, and run "
                    f"the {self.publication.command} again in another directory"
                )


def refuse_members(
    group: str, admin: AdminPort, waiting: Waiting, command: PublishingCommand
) -> None:
    """Refuse a group that somebody is in.

    Raises:
        PublishingRefusedError: Somebody is; names them.
    """
    members = waiting.until_answered(lambda: admin.group_members(group))
    if members:
        raise PublishingRefusedError(
            f"group {group!r} has members ({', '.join(members[:4])}): the application runs, or was "
            "stopped less than session.timeout.ms ago. Stop it, wait for its session to end, and "
            f"run the {command} again"
        )


def refuse_filled(
    changelogs: Sequence[TopicPartition],
    admin: AdminPort,
    waiting: Waiting,
    command: PublishingCommand,
) -> None:
    """Refuse changelogs with records, of a group without offsets.

    Raises:
        PublishingRefusedError: There are some; names the partitions.
    """
    ranges = waiting.until_answered(lambda: admin.offset_ranges(changelogs))
    filled = [
        str(partition) for partition, held in ranges.items() if held.high_watermark > held.beginning
    ]
    if filled:
        raise PublishingRefusedError(
            f"changelogs have records already ({', '.join(sorted(filled)[:4])}), and the "
            "group no offsets: an earlier life of the application left them. "
            f"{start_again(command).capitalize()}"
        )


def refuse_used_group(
    plan: TopologyPlan,
    admin: AdminPort,
    waiting: Waiting,
    *,
    with_outputs: bool,
    command: PublishingCommand = PublishingCommand.BACKFILL,
) -> None:
    """Refuse a group that the results of a new backfill or rescale could not be published to.

    The publisher would refuse it too, but only when they are staged.

    Args:
        with_outputs: Whether output records are to be published too.

    Raises:
        PublishingRefusedError: It has members or committed offsets, or changelogs have records; or
            a topic for outputs does not exist.
        BrokerNotAvailableError: No broker answered.
    """
    group = plan.application_id
    outputs = plan.sink_topics() if with_outputs else []
    counts = admin.partition_counts(awaited=firsts_of(outputs))
    missing = [topic for topic in outputs if topic not in counts]
    if missing:
        raise PublishingRefusedError(
            f"there is no topic {missing[0]!r}, which output records are for: create it first, "
            "since they are placed by its number of partitions; or publish without outputs"
        )
    refuse_members(group, admin, waiting, command)
    own = own_offsets(plan, admin, waiting)
    if own:
        raise PublishingRefusedError(why_not_free(own, command))
    changelogs = all_partitions(sorted(plan.changelogs().keys() & counts.keys()), counts)
    refuse_filled(changelogs, admin, waiting, command)


def own_offsets(plan: TopologyPlan, admin: AdminPort, waiting: Waiting) -> Offsets:
    """Return the offsets that a group has committed in topics that its topology reads.

    Raises:
        BrokerNotAvailableError: No broker answered.
    """
    committed = waiting.until_answered(lambda: admin.committed_offsets(plan.application_id))
    return {
        partition: found
        for partition, found in committed.items()
        if plan.source_of_topic(partition.topic)
    }
