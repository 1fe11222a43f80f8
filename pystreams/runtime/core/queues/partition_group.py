"""The queues of one task, and which of them gives the next records.

The record with the smallest head timestamp comes first; between equal ones the queue that was
added first (topics in name order). Records are taken in runs (`record_run`): as many as there are
until one of the queues has none left.

A task whose queues are not all filled may wait (`max.task.idle.ms`), so that records of joined
topics are processed in timestamp order: 0 waits only while the broker is known to hold more for
the empty partition, -1 never waits, a positive number waits that long for data to arrive: for each
partition from when it is found empty, with nothing more on the broker.

Spec: KIP-353, KIP-695 "Proposed Changes". Differs from Kafka: ties between queues are broken by
a fixed order, where Kafka Streams leaves them to its priority queue; a rerun sees the same order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from pystreams.ids import TopicPartition
from pystreams.runtime.cluster.committed_offsets import (
    CommittedOffset,
    OffsetEntries,
    encode_partition_time,
)
from pystreams.runtime.core.queues.record_queue import RecordQueue, timestamp_of
from pystreams.runtime.core.queues.record_run import MergedRun, Order, QueueRun, Run

NEVER_WAIT = -1


class PartitionGroup:
    """The record queues of one task.

    Args:
        max_task_idle_ms: How long to wait for empty queues; see the module.
        known_lag: Tells how many records the broker holds beyond what was polled of a partition;
            None when it is not known.
    """

    def __init__(
        self,
        queues: Iterable[RecordQueue],
        *,
        max_task_idle_ms: int,
        known_lag: Callable[[TopicPartition], int | None],
    ) -> None:
        self._queues: dict[TopicPartition, RecordQueue] = {}
        self._ordered: list[RecordQueue] = []
        self._single: RecordQueue | None = None
        for queue in queues:
            self.add(queue)
        self._max_task_idle_ms = max_task_idle_ms
        self._known_lag = known_lag
        # Until when (ms) each partition that is known to be empty is waited for.
        self._idle_deadlines_ms: dict[TopicPartition, float] = {}

    def add(self, queue: RecordQueue) -> None:
        """Take one more queue."""
        self._queues[queue.partition] = queue
        self._ordered = [held for _, held in sorted(self._queues.items())]
        self._single = queue if len(self._ordered) == 1 else None

    @property
    def queues(self) -> Mapping[TopicPartition, RecordQueue]:
        """The queues by partition."""
        return self._queues

    def __len__(self) -> int:
        """Return how many records wait in all queues."""
        return sum(map(len, self._ordered))

    def ready(self, monotonic_ms: float) -> bool:
        """Return whether the next record may be processed now.

        Args:
            monotonic_ms: What time it is, by a clock that nobody sets (ms).
        """
        if self._single is not None:
            return len(self._single) > 0
        empty = [queue for queue in self._ordered if not len(queue)]
        if not empty:
            if self._idle_deadlines_ms:
                self._idle_deadlines_ms.clear()
            return True
        any_waits = len(empty) < len(self._ordered)
        if self._max_task_idle_ms <= 0 and not any_waits:
            return False
        if self._max_task_idle_ms == NEVER_WAIT:
            return True
        return self._waited_for(empty, monotonic_ms) and any_waits

    @property
    def at_rest(self) -> bool:
        """Whether only records that arrive can make it ready: asking again changes nothing."""
        if self._single is not None or self._max_task_idle_ms <= 0:
            return not len(self)
        return not len(self) and len(self._idle_deadlines_ms) == len(self._ordered)

    def next_run(self, limit: int, order: Order = timestamp_of) -> Run | None:
        """Return the next records to process, or None when nothing waits.

        Args:
            limit: How many at most.
            order: What puts records of several queues in order.
        """
        queue = self._single
        if queue is None:
            waiting = [queue for queue in self._ordered if len(queue)]
            if len(waiting) > 1:
                return MergedRun(waiting, limit, order)
            if not waiting:
                return None
            [queue] = waiting
        records = len(queue)
        return QueueRun(queue, min(records, limit)) if records else None

    def next_offsets(self) -> dict[TopicPartition, int]:
        """Return the offset of the first unprocessed record of each partition that has one."""
        return {
            partition: queue.next_offset
            for partition, queue in self.queues.items()
            if queue.next_offset is not None
        }

    def stream_time(self) -> int:
        """Return the highest timestamp taken from any queue (ms), -1 before the first."""
        return max((queue.partition_time for queue in self._ordered), default=-1)

    def offsets_to_commit(
        self, entries_of: OffsetEntries, numbers: Mapping[str, int]
    ) -> dict[TopicPartition, CommittedOffset]:
        """Return the next offset of each partition that has one, with its partition time."""
        known = self.next_offsets()
        first = min(known, default=None)
        offsets = {}
        for partition, next_offset in known.items():
            entries = entries_of(partition, numbers, first=partition == first)
            time = self._queues[partition].partition_time
            offsets[partition] = CommittedOffset(
                next_offset, encode_partition_time(time, entries, numbers)
            )
        return offsets

    def clear(self) -> None:
        """Forget all waiting records."""
        self._idle_deadlines_ms.clear()
        for queue in self._ordered:
            queue.clear()

    def _waited_for(self, empty: Sequence[RecordQueue], monotonic_ms: float) -> bool:
        """Return whether the deadlines of all empty queues have passed; begin those of new ones."""
        begun = self._idle_deadlines_ms
        # Of others more is on its way (or nothing is known yet): a fetch tells soon.
        deadlines = self._idle_deadlines_ms = {
            queue.partition: begun.get(queue.partition, monotonic_ms + self._max_task_idle_ms)
            for queue in empty
            if self._known_lag(queue.partition) == 0
        }
        return len(deadlines) == len(empty) and max(deadlines.values()) <= monotonic_ms
