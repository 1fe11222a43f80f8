"""How a group is doing, as the broker tells it: its members, and how far they are in the input."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import NamedTuple

from pystreams.ids import TaskId, TopicPartition, all_partitions
from pystreams.runtime.cluster.committed_offsets import CommittedOffset, OffsetRange
from pystreams.runtime.cluster.group_description import GroupMember, of_another_topology
from pystreams.runtime.cluster.standby_placement import standby_tasks
from pystreams.runtime.cluster.topology_note import NotedTopology, noted_topologies
from pystreams.runtime.ports import AdminPort, RestoreConsumerPort
from pystreams.topology.plan.partition_plan import partitions_of_tasks
from pystreams.topology.plan.topology_plan import TopologyPlan

_ANSWER_TIMEOUT_S = 30.0
_POLLS_MAX = 20
_POLL_TIMEOUT_S = 0.5
_POLL_RECORDS = 500


@dataclass(frozen=True, slots=True)
class PartitionStatus:
    """How far a group is in a partition.

    Attributes:
        next_offset: What it processes next; None before its first commit there.
        lag_records: Records that it has not processed and committed, undecided ones included.
        waiting_ms: How long ago the oldest of these was written, by its timestamp; None if that
            could not be read, 0 without any.
        member: Who reads it; None if nobody does.
        undecided_records: How many of them are behind an open transaction, or of it: under
            exactly-once they wait for its end.
        undecided_from: The offset where that transaction begins; None without any.
    """

    partition: TopicPartition
    next_offset: int | None
    lag_records: int
    waiting_ms: int | None
    member: GroupMember | None
    undecided_records: int = 0
    undecided_from: int | None = None


@dataclass(frozen=True, slots=True)
class GroupStatus:
    """A group at one moment.

    Attributes:
        settled: Whether all members have what they are to have; False during a rebalance.
        members: All members, in order of their names.
        partitions: The partitions it reads, in order.
        strangers: Members that run another topology; none where no topology was given.
        subtopologies: The number of the sub-topology that reads a topic, as far as that is known:
            by the topology that was given, else by what the group has noted.
        standbys: The tasks that members keep warm for others, by member id, as far as that is.
        topologies: The topologies it has noted, the present one first.
    """

    settled: bool
    members: list[GroupMember]
    partitions: list[PartitionStatus]
    strangers: list[GroupMember]
    subtopologies: Mapping[str, int]
    standbys: Mapping[str, list[TaskId]]
    topologies: list[NotedTopology]


def group_status(
    group: str,
    admin: AdminPort,
    reader: Callable[[], RestoreConsumerPort],
    now_ms: int,
    plan: TopologyPlan | None = None,
    standby_replicas: int = 0,
) -> GroupStatus:
    """Return how a group is doing; one that never was has no members and no partitions.

    Args:
        group: The group: an application's id.
        reader: Makes what reads one record of each partition with lag, for its timestamp.
        plan: The application's topology, if it is known.
        standby_replicas: Its `num.standby.replicas`.

    Raises:
        StreamsError: No answer in time, or the broker refuses.
    """
    # The first to be asked, which says why brokers do not answer, or refuse.
    existing = admin.partition_counts()
    # Waits for a coordinator, which a broker that has just started finds for nobody else.
    committed = admin.committed_offsets(group)
    description = admin.describe_group(group).result(_ANSWER_TIMEOUT_S)
    owners = {
        partition: member for member in description.members for partition in member.partitions
    }
    topics = {at.topic for at in (*committed, *owners)} & existing.keys()
    wanted = all_partitions(sorted(topics), existing)
    ranges = admin.offset_ranges(wanted)
    times_ms = _times_of_first(reader, _behind(committed, ranges))
    partitions = []
    for at in wanted:
        next_offset = committed[at].next_offset if at in committed else None
        start, held = _start(at, committed, ranges), ranges[at]
        lag, waiting_ms = max(0, held.end - start), None
        if at in times_ms:
            time_ms = times_ms[at]
            # What is left may be markers of transactions alone, as behind each commit.
            lag, waiting_ms = (0, None) if time_ms is None else (lag, max(0, now_ms - time_ms))
        undecided = max(0, held.high_watermark - max(start, held.end))
        waiting_ms = 0 if lag == undecided == 0 else waiting_ms
        partitions.append(
            PartitionStatus(
                *(at, next_offset, lag + undecided, waiting_ms, owners.get(at), undecided),
                undecided_from=held.end if undecided else None,
            )
        )
    members = sorted(description.members, key=lambda member: (member.client_id, member.member_id))
    noted = noted_topologies(committed)
    strangers: list[GroupMember] = []
    if plan is None:
        readers = _noted(topics, noted, existing)
    else:
        readers = _declared(topics, plan, existing, standby_replicas)
        strangers = of_another_topology(description.members, plan.reads, ())
    return GroupStatus(
        description.settled,
        members,
        partitions,
        strangers,
        readers.subtopologies,
        {} if strangers else _standbys(members, readers),
        noted,
    )


def _start(
    at: TopicPartition,
    committed: Mapping[TopicPartition, CommittedOffset],
    ranges: Mapping[TopicPartition, OffsetRange],
) -> int:
    """Return the first offset of a partition that is there and not processed."""
    next_offset = committed[at].next_offset if at in committed else 0
    return max(next_offset, ranges[at].beginning)


def _behind(
    committed: Mapping[TopicPartition, CommittedOffset],
    ranges: Mapping[TopicPartition, OffsetRange],
) -> dict[TopicPartition, int]:
    """Return the partitions with lag, and where it begins."""
    starts = {at: _start(at, committed, ranges) for at in ranges}
    return {at: start for at, start in starts.items() if start < ranges[at].end}


def _times_of_first(
    reader: Callable[[], RestoreConsumerPort], starts: dict[TopicPartition, int]
) -> dict[TopicPartition, int | None]:
    """Return the timestamp (ms) of the first record from an offset on, as far as it comes in time.

    None for a partition that has no record there.
    """
    found: dict[TopicPartition, int | None] = {}
    if not starts:
        return found
    with closing(reader()) as consumer:
        left = dict(starts)
        for _ in range(_POLLS_MAX):
            consumer.assign(left)
            for batch in consumer.poll(_POLL_RECORDS, _POLL_TIMEOUT_S):
                if batch.messages:
                    found.setdefault(batch.partition, batch.messages[0].timestamp()[1])
                elif batch.end_reached_at is not None:
                    found.setdefault(batch.partition, None)
                if batch.partition in found:
                    left.pop(batch.partition, None)
            if not left:
                break
    return found


class _Readers(NamedTuple):
    """Who reads what.

    Attributes:
        subtopologies: Which sub-topology reads a topic.
        tasks: What each task reads; empty where not all is known.
        replicas: How many standbys the tasks of a sub-topology have.
    """

    subtopologies: Mapping[str, int]
    tasks: Mapping[TaskId, Collection[TopicPartition]]
    replicas: Mapping[int, int]


def _declared(
    topics: Collection[str], plan: TopologyPlan, counts: Mapping[str, int], standby_replicas: int
) -> _Readers:
    """Return who reads what, by the topology."""
    parts = {topic: plan.subtopology_of_topic(topic) for topic in topics}
    complete = {*plan.source_topics(), *plan.repartition_topics()} <= counts.keys()
    stateful = [part.id for part in plan.subtopologies if plan.logged_stores(part)]
    return _Readers(
        {topic: part.id for topic, part in parts.items() if part is not None},
        partitions_of_tasks(plan, counts) if complete else {},
        dict.fromkeys(stateful, standby_replicas),
    )


def _noted(
    topics: Collection[str], noted: Sequence[NotedTopology], counts: Mapping[str, int]
) -> _Readers:
    """Return who reads what, as the group has noted it."""
    if not noted:
        return _Readers({}, {}, {})
    present, tasks = noted[0], defaultdict[TaskId, list[TopicPartition]](list)
    if present.subtopologies.keys() >= set(topics):
        for topic in topics:
            for number in range(counts[topic]):
                task_id = TaskId(present.subtopologies[topic], number)
                tasks[task_id].append(TopicPartition(topic, number))
    return _Readers(present.subtopologies, tasks, present.standbys)


def _standbys(members: list[GroupMember], readers: _Readers) -> dict[str, list[TaskId]]:
    """Return what members keep warm, as each of them works it out."""
    most = max(readers.replicas.values(), default=0)
    return {
        member.member_id: sorted(
            task_id
            for task_id in standby_tasks(members, member.member_id, readers.tasks, most)
            if readers.replicas.get(task_id.subtopology, 0)
        )
        for member in members
    }
