"""What a stopped application must look like for its state to be moved. Nothing here is changed.

The state is moved to where its keys belong among the new number of partitions. A record that still
waits in the old place would meet the state of another task; so those who wait may only be such
that lie where the new number puts them. That is so for what producers write after the topic got
its partitions. Sub-topologies without stores do not mind: what they have not read yet they may read
in any partition.

Repartition topics are not taken along, and have to be empty behind the committed offset.

A table that is restored from its own topic stays as it is, in tasks that may be as many as before
only because nothing tells how many there were: then its rows show it, by where they lie.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from pystreams.backfill.broker_waiting import Waiting
from pystreams.backfill.rescaling.move_plan import (
    ROWS_STAY,
    MovedTopic,
    MovePlan,
    RescaleRefusedError,
)
from pystreams.errors import RetriableClientError
from pystreams.ids import TopicPartition, all_partitions
from pystreams.kernel.partitioner import partition_of
from pystreams.record import ConsumedMessage
from pystreams.runtime.cluster.committed_offsets import CommittedOffset, OffsetRange
from pystreams.runtime.cluster.publishing_mark import is_being_published
from pystreams.runtime.ports import AdminPort, RestoreConsumerPort

_BATCH_RECORDS = 1000
_POLL_S = 1.0
_SILENT_POLLS_MAX = 30

_CURE = (
    "the application has to run, without producers, until its lag is 0, before the topic gets "
    "other partitions. If the topic has them already, the application can't start any more: build "
    "its state anew with `pystreams backfill`, under the new application.id"
)


@dataclass(frozen=True, slots=True)
class OldGroup:
    """What the old application's group has left behind."""

    committed: Mapping[TopicPartition, CommittedOffset]
    ranges: Mapping[TopicPartition, OffsetRange]


@dataclass(frozen=True, slots=True)
class RescaleChecks:
    """Looks before anything is moved. Every check raises `RescaleRefusedError`.

    Attributes:
        anew: Topics that the new application reads from their beginning.
    """

    plan: MovePlan
    admin: AdminPort
    waiting: Waiting
    anew: frozenset[str]

    def check_stopped(self) -> None:
        """Refuse an application that runs."""
        group = self.plan.old.application_id
        members = self.waiting.until_answered(lambda: self.admin.group_members(group))
        if members:
            raise RescaleRefusedError(
                f"group {group!r} has members ({', '.join(members[:4])}): the application runs, or "
                "was stopped less than session.timeout.ms ago. Stop it, wait for its session to "
                "end, and try again"
            )

    def check_group(self, group: OldGroup) -> None:
        """Refuse a group without offsets, with somebody's mark, or ahead of its topics."""
        name = self.plan.old.application_id
        if not group.committed and not self.anew:
            raise RescaleRefusedError(
                f"group {name!r} has no committed offsets: the application has never run under "
                "this id, its offsets have expired (offsets.retention.minutes), or its topics were "
                "created again (say which, and they are read from their beginning)"
            )
        for partition, offset in sorted(group.committed.items()):
            if is_being_published(offset.metadata):
                raise RescaleRefusedError(
                    f"group {name!r} is being published by a backfill, or is the target of another "
                    f"move (the mark on {partition} says so): finish that first"
                )
            held = group.ranges[partition]
            if partition.topic not in self.anew and offset.next_offset > held.high_watermark:
                raise RescaleRefusedError(
                    f"{partition} ends at offset {held.high_watermark}, and the group has read it "
                    f"up to {offset.next_offset}: the topic was created again. If all that is in "
                    "it now is new to the application, say that it was created again, and it is "
                    "read from its beginning"
                )

    def check_changelogs(self) -> None:
        """Refuse changelogs with an open transaction: nobody knows whether it counts."""
        partitions = [
            TopicPartition(changelog.topic, number)
            for part in self.plan.subtopologies
            for changelog in part.changelogs
            for number in range(changelog.num_partitions)
        ]
        ranges = self.waiting.until_answered(lambda: self.admin.offset_ranges(partitions))
        for partition, held in sorted(ranges.items()):
            if held.end < held.high_watermark:
                raise RescaleRefusedError(
                    f"{partition} ends in an open transaction: the application was killed. Wait "
                    "until the broker ends the transaction (producer.transaction.timeout.ms)"
                )

    def check_all_processed(self, group: OldGroup, consumer: RestoreConsumerPort) -> None:
        """Refuse records that wait where the new application would not find their state."""
        waiting = {
            partition: (first, topic)
            for partition, (first, topic) in self._unread(group).items()
            if first < group.ranges[partition].high_watermark
        }
        for partition, (first, _) in sorted(waiting.items()):
            held = group.ranges[partition]
            if held.end < held.high_watermark:
                raise RescaleRefusedError(
                    f"{partition} ends in an open transaction at offset {held.end}, and the "
                    f"application has read it up to {first}: let its producer finish, or the "
                    f"broker end it (transaction.timeout.ms). And {_CURE}"
                )
        readers = {partition: topic for partition, (_, topic) in waiting.items()}
        starts = {partition: first for partition, (first, _) in waiting.items()}
        _read(consumer, group, starts, partial(_refuse_waiting, readers))

    def check_source_changelogs(self, group: OldGroup, consumer: RestoreConsumerPort) -> None:
        """Refuse a table that is restored from its topic, if that was given other partitions.

        An application that has committed an offset for each of them has had them all.
        """
        for part in self.plan.subtopologies:
            subtopology = self.plan.old.by_id[part.id]
            counts = {topic.old_name: topic.new_count for topic in part.topics}
            for store, topic in sorted(self.plan.old.source_changelogs(subtopology).items()):
                own = all_partitions([topic], counts)
                if topic in self.anew or group.committed.keys() >= set(own):
                    continue
                held = {partition: group.ranges.get(partition) for partition in own}
                starts = {
                    partition: found.beginning
                    for partition, found in held.items()
                    if found is not None and found.beginning < found.end
                }
                check = partial(_refuse_misplaced, store, counts[topic])
                _read(consumer, group, starts, check)

    def _unread(self, group: OldGroup) -> dict[TopicPartition, tuple[int, MovedTopic]]:
        """Return where each partition that must have been read goes on, and its topic."""
        found = {}
        for part in self.plan.subtopologies:
            for topic in part.topics:
                if topic.old_name in self.anew or not (topic.is_internal or part.is_stateful):
                    continue
                for number in range(topic.old_count):
                    partition = TopicPartition(topic.old_name, number)
                    if partition in group.ranges:
                        offset = group.committed.get(partition)
                        first = group.ranges[partition].beginning
                        if offset is not None:
                            first = max(first, offset.next_offset)
                        found[partition] = (first, topic)
        return found


