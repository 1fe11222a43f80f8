"""Where a task begins to read: at the group's committed offsets, else where its sources say."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from pystreams.errors import FatalStreamsError
from pystreams.ids import TaskId, TopicPartition
from pystreams.runtime.cluster.committed_offsets import CommittedOffset, OffsetRange
from pystreams.runtime.cluster.publishing_mark import is_being_published
from pystreams.runtime.cluster.reset_mark import is_being_reset
from pystreams.topology.plan.topology_plan import TopologyPlan

OffsetRanges = Callable[[Sequence[TopicPartition]], dict[TopicPartition, OffsetRange]]


def start_positions(
    plan: TopologyPlan,
    task_id: TaskId,
    partitions: Sequence[TopicPartition],
    committed: Mapping[TopicPartition, CommittedOffset],
    offset_ranges: OffsetRanges,
) -> dict[TopicPartition, int | None]:
    """Return the next offset to read of each partition.

    Args:
        plan: The topology's plan; its sources may have reset policies of their own.
        task_id: The task, for the error.
        committed: Committed offsets, as far as there are any.
        offset_ranges: Asks the broker what partitions hold.

    Returns:
        None for a partition that takes the consumer's policy (`auto.offset.reset`).

    Raises:
        FatalStreamsError: A source without committed offset says "none"; or a backfill or
            rescale has not finished publishing the group's state, or a reset deleting it.
        RetriableClientError: The broker did not answer in time.
    """
    positions: dict[TopicPartition, int | None] = {}
    own: dict[TopicPartition, str] = {}
    for partition in partitions:
        offset = committed.get(partition)
        if offset is not None and is_being_published(offset.metadata):
            message = (
                f"task {task_id}: a backfill or rescale is publishing this application's state "
                f"and has not finished (the mark on {partition} says {offset.metadata!r}): wait "
                "for it, or start the same `pystreams backfill` or `pystreams rescale` again, "
                "which goes on from there"
            )
            raise FatalStreamsError(message)
        if offset is not None and is_being_reset(offset.metadata):
            message = (
                f"task {task_id}: a reset of this application has begun and not finished (the mark "
                f"on {partition} says so), and its state is deleted in part: run `pystreams reset` "
                "again, which goes on"
            )
            raise FatalStreamsError(message)
        positions[partition] = None if offset is None else offset.next_offset
        source = plan.source_of_topic(partition.topic)
        if offset is None and source is not None and source.offset_reset is not None:
            own[partition] = source.offset_reset
            if source.offset_reset == "none":
                message = (
                    f"task {task_id}: {partition} has no committed offset and source "
                    f"{source.name!r} says offset_reset='none': commit an offset for the group, "
                    "or let the source say 'earliest' or 'latest'"
                )
                raise FatalStreamsError(message)
    held = offset_ranges(list(own)) if own else {}
    for partition, policy in own.items():
        positions[partition] = (
            held[partition].beginning if policy == "earliest" else held[partition].end
        )
    return positions
