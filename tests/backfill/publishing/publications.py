"""The results of a backfill in one process, as what is published."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice

from pystreams import TaskId, TopicPartition
from pystreams.backfill.plan.rows import Result, ResultKind
from pystreams.backfill.publishing.publication import PartitionHistory, Publication, TaskResults
from pystreams.topology.graph.nodes import SinkNode
from pystreams.topology.plan.partition_plan import plan_partitions, topics_of_source
from pystreams.topology.plan.topology_plan import TopologyPlan


def publication_of(
    plan: TopologyPlan,
    results: Sequence[Result],
    num_partitions: Mapping[str, int],
    backfill_id: str = "backfill1",
) -> Publication:
    """Group the results of all tasks.

    Args:
        plan: The topology's plan.
        results: What `in_process.run` has returned; no two sub-topologies write to one topic.
        num_partitions: Partition counts of the user's topics, those only written included.
        backfill_id: Identifies the publication.
    """
    partitions = plan_partitions(plan, num_partitions)
    counts = partitions.num_partitions
    rows: dict[TaskId, list[Result]] = {}
    ends: dict[TopicPartition, Result] = {}
    for result in results:
        if result.kind is ResultKind.END:
            ends[TopicPartition(result.name, result.partition)] = result
        else:
            rows.setdefault(TaskId(_subtopology(plan, result), result.task), []).append(result)
    tasks = []
    for task_id in partitions.task_ids():
        subtopology = plan.by_id[task_id.subtopology]
        own = [
            TopicPartition(topic, task_id.partition)
            for source in plan.sources_of(subtopology)
            for topic in topics_of_source(plan, source, counts)
            if task_id.partition < counts[topic]
        ]
        histories = {
            partition: PartitionHistory(0, ends[partition].sequence, ends[partition].timestamp)
            if partition in ends
            else PartitionHistory(0, 0)
            for partition in own
        }
        own_rows = rows.get(task_id, [])
        tasks.append(
            TaskResults(
                task_id, histories, len(own_rows), _from(own_rows), _timestamps_of(own_rows)
            )
        )
    internal = frozenset(plan.repartition_topics())
    written = {result.name for result in results if result.kind is ResultKind.OUTPUT} - internal
    placed = frozenset((topic, num_partitions.get(topic, 1)) for topic in written)
    return Publication(backfill_id, counts, tasks, internal, placed)


def _subtopology(plan: TopologyPlan, result: Result) -> int:
    for part in plan.subtopologies:
        sinks = [plan.topology.nodes[name] for name in part.nodes]
        topics = {plan.topic_name(str(node.topic)) for node in sinks if isinstance(node, SinkNode)}
        if result.name in (part.stores if result.kind is ResultKind.STATE else topics):
            return part.id
    raise AssertionError(result)


def _timestamps_of(
    rows: Sequence[Result],
) -> Callable[[], Iterator[tuple[ResultKind, str, Sequence[int]]]]:
    return lambda: ((row.kind, row.name, [row.timestamp]) for row in rows)


def _from(rows: Sequence[Result]) -> Callable[[int], Iterator[Result]]:
    return lambda first: islice(iter(rows), first, None)