def _read(
    consumer: RestoreConsumerPort,
    group: OldGroup,
    starts: Mapping[TopicPartition, int],
    check: Callable[[TopicPartition, Sequence[ConsumedMessage]], None],
) -> None:
    """Read partitions to their ends, and look at each batch; what looks may refuse it."""
    left = dict(starts)
    silent = 0
    while left:
        consumer.assign(left)
        batches = consumer.poll(_BATCH_RECORDS, _POLL_S)
        silent = 0 if batches else silent + 1
        if silent > _SILENT_POLLS_MAX:
            raise RetriableClientError(
                f"reading {', '.join(map(str, sorted(left)))}: no answer; try again"
            )
        for partition, messages, end_reached_at in batches:
            check(partition, messages)
            end = group.ranges[partition].end
            passed = bool(messages) and (messages[-1].offset() or 0) + 1 >= end
            if passed or (end_reached_at is not None and end_reached_at >= end):
                left.pop(partition, None)


def _refuse_waiting(
    topics: Mapping[TopicPartition, MovedTopic],
    partition: TopicPartition,
    messages: Sequence[ConsumedMessage],
) -> None:
    """Refuse the first record that would not find its state."""
    topic = topics[partition]
    if topic.is_internal and messages:
        raise RescaleRefusedError(
            f"repartition topic partition {partition} has records that the application "
            f"has not processed (from offset {messages[0].offset()}): {_CURE}"
        )
    if (found := _misplaced(partition, messages, topic.new_count)) is not None:
        offset, wanted = found
        raise RescaleRefusedError(
            f"{partition} has records that the application has not processed, and that "
            f"belong elsewhere now: the key at offset {offset} belongs to "
            f"partition {wanted} of {topic.new_count}. They were written before the topic "
            f"got its partitions, or by a producer with another partitioner: {_CURE}"
        )


def _refuse_misplaced(
    store: str, count: int, partition: TopicPartition, messages: Sequence[ConsumedMessage]
) -> None:
    """Refuse the first row of a table that its topic's present partitions would not hold there."""
    if (found := _misplaced(partition, messages, count)) is not None:
        offset, wanted = found
        raise RescaleRefusedError(
            f"store {store!r} is restored from topic {partition.topic!r}, and the key at offset "
            f"{offset} of {partition} belongs to partition {wanted} of {count}: it was written "
            "before the topic got its partitions, or by a producer with another partitioner. Such "
            f"a topic is one {ROWS_STAY}"
        )


def _misplaced(
    partition: TopicPartition, messages: Sequence[ConsumedMessage], count: int
) -> tuple[int | None, int] | None:
    """Return the first record that belongs to another of so many partitions: offset, partition."""
    for message in messages:
        key = message.key()
        if key is not None and (wanted := partition_of(key, count)) != partition.partition:
            return message.offset(), wanted
    return None
