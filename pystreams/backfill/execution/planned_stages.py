"""A backfill before it runs: its stages and what they would read, for `--dry-run`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pystreams.backfill.plan.partition_bounds import PartitionBounds, records_by_topic
from pystreams.backfill.plan.stages import stages_of
from pystreams.backfill.sources.size_estimates import EstimatedSizes
from pystreams.ids import TopicPartition
from pystreams.topology.plan.partition_plan import plan_partitions
from pystreams.topology.plan.topology_plan import TopologyPlan


@dataclass(frozen=True, slots=True)
class PlannedStage:
    """One stage.

    Attributes:
        subtopology: The sub-topology's id.
        only_topic: The topic whose records it gives, for a part of a sub-topology; else None.
        records: How many records of the history it reads; an upper bound where only offsets are
            known. What earlier stages write comes on top.
        fed_topics: Those of its topics that earlier stages write.
        size_bytes: How large its history is (bytes): that of the files that hold it or, from Kafka,
            an estimate. None where neither is known.
        is_estimate: Whether the size is one that was estimated, see `EstimatedSizes`.
    """

    subtopology: int
    topics: tuple[str, ...]
    only_topic: str | None
    num_tasks: int
    records: int
    fed_topics: tuple[str, ...]
    size_bytes: int | None
    is_estimate: bool = False


def planned_stages(
    plan: TopologyPlan,
    num_partitions: Mapping[str, int],
    bounds: Mapping[TopicPartition, PartitionBounds],
    sizes: Mapping[str, Mapping[str, int]] | EstimatedSizes | None = None,
) -> list[PlannedStage]:
    """Return the stages a backfill would run.

    Args:
        sizes: The files that hold each topic's records, with their sizes (bytes), or estimates of a
            history in Kafka. Nothing when it is in no files, or they are not known.

    Raises:
        TopologyError: The topology can't run as a backfill, or partition counts do not fit.
    """
    partitions = plan_partitions(plan, num_partitions)
    counts = {**num_partitions, **partitions.num_partitions}
    internal = plan.repartition_topics()
    records = {
        topic: count for topic, count in records_by_topic(bounds).items() if topic not in internal
    }
    stages = []
    for stage in stages_of(plan, counts):
        own = [topic for topic in stage.topics if topic in records]
        num_records = sum(records[topic] for topic in own)
        stages.append(
            PlannedStage(
                stage.subtopology.id,
                stage.topics,
                stage.only_topic,
                partitions.num_tasks[stage.subtopology.id],
                num_records,
                tuple(topic for topic in stage.topics if topic in internal),
                _size_bytes(own, sizes),
                is_estimate=bool(num_records) and isinstance(sizes, EstimatedSizes),
            )
        )
    return stages


def _size_bytes(
    topics: Sequence[str], sizes: Mapping[str, Mapping[str, int]] | EstimatedSizes | None
) -> int | None:
    """Return the size of some topics; of files that hold any of them, each once."""
    if isinstance(sizes, EstimatedSizes):
        found = [sizes.size_bytes.get(topic) for topic in topics]
        known = [size for size in found if size is not None]
        return sum(known) if len(known) == len(found) else None
    if topics and not sizes:
        return None
    files: dict[str, int] = {}
    for topic in topics:
        files.update((sizes or {}).get(topic, {}))
    return sum(files.values())
