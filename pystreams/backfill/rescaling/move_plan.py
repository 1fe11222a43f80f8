"""The move of a stopped application's state to other partition counts, as a plan: pure functions.

The state of a key moves to the partition that Kafka's default partitioner gives the key among so
many as its sub-topology's sources have now. The new application goes on at the old one's committed
offsets; partitions that are new begin at their beginning.

**Time.** A partition's time, which windows and grace go by, is the highest of the old partitions
that a key of it may have been in: of four partitions and eight, partition 6 has had its keys from
partition 2 alone; of four and six, from 0, 2 and 4 (those that are equal to it modulo the greatest
common divisor). The highest, because what was closed for a key must stay closed: a window that is
gone would begin again at nothing. The price is that a late record may be dropped which its old
partition, being behind another one, would still have taken. A topic that keeps its partition count
keeps its times.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import gcd

from pystreams.backfill.plan.store_changelogs import StoreChangelog, changelogs_of
from pystreams.backfill.publishing.publication import PartitionHistory
from pystreams.errors import StreamsError
from pystreams.ids import TopicPartition
from pystreams.runtime.cluster.committed_offsets import (
    UNKNOWN_TIME,
    CommittedOffset,
    decode_partition_time,
    numbers_of,
)
from pystreams.topology.contracts.operator import STREAM_TIME_PREFIX
from pystreams.topology.graph.nodes import ProcessorNode
from pystreams.topology.graph.subtopologies import Subtopology
from pystreams.topology.operators.joins.foreign_key_join import SubscriptionSendOperator
from pystreams.topology.plan.partition_plan import PartitionPlan, plan_partitions, topics_of_source
from pystreams.topology.plan.topology_plan import TopologyPlan


class RescaleRefusedError(StreamsError):
    """State may not be moved now, or not at all; nothing is changed. Says what to do."""


@dataclass(frozen=True, slots=True)
class MovedTopic:
    """A topic that a sub-topology reads, before and after.

    Attributes:
        old_name: Its real name in the old application.
        new_name: Its real name in the new one; another one for a repartition topic.
        old_count: How many partitions it had. Of a topic of the user's nobody knows: as many as the
            sub-topology had tasks.
        new_count: How many it has.
    """

    old_name: str
    new_name: str
    old_count: int
    new_count: int

    @property
    def is_internal(self) -> bool:
        """Whether it is a repartition topic: each application has its own."""
        return self.old_name != self.new_name


@dataclass(frozen=True, slots=True)
class MovedSubtopology:
    """A sub-topology, before and after.

    Attributes:
        topics: What it reads.
        changelogs: Those of the old application.
        is_stateful: Whether it has a store, of whatever kind.
    """

    id: int
    topics: Sequence[MovedTopic]
    changelogs: Sequence[StoreChangelog]
    old_tasks: int
    new_tasks: int
    is_stateful: bool

    @property
    def keeps_partitions(self) -> bool:
        """Whether all state stays in the partition it is in."""
        return self.old_tasks == self.new_tasks


@dataclass(frozen=True, slots=True)
class MovePlan:
    """What moves, from one application to another.

    Attributes:
        old: The topology's plan under the old application's id.
        new: The same under the new one's.
        partitions: Partition and task counts of the new application.
    """

    old: TopologyPlan
    new: TopologyPlan
    partitions: PartitionPlan
    subtopologies: Sequence[MovedSubtopology]

    def sources(self) -> list[TopicPartition]:
        """Return the old application's source partitions, as far as they still exist, sorted."""
        return sorted(
            TopicPartition(topic.old_name, number)
            for part in self.subtopologies
            for topic in part.topics
            for number in range(topic.old_count if topic.is_internal else topic.new_count)
        )


ROWS_STAY = (
    "where the rows of old keys stay in their old partitions: other tasks would miss them. Copy "
    "the topic, record by record, into a new one with as many partitions as you want, and run the "
    "topology over that one under another application.id, from its beginning: each row is then "
    "where its key belongs, and no state has to be moved"
)


