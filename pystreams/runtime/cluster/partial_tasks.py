"""Which of the partitions a member was given do not make up whole tasks."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from pystreams.ids import TaskId, TopicPartition


def stranded(
    tasks: Mapping[TaskId, Collection[TopicPartition]], assigned: Collection[TopicPartition]
) -> tuple[set[TopicPartition], set[TopicPartition]]:
    """Return the assigned partitions that no task here reads, and what such tasks lack.

    Where topics of one sub-topology have different numbers of partitions, assignment by range
    parts its tasks by itself: what those lack is left out.

    Args:
        tasks: What each task of the topology reads.
    """
    share = set(assigned)
    lacking: set[TopicPartition] = set()
    readable: set[TopicPartition] = set()
    for task_id, needed in tasks.items():
        missing = set(needed) - share
        if not missing:
            readable.update(needed)
        elif len(missing) < len(needed) and not _is_uneven(tasks, task_id.subtopology):
            lacking |= missing
    return share - readable, lacking


def _is_uneven(tasks: Mapping[TaskId, Collection[TopicPartition]], subtopology: int) -> bool:
    """Return whether a sub-topology's topics have different numbers of partitions."""
    numbers = {
        len(needed) for task_id, needed in tasks.items() if task_id.subtopology == subtopology
    }
    return len(numbers) > 1
