"""How many partitions internal topics get, and how many tasks there are.

- A task of a sub-topology exists for each partition of its largest source topic.
- A repartition topic without a number of its own gets as many partitions as the largest source
  topic upstream of it; those upstream may be repartition topics themselves.
- Co-partitioned sources must agree: repartition topics among them adapt, the user's can't. Sources
  that take part in several joins agree with all of them.

Source: Kafka Streams' `RepartitionTopics`, `CopartitionedTopicsEnforcer` and
`InternalTopologyBuilder.copartitionGroups`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from pystreams.errors import TopologyError
from pystreams.ids import TaskId, TopicPartition
from pystreams.topology.graph.nodes import CopartitionGroup, SourceNode
from pystreams.topology.graph.source_topics import read_by_two
from pystreams.topology.graph.subtopologies import Subtopology
from pystreams.topology.plan.topology_plan import TopologyPlan


@dataclass(frozen=True, slots=True)
class PartitionPlan:
    """Partition counts of everything a plan touches.

    Attributes:
        num_partitions: Count of each source and repartition topic, by real name.
        num_tasks: Count of tasks of each sub-topology, by its id.
    """

    num_partitions: Mapping[str, int]
    num_tasks: Mapping[int, int]

    def task_ids(self) -> list[TaskId]:
        """Return all tasks of the application, in order."""
        return [
            TaskId(subtopology, partition)
            for subtopology, count in sorted(self.num_tasks.items())
            for partition in range(count)
        ]


def plan_partitions(plan: TopologyPlan, existing: Mapping[str, int]) -> PartitionPlan:
    """Work out partition counts from the topics that exist.

    Args:
        existing: Partition count of topics on the broker, at least all source topics; topics
            that match a source pattern are included.

    Raises:
        TopologyError: Co-partitioned topics differ, no count can be derived, or patterns of two
            sources match one topic; names the topics, and the nodes that it matters to.
    """
    counts = _source_counts(plan, existing)
    _count_repartition_topics(plan, counts)
    _enforce_copartitioning(plan, counts)
    tasks = {part.id: max(_topic_counts(plan, part, counts)) for part in plan.subtopologies}
    return PartitionPlan(counts, tasks)


def topics_of_source(plan: TopologyPlan, source: SourceNode, known: Mapping[str, int]) -> list[str]:
    """Return the real names of the topics a source reads, among the known ones."""
    if source.pattern is not None:
        pattern = source.pattern
        return sorted(topic for topic in known if pattern.fullmatch(topic))
    return [plan.topic_name(topic) for topic in source.topics]


def topics_of(
    plan: TopologyPlan, sources: Iterable[SourceNode], known: Mapping[str, int]
) -> list[str]:
    """Return the real names of the topics that sources read, among the known ones."""
    return [topic for source in sources for topic in topics_of_source(plan, source, known)]


def partitions_of_tasks(
    plan: TopologyPlan, counts: Mapping[str, int]
) -> dict[TaskId, list[TopicPartition]]:
    """Return what each task reads.

    Args:
        counts: Partition count of at least all source and repartition topics, by real name.
    """
    found = {}
    for part in plan.subtopologies:
        topics = topics_of(plan, plan.sources_of(part), counts)
        for number in range(max((counts[topic] for topic in topics), default=0)):
            found[TaskId(part.id, number)] = _read_by(number, topics, counts)
    return found


def partitions_of_task(
    plan: TopologyPlan, counts: Mapping[str, int], task_id: TaskId
) -> list[TopicPartition]:
    """Return what one task reads; see `partitions_of_tasks`."""
    topics = topics_of(plan, plan.sources_of(plan.by_id[task_id.subtopology]), counts)
    return _read_by(task_id.partition, topics, counts)


def _read_by(number: int, topics: Iterable[str], counts: Mapping[str, int]) -> list[TopicPartition]:
    return [TopicPartition(topic, number) for topic in topics if number < counts[topic]]


def _source_counts(plan: TopologyPlan, existing: Mapping[str, int]) -> dict[str, int]:
    counts: dict[str, int] = {}
    readers: dict[str, SourceNode] = {}
    internal = plan.repartition_topics()
    for source in plan.sources():
        for topic in topics_of_source(plan, source, existing):
            first = readers.setdefault(topic, source)
            if first is not source:
                raise read_by_two(topic, first, source)
            if topic not in internal and topic in existing:
                counts[topic] = existing[topic]
    return counts


def _count_repartition_topics(plan: TopologyPlan, counts: dict[str, int]) -> None:
    pending = dict(plan.repartition_topics())
    for real_name, topic in list(pending.items()):
        if topic.num_partitions is not None:
            counts[real_name] = topic.num_partitions
            del pending[real_name]
    while pending:
        resolved = []
        for real_name, topic in pending.items():
            writers = plan.subtopologies_writing(topic.name)
            upstream = [count for part in writers for count in _topic_counts(plan, part, counts)]
            if upstream:
                counts[real_name] = max(upstream)
                resolved.append(real_name)
        if not resolved:
            names = ", ".join(sorted(pending))
            raise TopologyError(
                f"can't derive the number of partitions of {names}: nothing with a known number "
                "of partitions writes there; give a number with repartition(num_partitions=...)"
            )
        for real_name in resolved:
            del pending[real_name]


def _topic_counts(
    plan: TopologyPlan, subtopology: Subtopology, counts: Mapping[str, int]
) -> list[int]:
    """Return the counts of its topics, as far as they are known; 1 of one that reads none."""
    topics = topics_of(plan, plan.sources_of(subtopology), counts)
    return [counts[topic] for topic in topics if topic in counts] if topics else [1]


def _enforce_copartitioning(plan: TopologyPlan, counts: dict[str, int]) -> None:
    internal = plan.repartition_topics()
    for groups in _overlapping(plan.topology.copartition_groups):
        topics = _topics_of_groups(plan, groups, counts)
        fixed = {
            topic: counts[topic]
            for topic in topics
            if topic not in internal or internal[topic].num_partitions is not None
        }
        if len(set(fixed.values())) > 1:
            raise _different_counts(plan, groups, fixed)
        wanted = max(fixed.values()) if fixed else max(counts[topic] for topic in topics)
        for topic in topics:
            if topic not in fixed:
                counts[topic] = wanted


def _overlapping(groups: Iterable[CopartitionGroup]) -> list[list[CopartitionGroup]]:
    """Put groups together that share a source, directly or by way of others."""
    found: list[list[CopartitionGroup]] = []
    for group in groups:
        apart, together = [], [group]
        for others in found:
            if any(other.sources & group.sources for other in others):
                together = [*others, *together]
            else:
                apart.append(others)
        found = [*apart, together]
    return found


def _topics_of_groups(
    plan: TopologyPlan, groups: Iterable[CopartitionGroup], counts: Mapping[str, int]
) -> list[str]:
    names = {name for group in groups for name in group.sources}
    return topics_of(plan, [node for node in plan.sources() if node.name in names], counts)


def _different_counts(
    plan: TopologyPlan, groups: Iterable[CopartitionGroup], fixed: Mapping[str, int]
) -> TopologyError:
    """Return the error of groups whose topics differ; one to blame alone is the only one named."""
    for group in groups:
        topics = _topics_of_groups(plan, [group], fixed)
        own = {topic: fixed[topic] for topic in topics if topic in fixed}
        if len(set(own.values())) > 1:
            groups, fixed = [group], own
            break
    nodes = [f"{group.node!r}{plan.topology.call_of(group.node).told()}" for group in groups]
    listed = ", ".join(f"{topic!r} has {count}" for topic, count in sorted(fixed.items()))
    return TopologyError(
        f"node{'s' if len(nodes) > 1 else ''} {' and '.join(nodes)} can't join topics with "
        f"different numbers of partitions: {listed}; repartition one of the streams first with "
        f"repartition(num_partitions={max(fixed.values())}), a table's topic as "
        "stream(...).repartition(...).to_table()"
    )