def plan_move(old: TopologyPlan, new: TopologyPlan, num_partitions: Mapping[str, int]) -> MovePlan:
    """Return what is to be moved.

    Args:
        old: The topology's plan under the old application's id.
        new: The same under the new one's.
        num_partitions: Partition counts of all topics there are.

    Raises:
        RescaleRefusedError: There is nothing to move, changelogs do not fit each other, a
            repartition topic is written with a partitioner of the user's own, or rows that are to
            move have subscribed to others by a foreign key.
        MissingChangelogError: A changelog topic does not exist.
        TopologyError: The partition counts do not fit the topology: co-partitioning.
    """
    partitions = plan_partitions(new, num_partitions)
    changelogs = changelogs_of(old, num_partitions)
    parts = [
        _moved(part, old, new, num_partitions, partitions, changelogs) for part in old.subtopologies
    ]
    if all(part.keeps_partitions for part in parts):
        for part in parts:
            _refuse_uncounted_tasks(old, part)
        raise RescaleRefusedError(
            "every sub-topology has as many tasks as before, so that no state has to move: give a "
            "source topic another number of partitions first (kafka-topics --alter --partitions)"
        )
    moving = [part for part in parts if not part.keeps_partitions]
    for part in moving:
        _refuse_subscribers(old, part)
        _refuse_source_changelogs(old, part)
        if part.changelogs:
            _refuse_own_partitioners(old, part)
    return MovePlan(old, new, partitions, parts)


def _moved(
    part: Subtopology,
    old: TopologyPlan,
    new: TopologyPlan,
    num_partitions: Mapping[str, int],
    partitions: PartitionPlan,
    changelogs: Sequence[StoreChangelog],
) -> MovedSubtopology:
    own = [changelog for changelog in changelogs if changelog.subtopology == part.id]
    counts = {changelog.num_partitions for changelog in own}
    if len(counts) > 1:
        listed = ", ".join(
            f"{changelog.topic!r} has {changelog.num_partitions}" for changelog in own
        )
        raise RescaleRefusedError(
            f"changelogs of sub-topology {part.id} differ in their partitions ({listed}), which "
            "those of one application never do: was one of them created or deleted by hand?"
        )
    names = _names(part, old, new, num_partitions)
    internal = [num_partitions[old_name] for old_name, other in names if old_name != other]
    unchanged = [partitions.num_partitions[other] for _, other in names]
    old_tasks = counts.pop() if counts else max(internal, default=max(unchanged))
    topics = [
        MovedTopic(
            old_name,
            other,
            num_partitions[old_name] if old_name != other else old_tasks,
            partitions.num_partitions[other],
        )
        for old_name, other in names
    ]
    return MovedSubtopology(
        part.id, topics, own, old_tasks, partitions.num_tasks[part.id], bool(part.stores)
    )


def _names(
    part: Subtopology,
    old: TopologyPlan,
    new: TopologyPlan,
    num_partitions: Mapping[str, int],
) -> list[tuple[str, str]]:
    """Return the real names of what a sub-topology reads, old and new, sorted."""
    found = set()
    for source in old.sources_of(part):
        if source.pattern is not None:
            found |= {(name, name) for name in topics_of_source(old, source, num_partitions)}
        else:
            found |= {(old.topic_name(name), new.topic_name(name)) for name in source.topics}
    missing = sorted(old_name for old_name, _ in found if old_name not in num_partitions)
    if missing:
        raise RescaleRefusedError(
            f"there is no topic {missing[0]!r}, which the application {old.application_id!r} "
            "reads: it has never run with this topology, or the topic was deleted"
        )
    return sorted(found)


def _refuse_subscribers(plan: TopologyPlan, part: MovedSubtopology) -> None:
    """Refuse a table with foreign keys: subscriptions say to which partition answers go."""
    for name in plan.by_id[part.id].nodes:
        node = plan.topology.nodes[name]
        if isinstance(node, ProcessorNode) and isinstance(node.operator, SubscriptionSendOperator):
            raise RescaleRefusedError(
                f"sub-topology {part.id} would get {part.new_tasks} tasks instead of "
                f"{part.old_tasks}, and node {name!r} joins its rows by a foreign key: the table "
                "they are joined with keeps for each of them the partition that its changes are "
                "told to, which would be wrong. Leave this table's partitions as they are (the "
                "other one's may change), or build the state anew with `pystreams backfill`, under "
                "the new application.id"
            )


