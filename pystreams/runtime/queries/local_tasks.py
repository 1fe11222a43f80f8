"""Which tasks of a stream thread have a store; for any thread, beside their owner."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pystreams.ids import TaskId
from pystreams.runtime.core.task import StreamTask
from pystreams.topology.plan.topology_plan import TopologyPlan


def local_tasks(
    plan: TopologyPlan, tasks: Mapping[TaskId, StreamTask], store: str, only: Iterable[int] | None
) -> list[StreamTask]:
    """Return the tasks that have a store, in whatever state.

    Args:
        tasks: All tasks of the thread, which may change meanwhile.
        only: The partitions that are wanted; None: all. Asking for a few costs the same however
            many tasks there are.
    """
    part = plan.subtopology_of_store(store)
    if part is None or only is None:
        found = list(tasks.values())
    else:
        wanted = [tasks.get(TaskId(part.id, number)) for number in only]
        found = [task for task in wanted if task is not None]
    return [task for task in found if task.state_manager.readers_store(store) is not None]
