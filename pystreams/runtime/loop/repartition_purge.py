"""Deletes what was read of repartition topics: nothing else does, they are kept without a limit."""

from __future__ import annotations

from pystreams.kernel.clock import Clock
from pystreams.runtime.ports import AdminPort
from pystreams.runtime.settings import ThreadSettings
from pystreams.runtime.tasks.task_manager import TaskManager
from pystreams.topology.plan.topology_plan import TopologyPlan


class RepartitionPurge:
    """The purges of one thread.

    Args:
        clock: Tells when the thread began.
    """

    def __init__(
        self,
        plan: TopologyPlan,
        settings: ThreadSettings,
        manager: TaskManager,
        admin: AdminPort,
        clock: Clock,
    ) -> None:
        self._topics = frozenset(plan.repartition_topics())
        self._interval_ms = settings.repartition_purge_interval_ms
        self._manager = manager
        self._admin = admin
        self._last_ms: float = clock.monotonic_ms()

    def after_commit(self, committed_ms: float) -> None:
        """Delete committed records, at most once an interval.

        To be called right after each commit, when what a task has processed is committed. The
        broker's answer is not waited for: what it did not delete is asked for again by the next
        purge, which goes further. Was: TaskManager.maybePurgeCommittedRecords.

        Args:
            committed_ms: When the commit ended, on the monotonic clock (ms).
        """
        if not self._topics or committed_ms - self._last_ms < self._interval_ms:
            return
        before = {
            partition: offset.next_offset
            for task in self._manager.running()
            # One whose commit failed still needs one.
            if not task.needs_commit()
            for partition, offset in task.offsets_to_commit().items()
            if partition.topic in self._topics
        }
        self._last_ms = committed_ms
        if before:
            self._admin.delete_records(before)