def _refuse_source_changelogs(plan: TopologyPlan, part: MovedSubtopology) -> None:
    """Refuse stores that are restored from a source topic: their rows stay where they are."""
    sources = plan.source_changelogs(plan.by_id[part.id])
    for store, topic in sorted(sources.items()):
        raise RescaleRefusedError(
            f"sub-topology {part.id} would get {part.new_tasks} tasks instead of {part.old_tasks}, "
            f"and store {store!r} is restored from topic {topic!r}, {ROWS_STAY}"
        )


def _refuse_uncounted_tasks(plan: TopologyPlan, part: MovedSubtopology) -> None:
    """Refuse a sub-topology of which nothing tells how many tasks it had: no topic of its own."""
    sources = plan.source_changelogs(plan.by_id[part.id])
    for store, topic in sorted(sources.items()):
        if not part.changelogs:
            raise RescaleRefusedError(
                f"store {store!r} of sub-topology {part.id} has no changelog that could be moved: "
                f"it is restored from topic {topic!r}. If that topic was given other partitions, "
                f"it is one {ROWS_STAY}"
            )


def _refuse_own_partitioners(plan: TopologyPlan, part: MovedSubtopology) -> None:
    read = {topic.old_name for topic in part.topics if topic.is_internal}
    for topic, sinks in plan.written_topics().items():
        for sink in sinks:
            if sink.partitioner is not None and topic in read:
                raise RescaleRefusedError(
                    f"sink {sink.name!r} writes {topic!r} with a partitioner of its own, so that "
                    f"nobody knows to which partition the state of sub-topology {part.id} "
                    "belongs: build it anew with `pystreams backfill`"
                )


def begins(
    plan: MovePlan,
    committed: Mapping[TopicPartition, CommittedOffset],
    beginnings: Mapping[TopicPartition, int],
    anew: frozenset[str] = frozenset(),
) -> dict[TopicPartition, PartitionHistory]:
    """Return where the new application begins to read, and with what time.

    Args:
        committed: The old application's committed offsets.
        beginnings: The first offset of each partition of the user's topics that the old
            application has read; 0 for others.
        anew: Topics that are read from their beginning, whatever was committed.
    """
    found = {}
    for part in plan.subtopologies:
        for topic in part.topics:
            for number in range(topic.new_count):
                own = TopicPartition(topic.new_name, number)
                before = [
                    committed.get(TopicPartition(topic.old_name, old))
                    for old in inherited(topic.old_count, topic.new_count, number)
                ]
                time = max(map(_time, before), default=UNKNOWN_TIME)
                first = 0 if topic.is_internal else beginnings.get(own, 0)
                offset = None if topic.is_internal or own.topic in anew else committed.get(own)
                begin = first if offset is None else max(first, offset.next_offset)
                found[own] = PartitionHistory(begin, begin, time, _numbers(before))
    return found


def inherited(old_count: int, new_count: int, number: int) -> list[int]:
    """Return the old partitions that may have held a key of a new one.

    Example: of 4 partitions, those that may have held what is partition 5 of 6 are 1 and 3.
    """
    step = gcd(old_count, new_count)
    return list(range(number % step, old_count, step))


def _numbers(offsets: Sequence[CommittedOffset | None]) -> dict[str, int]:
    """Return what operators go on from, given the offsets of the partitions they inherit.

    Stream time is the highest, as ever. Final results count as sent as far as all have sent them:
    where partitions become one, some may come twice, and none is lost.
    """
    known = [{} if offset is None else numbers_of(offset.metadata) for offset in offsets]
    numbers = {}
    for name in {name for some in known for name in some}:
        values = [some[name] for some in known if name in some]
        if name.startswith(STREAM_TIME_PREFIX):
            numbers[name] = max(values)
        elif len(values) == len(known) and max(values) > 0:  # 0: a note of a topic or publication.
            numbers[name] = min(values)
    return numbers


def _time(offset: CommittedOffset | None) -> int:
    return UNKNOWN_TIME if offset is None else decode_partition_time(offset.metadata)
