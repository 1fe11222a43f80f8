"""Where an export stands: up to which offset each changelog is read, and which input that covers.

What is promised:

- A changelog partition is read up to its last stable offset at one moment. What was written there
  in transactions is whole up to that point, and nothing of an open or aborted one is in it.
- A task's source offsets are *exact* when its stores hold what came of the input before them, and
  nothing else. That can be shown only under exactly-once, where changelog and offsets are
  committed together, and for a task that is at rest at that moment: no transaction is open in its
  changelogs, and its committed offsets are the same before and after the moment.

Why that is enough: offsets that can be read are those of a transaction that was committed before.
Its records in the changelogs count as open until their markers are written; none is open, so all
are in. And a transaction that was committed only after the offsets were read the first time would
show in them the second time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pystreams.backfill.plan.store_changelogs import StoreChangelog
from pystreams.ids import TaskId, TopicPartition
from pystreams.runtime.ports import AdminPort, ConsumerPort
from pystreams.topology.plan.partition_plan import topics_of
from pystreams.topology.plan.topology_plan import TopologyPlan


@dataclass(frozen=True, slots=True)
class TaskPoint:
    """Which input the exported stores of a task cover.

    Attributes:
        source_offsets: The committed offset of each source partition that has one, as it was
            before the changelogs' ends were taken.
        exact: Whether the stores hold what came of the input before those offsets and nothing
            else. False: they may hold more.
    """

    task_id: TaskId
    source_offsets: Mapping[TopicPartition, int]
    exact: bool


@dataclass(frozen=True, slots=True)
class ExportPoints:
    """Where an export stands.

    Attributes:
        ends: The offset up to which each changelog partition is read.
    """

    ends: Mapping[TopicPartition, int]
    tasks: Sequence[TaskPoint]


def take_points(
    plan: TopologyPlan,
    changelogs: Sequence[StoreChangelog],
    num_partitions: Mapping[str, int],
    admin: AdminPort,
    consumer: ConsumerPort,
    *,
    exactly_once: bool,
) -> ExportPoints:
    """Return the points of an export that begins now.

    Args:
        changelogs: What is exported.
        consumer: Of the application's group, not a member; tells stable committed offsets.
        exactly_once: Whether the application runs so.

    Raises:
        RetriableClientError: The broker did not answer in time.
    """
    tasks = _tasks(plan, changelogs, num_partitions)
    sources = sorted({source for task in tasks for source in task.sources})
    partitions = sorted({changelog for task in tasks for changelog in task.changelogs})
    before = consumer.committed(sources)
    ranges = admin.offset_ranges(partitions)
    after = consumer.committed(sources)
    unmoved = {source for source in sources if before.get(source) == after.get(source)}
    stable = {
        partition
        for partition in partitions
        if ranges[partition].end == ranges[partition].high_watermark
    }
    points = [
        TaskPoint(
            task.task_id,
            {source: before[source].next_offset for source in task.sources if source in before},
            exactly_once
            and unmoved.issuperset(task.sources)
            and stable.issuperset(task.changelogs),
        )
        for task in tasks
    ]
    return ExportPoints({partition: ranges[partition].end for partition in partitions}, points)


@dataclass(frozen=True, slots=True)
class _Task:
    task_id: TaskId
    sources: Sequence[TopicPartition]
    changelogs: Sequence[TopicPartition]


def _tasks(
    plan: TopologyPlan, changelogs: Sequence[StoreChangelog], num_partitions: Mapping[str, int]
) -> list[_Task]:
    found = []
    for part in plan.subtopologies:
        own = [changelog for changelog in changelogs if changelog.subtopology == part.id]
        topics = set(topics_of(plan, plan.sources_of(part), num_partitions))
        for number in range(max((changelog.num_partitions for changelog in own), default=0)):
            sources = [
                TopicPartition(topic, number)
                for topic in sorted(topics)
                if number < num_partitions.get(topic, 0)
            ]
            logs = [
                TopicPartition(changelog.topic, number)
                for changelog in own
                if number < changelog.num_partitions
            ]
            found.append(_Task(TaskId(part.id, number), sources, logs))
    return found
