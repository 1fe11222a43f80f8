"""The state of a task before it has processors: made alike for one that runs and one kept warm."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from pystreams.ids import TaskId, TopicPartition
from pystreams.record import PresentRecord, TaskTime
from pystreams.runtime.core.source_records import sources_of_stores
from pystreams.runtime.core.task_settings import TaskSettings
from pystreams.runtime.state.state_manager import ProcessorStateManager
from pystreams.topology.graph.subtopologies import Subtopology
from pystreams.topology.plan.topology_plan import TopologyPlan


@dataclass(frozen=True, slots=True)
class StateOfTask:
    """Stores, and what they are told of the task that they are of; moves from owner to owner.

    Attributes:
        partitions: What the task reads, sorted.
        manager: Stores, changelogs, offsets, positions.
        time: The task's stream time, and the wall clock's.
    """

    partitions: tuple[TopicPartition, ...]
    manager: ProcessorStateManager
    record: PresentRecord
    time: TaskTime


def state_of_task(
    task_id: TaskId,
    plan: TopologyPlan,
    subtopology: Subtopology,
    partitions: Collection[TopicPartition],
    settings: TaskSettings,
) -> StateOfTask:
    """Return the state of a task, not open yet.

    Args:
        partitions: The partitions it reads.
    """
    record, time, reads = PresentRecord(), TaskTime(), tuple(sorted(partitions))
    manager = ProcessorStateManager(
        task_id,
        plan.stores_of(subtopology),
        settings.stores,
        plan.stores_fed_by_stores(subtopology),
        record,
        lambda: time.stream_time,
        sources_of_stores(plan, subtopology, task_id, reads, settings),
    )
    return StateOfTask(reads, manager, record, time)
