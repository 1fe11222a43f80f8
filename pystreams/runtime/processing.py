"""One round of processing: runs of records through the tasks, within the thread's byte limits.

Before each run the thread asks how many records may be processed below
`statestore.uncommitted.max.bytes`, and how much they may write; when none may, it commits first.
After each run what tasks left in their buffers goes to the producer, record caches above their
share are flushed, and what is processed is committed when that is due.

Spec: KIP-892 "In-memory Transaction Buffers".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from pystreams.errors import (
    RetriableClientError,
    TaskCorruptedError,
    TransactionAbortableError,
)
from pystreams.ids import TaskId
from pystreams.loggers import get_logger
from pystreams.runtime.core.growth import UNLIMITED, Admission, FlushGrowth
from pystreams.runtime.core.record_queue import RecordQueue
from pystreams.runtime.core.task import StreamTask
from pystreams.runtime.pace import RUN_RECORDS, Pace
from pystreams.runtime.producers import TaskProducers
from pystreams.runtime.task_manager import TaskManager

_log = get_logger("pystreams.processing")


class Processing:
    """Processes records for one thread.

    Args:
        manager: The thread's tasks.
        producers: The thread's producers.
        uncommitted_max_bytes: What the thread's stores may hold uncommitted, -1 for no limit.
        cache_max_bytes: What the thread's record caches may hold back.
        pace: How far a run goes, and when a commit is due.
        commit: Commits all tasks; returns False when that failed for some of them.

    Attributes:
        uncommitted_bytes: What stores held uncommitted after the last run.
        max_uncommitted_bytes: The most they ever held.
        cached_bytes: What record caches held back after the last run.
    """

    def __init__(
        self,
        *,
        manager: TaskManager,
        producers: TaskProducers,
        uncommitted_max_bytes: int,
        cache_max_bytes: int,
        pace: Pace,
        commit: Callable[[], bool],
    ) -> None:
        self._manager = manager
        self._producers = producers
        self._uncommitted_max_bytes = uncommitted_max_bytes
        self._cache_max_bytes = cache_max_bytes
        self._pace = pace
        self._commit = commit
        self._flush_growth = FlushGrowth()
        self._ran_last: TaskId | None = None
        self.uncommitted_bytes = 0
        self.max_uncommitted_bytes = 0
        self.cached_bytes = 0

    def round(self, now_ms: int) -> int:
        """Let each task that is ready process one run, unless the group must be polled before.

        The next round begins where this one has ended.

        Args:
            now_ms: Wall-clock time of this iteration (ms).

        Returns:
            How many records were processed.
        """
        processed = 0
        self.measure()  # Punctuations and the start of tasks write as well.
        self._producers.membership.is_doubtful()  # It may have stood still while it polled.
        for task in self._in_turn():
            task.record.now_ms = now_ms
            if not task.ready(now_ms):
                continue
            run = task.next_run(RUN_RECORDS)
            if run is None:
                continue
            queue, count = run
            count = min(count, self._pace.begin_run(queue.partition))
            admission = self._admit(task, queue, count)
            if not admission.records:
                if not self._commit():
                    return processed
                self._pace.begin_run(queue.partition)
                admission = self._admit(task, queue, count)
            if not admission.records:
                continue
            with _left_to_the_commit(task):
                processed += self._run(task, queue, admission)
            self._ran_last = task.task_id
            due = task.commit_requested or not self._pace.until_commit_ms()
            if (due and not self._commit()) or self._pace.poll_due():
                break
        return processed

    def punctuate(self, now_ms: int) -> int:
        """Fire wall-clock punctuations of all tasks; return how many fired."""
        fired = 0
        for task in list(self._manager.running()):
            if not task.wall_clock_due(now_ms):
                continue
            growth, limit_bytes = task.growth, self._uncommitted_max_bytes
            before = self._expected_bytes()
            if not growth.admits_punctuations(before, limit_bytes):
                if not self._commit():
                    break
                before = self._expected_bytes()
            task.record.now_ms = now_ms
            with _left_to_the_commit(task):
                fired += task.punctuate_wall_clock(now_ms)
            self.measure()
            growth.observe_punctuations(self._expected_bytes() - before)
            self.send(task)
        return fired

    @property
    def over_limit(self) -> bool:
        """Whether stores hold more uncommitted than they may: a commit is due."""
        limit_bytes = self._uncommitted_max_bytes
        return limit_bytes != UNLIMITED and self._expected_bytes() > limit_bytes

    def send(self, task: StreamTask) -> None:
        """Hand what a task left in its buffers to its producer.

        When that fails, a commit is due: it meets the same trouble, and knows how to recover. So it
        is after the thread stood still, when nothing may be sent.
        """
        if self._producers.membership.is_doubtful():
            task.request_commit()
            return
        try:
            self._producers.of_task(task.task_id).send(task.outputs())
        except (RetriableClientError, TransactionAbortableError) as error:
            _log.warning("sending failed", task=str(task.task_id), why=str(error))
            task.request_commit()

    def flush_caches(self) -> None:
        """Log and forward what record caches hold."""
        cached, before = self.cached_bytes, self.uncommitted_bytes
        if not cached:
            return
        for task in self._manager.running():
            with _left_to_the_commit(task):
                task.flush_caches()
        self.measure()
        self._flush_growth.observe(cached, self.uncommitted_bytes - before)

    def measure(self) -> None:
        """Bring the byte counts up to date, after a run or a commit."""
        uncommitted = cached = 0
        for task in self._manager.running():
            uncommitted += task.state_manager.uncommitted_bytes()
            cached += task.state_manager.cached_bytes()
        self.uncommitted_bytes = uncommitted
        self.cached_bytes = cached
        self.max_uncommitted_bytes = max(self.max_uncommitted_bytes, uncommitted)

    def _in_turn(self) -> list[StreamTask]:
        """Return the tasks that run, beginning behind the one that ran last."""
        running = list(self._manager.running())
        places = (place for place, task in enumerate(running, 1) if task.task_id == self._ran_last)
        first = next(places, 0)
        return running[first:] + running[:first]

    def _admit(self, task: StreamTask, queue: RecordQueue, count: int) -> Admission:
        return task.growth.admit(
            queue,
            count,
            uncommitted_bytes=self._expected_bytes(),
            limit_bytes=self._uncommitted_max_bytes,
        )

    def _run(self, task: StreamTask, queue: RecordQueue, admission: Admission) -> int:
        before = self._expected_bytes()
        room_bytes = admission.room_bytes
        if room_bytes is not None and self._cache_max_bytes:
            # Stores see what is written to them, not what flushing it will write.
            room_bytes -= self._flush_growth.part_of(room_bytes)
        processed = task.process(queue, admission.records, room_bytes)
        task.punctuate_stream_time()
        self._pace.end_run(queue.partition, processed)
        self.measure()
        growth_bytes = self._expected_bytes() - before
        task.growth.observe(admission, growth_bytes, self._uncommitted_max_bytes)
        if self.cached_bytes > self._cache_max_bytes or self._flush_growth.is_due(
            self.cached_bytes, self._uncommitted_max_bytes
        ):
            self.flush_caches()
            for other in self._manager.running():
                self.send(other)
        self.send(task)
        return processed

    def _expected_bytes(self) -> int:
        """Return what stores hold uncommitted, or will once the caches are flushed."""
        return self.uncommitted_bytes + self._flush_growth.expected(self.cached_bytes)


@contextmanager
def _left_to_the_commit(task: StreamTask) -> Iterator[None]:
    """Let a task that met damage ask for a commit: it meets the same, and knows how to recover."""
    try:
        yield
    except TaskCorruptedError:
        task.request_commit()
