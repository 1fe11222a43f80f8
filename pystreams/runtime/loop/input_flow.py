"""How records flow to a thread's tasks: which partitions are paused, how long a poll may wait."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from pystreams.ids import TopicPartition
from pystreams.runtime.core.lifecycle import TaskState
from pystreams.runtime.loop.loop_timing import Pace
from pystreams.runtime.ports import ConsumerPort
from pystreams.runtime.settings import PollSettings
from pystreams.runtime.tasks.task_manager import TaskManager

_ANSWERS_MS = 2
"""How long poll waits at most while answers are awaited, which it does not notice (ms)."""


class InputFlow:
    """The flow of records to the tasks of one thread.

    Args:
        settings: The thread's share of the configuration.
        manager: The thread's tasks.
        consumer: Returns the thread's consumer (it may be replaced).
    """

    def __init__(
        self, settings: PollSettings, manager: TaskManager, consumer: Callable[[], ConsumerPort]
    ) -> None:
        self._settings = settings
        self._manager = manager
        self._consumer = consumer
        self._paused: set[TopicPartition] = set()

    def balance(self) -> None:
        """Pause partitions that are too far ahead of their task, resume those that caught up.

        A task usually drains what a poll brought, so this is about tasks that wait for another
        of their partitions. Pausing throws away what the client has prefetched: hence the limit.
        """
        limit = self._settings.buffered_records_per_partition
        for partition in list(self._paused):
            task = self._manager.task_of(partition)
            if task is None or task.state is not TaskState.RUNNING:
                continue
            if task.buffered_records(partition) <= limit // 2:
                self._consumer().resume([partition])
                self._paused.discard(partition)
        for task in self._manager.active.in_turn():
            for partition in task.partitions:
                if task.buffered_records(partition) > limit and partition not in self._paused:
                    self._consumer().pause([partition])
                    self._paused.add(partition)

    def poll_timeout_s(self, pace: Pace, now_ms: int) -> float:
        """Return how long poll may wait: not past the next commit, nor `max.task.idle.ms`.

        Nor past the next try of a record, `now_ms` being the wall clock's time (ms).
        """
        timeout_ms = min(self._settings.poll_ms, pace.until_commit_ms() + 1)
        for task in self._manager.active.awaiting():
            if task.held.awaits_answers:
                timeout_ms = min(timeout_ms, _ANSWERS_MS)
            if (retry_at_ms := task.held.retry_at_ms) is not None:
                timeout_ms = min(timeout_ms, max(retry_at_ms - now_ms, 0))
        idle_ms = self._settings.max_task_idle_ms
        if idle_ms > 0 and any(task.buffered_records() for task in self._manager.active.in_turn()):
            timeout_ms = min(timeout_ms, idle_ms)
        return timeout_ms / 1000

    def forget(self, partitions: Iterable[TopicPartition]) -> None:
        """Forget partitions that are no longer assigned, or start paused again."""
        self._paused.difference_update(partitions)

    def forget_all(self) -> None:
        """Forget everything that was paused."""
        self._paused.clear()
