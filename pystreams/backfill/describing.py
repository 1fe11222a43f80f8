"""A backfill before it runs: its stages and what they would read, for `--dry-run`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pystreams.backfill.history import PartitionBounds
from pystreams.backfill.stages import stages_of
from pystreams.ids import TopicPartition
from pystreams.topology.partitions import plan_partitions
from pystreams.topology.plan import TopologyPlan


@dataclass(frozen=True, slots=True)
class PlannedStage:
    """One stage.

    Attributes:
        subtopology: The sub-topology's id.
        topics: Topics it reads.
        only_topic: The topic whose records it gives, for a part of a sub-topology; else None.
        num_tasks: How many tasks it has.
        records: How many records of the history it reads; an upper bound where only offsets are
            known. What earlier stages write comes on top.
        fed_topics: Those of its topics that earlier stages write.
    """

    subtopology: int
    topics: tuple[str, ...]
    only_topic: str | None
    num_tasks: int
    records: int
    fed_topics: tuple[str, ...]


def planned_stages(
    plan: TopologyPlan,
    num_partitions: Mapping[str, int],
    bounds: Mapping[TopicPartition, PartitionBounds],
) -> list[PlannedStage]:
    """Return the stages a backfill would run.

    Args:
        plan: The topology's plan.
        num_partitions: Partition counts of the topics there are.
        bounds: What the history has of each partition.

    Raises:
        TopologyError: The topology can't run as a backfill, or partition counts do not fit.
    """
    partitions = plan_partitions(plan, num_partitions)
    counts = {**num_partitions, **partitions.num_partitions}
    internal = plan.repartition_topics()
    records: dict[str, int] = {}
    for (topic, _), has in bounds.items():
        if topic not in internal:
            records[topic] = records.get(topic, 0) + has.records
    return [
        PlannedStage(
            stage.subtopology.id,
            stage.topics,
            stage.only_topic,
            partitions.num_tasks[stage.subtopology.id],
            sum(records.get(topic, 0) for topic in stage.topics),
            tuple(topic for topic in stage.topics if topic in internal),
        )
        for stage in stages_of(plan, counts)
    ]
