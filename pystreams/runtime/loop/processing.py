"""One round of processing: runs of records through the tasks, within the thread's byte limits.

Before each run the thread asks how many records may be processed below
`statestore.uncommitted.max.bytes`, and how much they may write; when none may, it commits first.
After each run what tasks left in their buffers goes to the producer, record caches above their
share are flushed, and what is processed is committed when that is due.

Spec: KIP-892 "In-memory Transaction Buffers".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from enum import Enum

from pystreams.errors import (
    RetriableClientError,
    TaskCorruptedError,
    TransactionAbortableError,
)
from pystreams.kernel.clock import Clock
from pystreams.kernel.loggers import get_logger
from pystreams.runtime.core.lifecycle import TaskState
from pystreams.runtime.core.queues.record_run import Run
from pystreams.runtime.core.task import StreamTask
from pystreams.runtime.core.uncommitted_growth import (
    UNLIMITED,
    Admission,
    FlushGrowth,
)
from pystreams.runtime.loop.loop_timing import LoopTiming
from pystreams.runtime.ports import PartitionBatch
from pystreams.runtime.settings import MemoryLimits
from pystreams.runtime.tasks.producers import TaskProducers
from pystreams.runtime.tasks.task_manager import TaskManager

_log = get_logger("pystreams.processing")


class Doing(Enum):
    """What a task does when user code may be called, in words."""

    RECORD = "is at the record"
    HELD_RECORD = "is at a record that it held back (retry=, map_values_async, map_values_batch)"
    PUNCTUATION = "fires a punctuation on the wall clock"
    FLUSH = "forwards what its record caches hold"


class Processing:
    """Processes records for one thread.

    Args:
        memory: What the thread's stores may hold.
        timing: How far a run goes, and when a commit is due.
        commit: Commits all tasks; returns False when that failed for some of them.

    Attributes:
        ledger: What the thread's stores hold.
        processed_records: Records processed so far.
        at_work: The task that does something at this moment, which may be user code, or None.
        doing: What that is.
    """

    def __init__(
        self,
        *,
        manager: TaskManager,
        producers: TaskProducers,
        memory: MemoryLimits,
        timing: LoopTiming,
        commit: Callable[[], bool],
        clock: Clock,
    ) -> None:
        self._manager = manager
        self._active = manager.active
        self._producers = producers
        self._uncommitted_max_bytes = memory.uncommitted_max_bytes
        self._cache_max_bytes = memory.cache_max_bytes
        self._timing = timing
        self._commit = commit
        self._clock = clock
        self._flush_growth = FlushGrowth()
        # Tasks of whose outputs some may not be sent: their producer had no room. In order.
        self._unsent: dict[StreamTask, None] = {}
        self._now_ms = self._monotonic_ms = 0
        self._refused = False
        self.ledger = manager.ledger
        self.processed_records = 0
        self.at_work: StreamTask | None = None
        self.doing = Doing.RECORD

    def buffer(self, batches: Iterable[PartitionBatch], now_ms: int) -> None:
        """Give tasks what was polled, at a time of the wall clock (ms)."""
        self._look_at_clocks(now_ms)
        for partition, messages in batches:
            task = self._manager.task_of(partition)
            # What arrives for a task that does not run yet is read again when it starts.
            if task is not None and task.state is TaskState.RUNNING:
                self._tell_time(task)
                task.add_records(partition, messages)
                self._active.note(task)

    def round(self, now_ms: int) -> int:
        """Let each task that is ready process one run, unless the group must be polled before.

        The next round begins where this one has ended.

        Args:
            now_ms: Wall-clock time of this iteration (ms).

        Returns:
            How many records were processed.
        """
        processed = 0
        refused = False
        self._look_at_clocks(now_ms)
        self._producers.membership.is_doubtful()  # It may have stood still while it polled.
        self._send_the_rest()
        for task in self._active.in_turn():
            run = self._next_run(task)
            if run is None:
                self._active.note(task)
                continue
            count = run.length_within(self._timing.run_records)
            admission = self._admit(task, run, count)
            if not admission.records:
                if not self._can_commit():
                    refused = True
                    continue
                if not self._commit():
                    return processed
                # What left a cache may have set off something that comes first.
                if (run := self._next_run(task)) is None:
                    continue
                admission = self._admit(task, run, count)
            if not admission.records:
                refused = True
                continue
            with _left_to_the_commit(task):
                processed += self._run(task, run, admission)
            self._active.ran(task)
            due = task.commit_requested or not self._timing.until_commit_ms()
            if (due and not self._commit()) or self._timing.poll_due():
                break
        self._refused = refused and not processed
        return processed

    def go_on(self, now_ms: int) -> None:
        """Let operators send on the records whose answers have come, or whose time."""
        self._look_at_clocks(now_ms)
        for task in self._active.awaiting():
            held = len(task.held)
            self._tell_time(task)
            with self._working(task, Doing.HELD_RECORD), _left_to_the_commit(task):
                task.go_on()
            if held > len(task.held):
                self.send(task)
            if task.held.commit_put_off and task.held.retry_at_ms is None:
                task.request_commit()
            self._active.note(task)

    def punctuate(self, now_ms: int) -> int:
        """Fire wall-clock punctuations of all tasks; return how many fired."""
        fired = 0
        self._look_at_clocks(now_ms)
        for task in self._active.punctuations_due(now_ms):
            growth, limit_bytes = task.growth, self._uncommitted_max_bytes
            before = self._expected_bytes()
            if not growth.admits_punctuations(before, limit_bytes):
                if not self._commit():
                    break
                before = self._expected_bytes()
            self._tell_time(task)
            with self._working(task, Doing.PUNCTUATION), _left_to_the_commit(task):
                fired += task.punctuate_wall_clock(now_ms)
            self._active.note(task)  # What it holds from now on is expected to write.
            growth.observe_punctuations(self._expected_bytes() - before)
            self.send(task)
        return fired

    @property
    def over_limit(self) -> bool:
        """Whether stores hold more uncommitted than they may: a commit is due, if there can be."""
        limit_bytes = self._uncommitted_max_bytes
        if limit_bytes == UNLIMITED or self._expected_bytes() <= limit_bytes:
            return False
        return self._can_commit()

    @property
    def waits_for_a_retry(self) -> bool:
        """Whether all room is taken by tasks that are not committed before a record is retried.

        Then no other task goes on either, and there is nothing to do but wait.
        """
        return self._refused and not self._can_commit()

    def send(self, task: StreamTask) -> None:
        """Hand what a task left in its buffers to its producer.

        When that fails, a commit is due: it meets the same trouble, and knows how to recover. So it
        is after the thread stood still, when nothing may be sent.
        """
        if self._producers.membership.is_doubtful():
            self._leave_to_the_commit(task)
            return
        try:
            self._producers.of_task(task.task_id).send(task.outputs())
        except (RetriableClientError, TransactionAbortableError) as error:
            _log.warning("sending failed", task=str(task.task_id), why=str(error))
            self._leave_to_the_commit(task)

    def _send_the_rest(self) -> None:
        """Send what could not be sent, before its tasks process more: it is not to pile up."""
        unsent, self._unsent = self._unsent, {}
        for task in unsent:
            if task.state is TaskState.RUNNING:
                self.send(task)

    def flush_caches(self) -> None:
        """Log and forward what record caches hold."""
        ledger = self.ledger
        cached, before = ledger.cached_bytes, self._written_bytes()
        if not cached:
            return
        for task in self._active.uncommitted():
            self._tell_time(task)
            with self._working(task, Doing.FLUSH), _left_to_the_commit(task):
                task.flush_caches()
            self._active.note(task)
        self._flush_growth.observe(cached, self._written_bytes() - before)

    @contextmanager
    def _working(self, task: StreamTask, doing: Doing) -> Iterator[None]:
        """Say what is done, for others to look at: where it never ends, they tell of it."""
        self.doing, self.at_work = doing, task
        try:
            yield
        finally:
            self.at_work = None

    def _look_at_clocks(self, now_ms: int) -> None:
        self._now_ms, self._monotonic_ms = now_ms, int(self._clock.monotonic_ms())

    def _tell_time(self, task: StreamTask) -> None:
        task.time.go_on(self._now_ms, self._monotonic_ms)

    def _can_commit(self) -> bool:
        """Return whether a commit would make room: not all put it off until a retry is over."""
        if not all(task.held.commit_put_off for task in self._active.uncommitted()):
            return True
        return all(task.held.retry_at_ms is None for task in self._active.awaiting())

    def _next_run(self, task: StreamTask) -> Run | None:
        """Return what a task is to process next, None when it is not ready."""
        if task in self._unsent or not task.ready(self._monotonic_ms):
            return None
        self._tell_time(task)
        return task.next_run(max(map(self._timing.run_records, task.partitions)))

    def _admit(self, task: StreamTask, run: Run, count: int) -> Admission:
        limit_bytes = self._uncommitted_max_bytes
        if task.held.possible and limit_bytes != UNLIMITED:
            # No store would end the run: it writes when it has ended.
            count = min(count, task.growth.per_input.fitting(limit_bytes))
        return task.growth.admit(
            run,
            count,
            uncommitted_bytes=self._expected_bytes(),
            limit_bytes=limit_bytes,
        )

    def _run(self, task: StreamTask, run: Run, admission: Admission) -> int:
        known, before = _is_known(task), self._expected_bytes()
        room_bytes = admission.room_bytes
        if room_bytes is not None and self._cache_max_bytes:
            # Stores see what is written to them, not what flushing it will write.
            room_bytes -= self._flush_growth.part_of(room_bytes)
        self._timing.begin_run()
        task.counts.nodes.begin_run()
        self.doing, self.at_work = Doing.RECORD, task
        processed = task.process(run, admission.records, room_bytes)
        self.processed_records += processed
        task.punctuate_stream_time()
        self.at_work = None
        self._timing.end_run({queue.partition: count for queue, count in run.taken().items()})
        task.counts.measure_latency(self._clock.now_ms())
        if task.held.possible:
            self._active.note(task)
        known = known and _is_known(task)
        growth_bytes = (self._expected_bytes() if known else self.ledger.uncommitted_bytes) - before
        task.growth.observe(admission, growth_bytes, self._uncommitted_max_bytes)
        if task.held.possible and known and processed:
            task.growth.per_input.observe(processed, growth_bytes)
        cached_bytes = self.ledger.cached_bytes
        if cached_bytes > self._cache_max_bytes or self._flush_growth.is_due(
            cached_bytes, self._uncommitted_max_bytes
        ):
            self._active.note(task)
            self.flush_caches()
            for other in self._active.uncommitted():
                self.send(other)
        self.send(task)
        return processed

    def _leave_to_the_commit(self, task: StreamTask) -> None:
        self._unsent[task] = None
        task.request_commit()
        self._active.note(task)

    def _expected_bytes(self) -> int:
        """Return what stores hold uncommitted, or will when caches are flushed and answers come."""
        return self._written_bytes() + self._flush_growth.expected(self.ledger.cached_bytes)

    def _written_bytes(self) -> int:
        """Return what stores hold uncommitted, or will when answers come."""
        limit_bytes, written = self._uncommitted_max_bytes, self.ledger.uncommitted_bytes
        if limit_bytes != UNLIMITED:
            for task in self._active.awaiting():
                written += task.growth.held.expected(len(task.held), limit_bytes)
        return written


def _is_known(task: StreamTask) -> bool:
    """Whether it is more than a guess what the records of a task will write that it holds back."""
    return task.growth.held.seen or not task.held


@contextmanager
def _left_to_the_commit(task: StreamTask) -> Iterator[None]:
    """Let a task that met trouble ask for a commit: it meets the same, and knows how to recover."""
    try:
        yield
    except (TaskCorruptedError, TransactionAbortableError):
        task.request_commit()
