"""What a stream thread does beside processing: buffers kept level, purges, waits, the summary."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from pystreams.clock import Clock
from pystreams.ids import TopicPartition
from pystreams.loggers import get_logger
from pystreams.runtime.core.lifecycle import TaskState
from pystreams.runtime.pace import Pace
from pystreams.runtime.ports import AdminPort, ConsumerPort
from pystreams.runtime.settings import ThreadSettings
from pystreams.runtime.statistics import ThreadStatistics
from pystreams.runtime.task_manager import TaskManager
from pystreams.topology.plan import TopologyPlan

_log = get_logger("pystreams.thread")


class Housekeeping:
    """Housekeeping of one stream thread.

    Args:
        name: The thread's name.
        plan: The topology's plan.
        settings: The thread's share of the configuration.
        manager: The thread's tasks.
        consumer: Returns the thread's consumer (it may be replaced).
        admin: Deletes records.
        clock: The clock.
    """

    def __init__(
        self,
        *,
        name: str,
        plan: TopologyPlan,
        settings: ThreadSettings,
        manager: TaskManager,
        consumer: Callable[[], ConsumerPort],
        admin: AdminPort,
        clock: Clock,
    ) -> None:
        self._name = name
        self._repartition_topics = frozenset(plan.repartition_topics())
        self._settings = settings
        self._manager = manager
        self._consumer = consumer
        self._admin = admin
        self._clock = clock
        self._paused: set[TopicPartition] = set()
        self._last_purge_ms = self._last_summary_ms = clock.monotonic_ms()
        self._summary_records = 0

    def balance_buffers(self) -> None:
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

    def poll_timeout_s(self, pace: Pace) -> float:
        """Return how long poll may wait: not past the next commit, nor `max.task.idle.ms`."""
        timeout_ms = min(self._settings.poll_ms, pace.until_commit_ms() + 1)
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

    def maybe_purge(self, committed_ms: float) -> None:
        """Delete committed records of repartition topics, at most once an interval.

        To be called right after each commit, when what a task has processed is committed. The
        broker's answer is not waited for: what it did not delete is asked for again by the next
        purge, which goes further. Was: TaskManager.maybePurgeCommittedRecords.

        Args:
            committed_ms: When the commit ended, on the monotonic clock (ms).
        """
        since_ms = committed_ms - self._last_purge_ms
        interval_ms = self._settings.repartition_purge_interval_ms
        if not self._repartition_topics or since_ms < interval_ms:
            return
        before = {
            partition: offset.next_offset
            for task in self._manager.running()
            # One whose commit failed still needs one.
            if not task.needs_commit()
            for partition, offset in task.offsets_to_commit().items()
            if partition.topic in self._repartition_topics
        }
        self._last_purge_ms = committed_ms
        if before:
            self._admin.delete_records(before)

    def maybe_summarize(self, numbers: ThreadStatistics) -> None:
        """Log a summary line, once an interval."""
        interval = self._settings.log_summary_interval_ms
        now = self._clock.monotonic_ms()
        if interval < 1 or now - self._last_summary_ms < interval:
            return
        seconds = (now - self._last_summary_ms) / 1000
        records = numbers.processed_records - self._summary_records
        _log.info(
            "summary",
            thread=self._name,
            records=records,
            records_per_s=round(records / seconds),
            commits=numbers.commits,
            tasks=numbers.tasks_running,
            restoring=numbers.tasks_restoring,
            lag=numbers.lag_records,
        )
        self._last_summary_ms = now
        self._summary_records = numbers.processed_records
