"""How records flow to a thread's tasks: which partitions are paused, how long a poll may wait."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from pystreams.ids import TopicPartition
from pystreams.runtime.core.lifecycle import TaskState
from pystreams.runtime.core.task import StreamTask
from pystreams.runtime.loop.loop_timing import LoopTiming
from pystreams.runtime.ports import ConsumerPort, PartitionBatch
from pystreams.runtime.settings import PollSettings
from pystreams.runtime.tasks.task_manager import TaskManager

_ANSWERS_MS = 2
"""How long poll waits at most while answers are awaited, which it does not notice (ms)."""
_GROUP_MS = 5
"""The same for an answer about the group: a broker may be asked for it in vain for long."""


class InputFlow:
    """The flow of records to the tasks of one thread."""

    def __init__(
        self, settings: PollSettings, manager: TaskManager, consumer: Callable[[], ConsumerPort]
    ) -> None:
        self._settings = settings
        self._manager = manager
        self._consumer = consumer
        self._paused: set[TopicPartition] = set()
        # Partitions of which records may wait in their task.
        self._filled: set[TopicPartition] = set()

    def balance(self, received: Iterable[PartitionBatch]) -> None:
        """Pause partitions that are too far ahead of their task, resume those that caught up.

        A task usually drains what a poll brought, so this is about tasks that wait: for another of
        their partitions, or for answers. Pausing throws away what the client has prefetched: hence
        the limits. A partition of which nothing waits is never paused: its task may need it to go
        on with the others.

        Args:
            received: What was polled since the last call.
        """
        self._filled.update(partition for partition, _ in received)
        waiting = self._waiting_records()
        self._filled.intersection_update(waiting)
        if not waiting and not self._paused:
            return
        limit, waiting_bytes = self._settings.buffered_records_per_partition, self._waiting_bytes()
        crowded = waiting_bytes > self._settings.waiting_max_bytes
        roomy = waiting_bytes <= self._settings.waiting_max_bytes // 2
        ahead = {part for part, records in waiting.items() if crowded or records > limit}
        behind = {
            partition
            for partition in self._paused
            if self._task(partition) is not None
            and (records := waiting.get(partition, 0)) <= limit // 2
            and (roomy or not records)
        }
        if behind:
            self._consumer().resume(sorted(behind))
            self._paused -= behind
        if new := ahead - self._paused:
            self._consumer().pause(sorted(new))
            self._paused |= new

    def poll_timeout_s(
        self, timing: LoopTiming, monotonic_ms: float, *, asks_of_group: bool
    ) -> float:
        """Return how long poll may wait: not past the next commit, nor `max.task.idle.ms`.

        Nor past the next try of a record.

        Args:
            monotonic_ms: What time it is.
            asks_of_group: Whether it is awaited what the group has: tasks may not start before.
        """
        timeout_ms = min(self._settings.poll_ms, timing.until_commit_ms() + 1)
        if asks_of_group:
            timeout_ms = min(timeout_ms, _GROUP_MS)
        for task in self._manager.active.awaiting():
            if task.held.awaits_answers:
                timeout_ms = min(timeout_ms, _ANSWERS_MS)
            if (retry_at_ms := task.held.retry_at_ms) is not None:
                timeout_ms = min(timeout_ms, max(retry_at_ms - monotonic_ms, 0))
        idle_ms = self._settings.max_task_idle_ms
        if idle_ms > 0 and any(task.buffered_records() for task in self._manager.active.in_turn()):
            timeout_ms = min(timeout_ms, idle_ms)
        return timeout_ms / 1000

    def forget(self, partitions: Iterable[TopicPartition]) -> None:
        """Forget partitions that are no longer assigned, or start paused again."""
        gone = set(partitions)
        self._paused -= gone
        self._filled -= gone

    def forget_all(self) -> None:
        """Forget all partitions."""
        self._paused.clear()
        self._filled.clear()

    def _waiting_records(self) -> dict[TopicPartition, int]:
        """Return how many records wait of each partition that has some."""
        found = {}
        for partition in self._filled:
            task = self._task(partition)
            if task is not None and (records := task.buffered_records(partition)):
                found[partition] = records
        return found

    def _waiting_bytes(self) -> int:
        """Return what the records take that wait in all tasks."""
        tasks = ((partition, self._task(partition)) for partition in self._filled)
        return sum(task.counts.buffered_bytes(at) for at, task in tasks if task is not None)

    def _task(self, partition: TopicPartition) -> StreamTask | None:
        """Return the task that reads a partition, if it runs."""
        task = self._manager.task_of(partition)
        return task if task is not None and task.state is TaskState.RUNNING else None
