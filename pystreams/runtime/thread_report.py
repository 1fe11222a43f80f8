"""The numbers of a stream thread, worked out by its loop and read by anybody.

Only the loop may call its consumer: a call from another thread can wait for as long as the loop
polls. So the loop publishes a frozen `ThreadStatistics` now and then, and readers take the last.
"""

from __future__ import annotations

from collections.abc import Callable

from pystreams.clock import Clock
from pystreams.runtime.committer import Committer
from pystreams.runtime.ports import ConsumerPort
from pystreams.runtime.processing import Processing
from pystreams.runtime.restorer import Restorer
from pystreams.runtime.statistics import ThreadStatistics
from pystreams.runtime.task_manager import TaskManager

_PUBLISH_EVERY_MS = 100


class ThreadReport:
    """Publishes the numbers of one thread.

    Args:
        manager: The thread's tasks.
        restorer: Tells what is restored.
        committer: Tells what is committed.
        processing: Tells what is uncommitted.
        consumer: Returns the thread's consumer (it may be replaced).
        unread_partitions: Tells how many of them nobody in the group reads.
        clock: The clock.

    Attributes:
        latest: The numbers published last; safe to read from any thread.
    """

    def __init__(
        self,
        *,
        manager: TaskManager,
        restorer: Restorer,
        committer: Committer,
        processing: Processing,
        consumer: Callable[[], ConsumerPort],
        unread_partitions: Callable[[], int],
        clock: Clock,
    ) -> None:
        self.latest = ThreadStatistics()
        self._manager = manager
        self._restorer = restorer
        self._committer = committer
        self._processing = processing
        self._consumer = consumer
        self._unread_partitions = unread_partitions
        self._clock = clock
        self._published_ms = clock.monotonic_ms() - _PUBLISH_EVERY_MS

    def publish_if_due(self) -> None:
        """Publish, if the last time is a while ago; called by the loop in each iteration."""
        now = self._clock.monotonic_ms()
        if now - self._published_ms >= _PUBLISH_EVERY_MS:
            self._published_ms = now
            self.publish()

    def publish(self) -> None:
        """Publish the numbers of now."""
        tasks = list(self._manager.tasks.values())
        running = self._manager.running()
        progress, ledger = self._restorer.progress(), self._manager.ledger
        self.latest = ThreadStatistics(
            tasks_running=len(running),
            tasks_restoring=len(tasks) - len(running),
            processed_records=self._processing.processed_records,
            dropped_records=sum(task.dropped_records for task in tasks),
            commits=self._committer.commits,
            lag_records=self._lag(),
            restored_records=progress.restored_records,
            restore_remaining_records=progress.remaining_records,
            uncommitted_bytes=ledger.uncommitted_bytes,
            max_uncommitted_bytes=ledger.max_uncommitted_bytes,
            cached_bytes=ledger.cached_bytes,
            unread_partitions=self._unread_partitions(),
        )

    def _lag(self) -> int | None:
        """Return how many records are known to wait, buffered ones included; None if unknown."""
        consumer = self._consumer()
        known = [
            lag + task.buffered_records(partition)
            for task in self._manager.running()
            for partition in task.partitions
            if (lag := consumer.known_lag(partition)) is not None
        ]
        return sum(known) if known else None
