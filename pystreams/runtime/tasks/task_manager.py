"""The tasks of one thread: made and closed as partitions come and go.

Partitions are assigned one by one, tasks need all of theirs: a task of a sub-topology exists
while all partitions of its number are assigned. Rebalances only change the books here; opening,
restoring and starting happens in `advance`, from the loop, one step at a time, so that a slow
task never holds up the others.

    assigned -> pending -> (lock, stores, producer fenced) -> restoring -> running

The order in which a task looks at the broker is what makes a takeover exact. First its producer
is fenced, then the committed offsets are read, which waits for offsets pending in a transaction
of the last owner; only then the changelogs' ends. Whatever the offsets cover lies below those
ends, decided or not: the restore waits for what is not (see `restorer`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial

from pystreams.errors import (
    RetriableClientError,
    TaskCorruptedError,
    TaskLockedError,
    TransactionAbortableError,
)
from pystreams.ids import TaskId, TopicPartition
from pystreams.kernel.loggers import get_logger
from pystreams.runtime.cluster.committed_offsets import CommittedOffset
from pystreams.runtime.core.lifecycle import TaskState
from pystreams.runtime.core.task import StreamTask
from pystreams.runtime.ports import ConsumerPort
from pystreams.runtime.settings import of_one_thread
from pystreams.runtime.tasks.active_tasks import ActiveTasks
from pystreams.runtime.tasks.assigned_partitions import AssignedPartitions
from pystreams.runtime.tasks.changelog_rewrite import Relogging
from pystreams.runtime.tasks.foreign_records import tell_of_those_left
from pystreams.runtime.tasks.pending_tasks import PendingTasks
from pystreams.runtime.tasks.producers import TaskProducers
from pystreams.runtime.tasks.restoring.deleted_windows import tell_deleted_windows
from pystreams.runtime.tasks.restoring.restorer import Restorer
from pystreams.runtime.tasks.restoring.standby_tasks import StandbyTasks
from pystreams.runtime.tasks.start_positions import start_positions
from pystreams.runtime.tasks.thread_parts import ThreadParts

_log = get_logger("pystreams.tasks")


class TaskManager:
    """Makes, advances and closes the tasks of one thread.

    Attributes:
        tasks: All tasks by id, in whatever state.
        active: Those of the running ones that have something to do.
        ledger: What the stores of all of them hold.
        closed_records: Records processed by tasks that are gone.
        closed_dropped: Records that they dropped.
        closed_calls_again: How often they called functions again with a record.
        created_tasks: Tasks made so far.
        closed_tasks: Tasks closed so far.
        assigned: The partitions that the thread is assigned.
        standbys: What it keeps warm for others.
    """

    def __init__(
        self,
        parts: ThreadParts,
        consumer: Callable[[], ConsumerPort],
        producers: TaskProducers,
        restorer: Restorer,
    ) -> None:
        self.tasks: dict[TaskId, StreamTask] = {}
        self.active = ActiveTasks()
        self.closed_records = 0
        self.closed_dropped = 0
        self.closed_calls_again = 0
        self.created_tasks = 0
        self.closed_tasks = 0
        self._plan = parts.plan
        self._idempotent = parts.settings.idempotent
        read_cache_max_bytes = parts.settings.memory.read_cache_max_bytes
        self._settings = of_one_thread(parts.task_settings, read_cache_max_bytes)
        self.ledger = self._settings.stores.ledger
        self.standbys = StandbyTasks(parts, self._settings, restorer, self.tasks)
        self._consumer = consumer
        self._producers = producers
        self._restorer = restorer
        self._relogging = Relogging(producers, consumer)
        self._directories = parts.directories
        self._offset_ranges = parts.admin.offset_ranges
        self._input_topics = parts.input_topics
        self._clock = parts.clock
        self.assigned = AssignedPartitions(parts)
        self._task_of: dict[TopicPartition, StreamTask] = {}
        self._pending = PendingTasks(parts.clock, parts.settings.task_timeout_ms)
        restorer.heard = self._pending.heard
        self._committed: dict[TaskId, dict[TopicPartition, CommittedOffset]] = {}
        # The running tasks, and how many changes of the books they are from. Other threads, which
        # count tasks, may keep an old list at any moment: its number tells the loop.
        self._changes = 0
        self._running: tuple[int, list[StreamTask]] = (0, [])

    # ------------------------------------------------------------------ what the loop reads

    def running(self) -> list[StreamTask]:
        """Return the running tasks, in order of their ids; may be called from any thread."""
        changes = self._changes
        known_since, running = self._running
        if known_since != changes:
            running = [
                task for _, task in sorted(self.tasks.items()) if task.state is TaskState.RUNNING
            ]
            self._running = (changes, running)
        return running

    def task_of(self, partition: TopicPartition) -> StreamTask | None:
        """Return the task that reads a partition."""
        return self._task_of.get(partition)

    def undecided(self) -> list[tuple[Sequence[TopicPartition], TopicPartition, int]]:
        """Return `Restorer.undecided`, with what the tasks read in place of their ids."""
        found = self._restorer.undecided()
        return [(self.tasks[task_id].partitions, at, end) for task_id, at, end in found]

    def settled(self) -> bool:
        """Return whether all tasks run."""
        return not self.assigned.waits and len(self.running()) == len(self.tasks)

    # ------------------------------------------------------------------ assignment

    def take_assigned(self) -> None:
        """Make the tasks that what is assigned completes; suspended ones come back, or are closed.

        A task whose set of partitions changes is made anew, so nothing may be left uncommitted.
        While no broker tells which tasks there are, nothing is done.
        """
        complete = self.assigned.tasks()
        if complete is None:
            return
        self._changes += 1
        self._close(
            task
            for task_id, needed in complete.items()
            # A topic came or went (a pattern, more partitions): the task is made anew.
            if (task := self.tasks.get(task_id)) is not None and set(task.partitions) != set(needed)
        )
        for task_id, needed in complete.items():
            known = self.tasks.get(task_id)
            if known is None:
                self._make(task_id, needed)
            elif known.state is TaskState.SUSPENDED:
                known.revive()
                self._pending.arrives(task_id)
        self._close(task for task in self.tasks.values() if task.state is TaskState.SUSPENDED)

    def complete(self) -> None:
        """Make the tasks that lack nothing any more, now that topics of a pattern are gone."""
        complete = None if self.assigned.waits else self.assigned.tasks()
        for task_id, needed in (complete or {}).items():
            if task_id not in self.tasks:
                self._make(task_id, needed)

    def revoke(self, partitions: Iterable[TopicPartition], *, keep: bool) -> None:
        """Give partitions up, after their tasks were committed.

        Args:
            keep: Suspend running tasks instead of closing them: the next assignment probably
                brings them back.
        """
        closing = []
        for task in self._tasks_reading(partitions):
            if keep and task.state is TaskState.RUNNING:
                task.suspend()
                self.active.forget(task)
                self._changes += 1
            else:
                closing.append(task)
        self._close(closing)
        self.assigned.remove(partitions)

    def lose(self, partitions: Iterable[TopicPartition]) -> None:
        """Drop partitions that belong to somebody else: their tasks close without a commit."""
        self._close(self._tasks_reading(partitions))
        self.assigned.remove(partitions)

    def close_all(self) -> None:
        """Close all tasks and forget the assignment.

        Raises:
            ProcessingError: A processor's `close` raised; the others were closed all the same.
        """
        self.assigned.clear()
        self._close(self.tasks.values())

    def _close(self, tasks: Iterable[StreamTask]) -> None:
        """Close tasks, dropping what they have not committed, and free their directories.

        Their producers are released side by side: each may wait for a broker for seconds. Of
        several errors the first is raised; all are told.
        """
        first_error: Exception | None = None
        dropped = []
        try:
            for task in list(tasks):
                dropped.append(task)
                try:
                    self._drop(task)
                except Exception as error:  # noqa: BLE001 - of a store of the user's, say
                    first_error = first_error or error
                    _log.error("task not closed well", task=str(task.task_id), error=str(error))
        finally:
            self._let_go(dropped)
        if first_error is not None:
            raise first_error

    def _drop(self, task: StreamTask) -> None:
        self._restorer.forget(task.state_manager)
        self._relogging.forget(task)
        self._pending.forget(task.task_id)
        self._committed.pop(task.task_id, None)
        # Side by side: a reader of both counts neither twice nor, for long, not at all.
        del self.tasks[task.task_id]
        self.active.forget(task)
        self.closed_records += task.counts.processed
        self.closed_dropped += task.counts.dropped
        self.closed_calls_again += task.counts.calls_again
        for partition in task.partitions:
            self._task_of.pop(partition, None)
        self._changes += 1
        self.closed_tasks += 1
        try:
            if self._idempotent:  # Others may write a record twice.
                tell_of_those_left(task)
        finally:
            task.close()
        _log.debug("task closed", task=str(task.task_id))

    def _let_go(self, tasks: Sequence[StreamTask]) -> None:
        try:
            self._producers.release_tasks(task.task_id for task in tasks)
        finally:
            for task in tasks:
                self._directories.unlock_task(task.task_id)

    # ------------------------------------------------------------------ recovery

    def revive(self, tasks: Iterable[StreamTask]) -> None:
        """Roll tasks back to their last commit and let them go on from there."""
        for task in tasks:
            self._restorer.forget(task.state_manager)
            self._relogging.forget(task)
            task.revive()
            self.active.forget(task)
            self._consumer().pause(task.partitions)
            self._pending.add(task.task_id)
        self._changes += 1

    # ------------------------------------------------------------------ advance

    def advance(self) -> None:
        """Bring pending tasks one step further: lock, open, fence, begin to restore.

        Where one waits for the broker in vain, the others are left for the next call: each would
        wait as long.

        Raises:
            BrokerNotAvailableError: One has waited in vain for `task.timeout.ms`.
            StateStoreError: A store can't be opened.
        """
        if not self._pending:
            return
        due = [self.tasks[task_id] for task_id in self._pending.due()]
        # Those that stay go first: to open the stores of the others takes the thread's time.
        stay = [task for task in due if task.state is not TaskState.CREATED]
        opened = [task for task in stay or due if self._open(task)]
        self._restorer.expect(task.state_manager for task in opened)
        asked_ms = self._clock.monotonic_ms()
        failed = self._producers.initialize(task.task_id for task in opened)
        for task, error in zip(opened, failed, strict=True):
            try:
                if error is not None:
                    raise error
                self._pending.began(task.task_id)
                self._begin(task)
            except RetriableClientError as raised:
                if self._pending.failed(task.task_id, raised, asked_ms):
                    return
            asked_ms = self._clock.monotonic_ms()

    def restore(self, timeout_s: float) -> None:
        """Restore one batch and start the tasks that are done.

        Raises:
            BrokerNotAvailableError: One has waited in vain for `task.timeout.ms`.
        """
        for task_id in self._restorer.poll(0.0 if self._pending.due() else timeout_s):
            asked_ms = self._clock.monotonic_ms()
            try:
                self._producers.of_task(task_id).initialize()  # It may be another by now.
                self._start(self.tasks[task_id])
            except RetriableClientError as error:
                self._pending.failed(task_id, error, asked_ms)

    def _open(self, task: StreamTask) -> bool:
        """Lock a task's directory and open its stores; return False when somebody has the lock."""
        if task.state is not TaskState.CREATED:
            return True
        try:
            directory = self._directories.lock_task(task.task_id)
        except TaskLockedError as error:
            self._pending.locked(task.task_id, error)
            self._directories.ask_for(task.task_id)
            return False
        task.open(directory)
        return True

    def _begin(self, task: StreamTask) -> None:
        """Learn where a task goes on, and begin to restore it, or start it at once."""
        if self._relogging.active(task):
            self._start(task)
            return
        committed = self._consumer().committed(task.partitions)
        committed = self._input_topics.of_present_topics(committed)
        self._committed[task.task_id] = committed
        next_offsets = {partition: offset.next_offset for partition, offset in committed.items()}
        at_end = self._restorer.begin(task.state_manager, next_offsets)
        tell_deleted_windows(task.state_manager, committed.values(), self._clock.now_ms())
        left = 0 if at_end else self._restorer.remaining_records().get(task.task_id, 0)
        self.standbys.taken_over(task.task_id, left)
        if at_end:
            self._start(task)
        else:
            self._pending.restores(task.task_id)

    def _start(self, task: StreamTask) -> None:
        """Start a restored task where the committed offsets say; log stores anew before."""
        if self._relogging.wanted(task):
            self._pending.add(task.task_id)
            self._relogging.write_some(task)
            self._pending.went_on(task.task_id)
            return
        committed = self._committed[task.task_id]
        present = partial(self._consumer().committed, task.partitions)
        self._input_topics.check_offsets(task, committed, present)
        # This may fail for now and be tried again; a task starts once.
        self._consumer().start_at(
            start_positions(
                self._plan, task.task_id, task.partitions, committed, self._offset_ranges
            )
        )
        del self._committed[task.task_id]
        try:
            task.start(committed, self._clock.now_ms())
        except TaskCorruptedError:
            self.revive([task])
            return
        except TransactionAbortableError as error:  # The broker gives no answer to a processor.
            self.revive([task])
            raise RetriableClientError(str(error)) from error
        self._pending.went_on(task.task_id)
        moved = self._pending.arrived(task.task_id) and bool(committed)
        (self.active.goes_on if moved else self.active.note)(task)
        self._changes += 1
        _log.debug(
            "task running",
            task=str(task.task_id),
            positions={str(key): offset.next_offset for key, offset in committed.items()},
        )
        if not self._pending and self.settled():
            _log.info("all tasks run", tasks=len(self.tasks))

    # ------------------------------------------------------------------ inside

    def _make(self, task_id: TaskId, partitions: list[TopicPartition]) -> None:
        subtopology = self._plan.by_id[task_id.subtopology]
        task = StreamTask(
            task_id,
            self._plan,
            subtopology,
            partitions,
            replace(
                self._settings,
                read_to_end=lambda read: self._consumer().read_to_end(read),
                monotonic_ms=lambda: int(self._clock.monotonic_ms()),
            ),
            lambda partition: self._consumer().known_lag(partition),
            self.standbys.promote(task_id, partitions),
        )
        self.tasks[task_id] = task
        self.created_tasks += 1
        for partition in task.partitions:
            self._task_of[partition] = task
        self._pending.arrives(task_id)

    def _tasks_reading(self, partitions: Iterable[TopicPartition]) -> list[StreamTask]:
        found = dict.fromkeys(map(self._task_of.get, partitions))
        return [task for task in found if task is not None]
