"""The stream thread: the one loop that does I/O.

    poll -> (assignment changes) -> buffer -> advance and restore tasks
         -> process, punctuate -> commit when it is time -> poll ...

The consumer calls back into the loop only from within `poll` and `close`; what it says becomes a
change of the task manager's books, and a commit of what is revoked. Nothing else re-enters.

Recovery, by the error a commit ends with:

- `TransactionAbortableError`, `TaskCorruptedError`, `RetriableClientError` under EOS: abort, roll
  the tasks back to their last commit, read again from there. Stores are kept, but damaged ones.
- `RetriableClientError` under at-least-once: try again; nothing was rolled back.
- `TaskMigratedError`: drop all tasks without a commit, keep their stores, join the group again.
- anything else ends the thread, and with it the application.

Source: Kafka Streams' `StreamThread`; Spec: KIP-129, KIP-892 "Error Handling".
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Mapping

from pystreams.config import ProcessingGuarantee
from pystreams.errors import StreamsError, TaskMigratedError, as_streams_error
from pystreams.ids import TaskId, TopicPartition, by_topic
from pystreams.kernel.loggers import get_logger
from pystreams.kernel.user_tracebacks import traceback_field
from pystreams.runtime.adapters.loop_thread import RAISED_BY_CODE
from pystreams.runtime.core.task import StreamTask
from pystreams.runtime.loop.commit_recovery import CommitRecovery
from pystreams.runtime.loop.input_flow import InputFlow
from pystreams.runtime.loop.loop_timing import LoopTiming
from pystreams.runtime.loop.membership.arriving import Arrival
from pystreams.runtime.loop.membership.group_watch import GroupWatch
from pystreams.runtime.loop.membership.waiting_for_partitions import WaitingForPartitions
from pystreams.runtime.loop.membership.warming_up import WarmUp
from pystreams.runtime.loop.processing import Processing
from pystreams.runtime.loop.repartition_purge import RepartitionPurge
from pystreams.runtime.loop.reports.asked_ends import AskedEnds, PartitionsInTurn
from pystreams.runtime.loop.reports.statistics import ThreadStatistics
from pystreams.runtime.loop.reports.summary_line import SummaryLine
from pystreams.runtime.loop.reports.thread_metadata import ThreadMetadata
from pystreams.runtime.loop.reports.thread_metrics import Metrics, ThreadMetrics
from pystreams.runtime.loop.reports.thread_report import DoubtfulPartitions, ThreadReport
from pystreams.runtime.ports import ConsumerPort
from pystreams.runtime.tasks.committer import Committer
from pystreams.runtime.tasks.concurrent_calls import ConcurrentCalls
from pystreams.runtime.tasks.failing_tasks import FailingTasks
from pystreams.runtime.tasks.foreign_records import ForeignRecords
from pystreams.runtime.tasks.producers import TaskProducers
from pystreams.runtime.tasks.restoring.restorer import restorer_of_thread
from pystreams.runtime.tasks.standstill_guard import Membership
from pystreams.runtime.tasks.stop_order import StopOrder
from pystreams.runtime.tasks.task_manager import TaskManager
from pystreams.runtime.tasks.thread_parts import ThreadParts

_log = get_logger("pystreams.thread")


class StreamThread:
    """One loop with its consumer, producers and tasks.

    `run` blocks until `stop` is called (from any thread) or an error ends the loop; the error is
    then in `error`. Everything else belongs to the thread that runs. A simulation calls what
    `run` consists of itself: `join_group`, `run_once` as often as it likes, `shut_down`.

    Args:
        index: The thread's number in its process, from 1.

    Attributes:
        name: `<client id>-StreamThread-<index>`.
        error: What ended the loop, or None.
        leave_group: Whether it leaves the group when it ends, also as a static member.
    """

    def __init__(self, index: int, parts: ThreadParts) -> None:
        self.name = f"{parts.identity.client_id}-StreamThread-{index}"
        self.error: StreamsError | None = None
        self._parts = parts
        self._settings, self._clock = parts.settings, parts.clock
        self._instance_id = f"{parts.identity.group_instance_id}-{index}"
        self._stop = StopOrder(parts.make_stop_event(), parts.clock)
        self.leave_group = not parts.identity.survives
        self._consumer = self._make_consumer()
        self._concurrent = ConcurrentCalls(parts.make_waiting_pool)
        membership = Membership(parts.clock, parts.settings, lambda: self._consumer)
        self._producers = TaskProducers(
            parts,
            thread_index=index,
            client_id=self.name,
            membership=membership,
            stop=self._stop,
            concurrent=self._concurrent,
        )
        self._restorer = restorer_of_thread(self.name, parts)
        self._manager = TaskManager(parts, lambda: self._consumer, self._producers, self._restorer)
        reader = f"{self.name}-foreign-records"
        foreign = ForeignRecords(parts, membership, reader)
        self._committer = Committer(
            lambda: self._consumer, self._producers, self._concurrent, foreign, self._stop
        )
        self._timing = LoopTiming(parts.clock, parts.settings.commit_interval_ms)
        self._processing = Processing(
            manager=self._manager,
            producers=self._producers,
            memory=parts.settings.memory,
            timing=self._timing,
            commit=self._commit,
            clock=parts.clock,
        )
        self._input = InputFlow(parts.settings.polls, self._manager, lambda: self._consumer)
        recording, clock, admin = parts.task_settings.stores.recording, parts.clock, parts.admin
        self._purge = RepartitionPurge(parts.plan, parts.settings, self._manager, admin, clock)
        self._summary = SummaryLine(self.name, parts.settings.log_summary_interval_ms, parts.clock)
        in_turn = PartitionsInTurn(self._manager)
        self._ends = AskedEnds(parts, in_turn, lambda ends: self._consumer.note_ends(ends))  # noqa: PLW0108 - a consumer may be made anew
        self._report = ThreadReport(
            manager=self._manager,
            restorer=self._restorer,
            committer=self._committer,
            processing=self._processing,
            consumer=lambda: self._consumer,
            doubtful=DoubtfulPartitions(lambda: self._group.unread_partitions, self._ends.silent),
            clock=parts.clock,
        )
        self._metrics = ThreadMetrics(self.name, self._manager, self._restorer, recording, clock)
        self._waiting = WaitingForPartitions(self.name, clock, parts.settings.membership)
        self._failing = FailingTasks(parts.clock, parts.settings.task_timeout_ms)
        self._recovery = CommitRecovery(self._producers, self._failing, self._stop, self._revive)
        self._group = GroupWatch(
            self.name, parts, self._manager, lambda: self._consumer, self._waiting, self.join_group
        )
        warm_up = WarmUp(self.name, index, parts, self._manager.standbys)
        self._arrival = Arrival(self.name, parts, self._group.is_told_to_end, warm_up)

    # ------------------------------------------------------------------ from any thread

    def stop(self, *, leave_group: bool | None = None) -> None:
        """Ask the loop to commit and end; see `KafkaStreams.close`."""
        if leave_group is not None:
            self.leave_group = leave_group
        self._stop.give()

    @property
    def settled(self) -> bool:
        """Whether it knows its share of the group's partitions and all their tasks run.

        A member that the group has put out has no tasks and knows no share. Under KIP-848 that
        is believed for a session and 15 s: then it is taken for one without partitions.
        """
        return not self._waiting.lasts and self._manager.settled()

    @property
    def tasks(self) -> Mapping[TaskId, StreamTask]:
        """Its tasks, in whatever state; others may look at them."""
        return self._manager.tasks

    def statistics(self) -> ThreadStatistics:
        """Return the numbers the loop has published last, at most a poll or a commit ago."""
        return self._report.latest

    def metadata(self) -> ThreadMetadata:
        """Return what it and its tasks are doing."""
        limit_ms = self._settings.membership.max_poll_interval_ms
        found = self._report.metadata(self.name, limit_ms, self._timing.emptied_ms)
        return self._arrival.told(found, self._waiting.for_whom)

    def metrics(self) -> Metrics:
        """Return its metrics, its tasks' and its stores', as they are now."""
        return self._metrics.read(self._group.unread_partitions, self._report.lags())

    # ------------------------------------------------------------------ the loop

    def run(self) -> None:
        """Run until stopped, and keep what ended it in `error`; `shut_down` comes next."""
        try:
            self.join_group()
            while not self._stop.is_given:
                self.run_once()
        except RAISED_BY_CODE as error:
            self._failed("stream thread failed", error)

    def join_group(self) -> None:
        """Subscribe to the topology's topics, as soon as nothing is against it."""
        self._arrival.join(self._subscribe)

    def _subscribe(self) -> None:
        self._waiting.begins()
        self._group.joins()
        self._producers.prepare()
        self._consumer.subscribe(*self._parts.plan.consumed(), self)

    def run_once(self) -> int:
        """Run one iteration; return how many records it processed, 0 when it joined again."""
        try:
            self._arrival.go_on()
            if not self._arrival.waits:
                self._waiting.check()
            return self._iterate()
        except TaskMigratedError as error:
            self._rejoin(error)
            return 0

    def _iterate(self) -> int:
        paused, monotonic_ms = self._parts.paused.is_set(), int(self._clock.monotonic_ms())
        active = self._manager.active.in_turn()
        busy = not paused and any(task.ready(monotonic_ms) for task in active)
        moving = self._restorer.active or self._manager.standbys.catching_up
        at_once = (busy and not self._processing.waits_for_a_retry) or (moving and not paused)
        timeout_s = 0.0
        if not at_once:
            asks = self._group.asks
            timeout_s = self._input.poll_timeout_s(self._timing, monotonic_ms, asks_of_group=asks)
        limit = self._settings.polls.max_poll_records
        batches = self._consumer.poll(limit, timeout_s)
        self._timing.polled()
        paused = self._parts.paused.is_set()  # Again: what came after `pause` is left alone.
        records = sum(len(messages) for _, messages in batches)
        self._timing.brought(records, idle=timeout_s > 0 or not busy, limit=limit)
        self._metrics.polled(records)
        self._processing.buffer(batches, self._clock.now_ms())
        self._group.check()
        if self._manager.assigned.is_to_be_asked:
            self._take_assigned()
        if self._group.ready:
            self._manager.advance()
        if self._restorer.active and not paused:
            self._report.publish_if_due()
            self._manager.restore(0.0 if busy else self._settings.polls.poll_ms / 1000)
        elif not paused:
            self._manager.standbys.follow(busy=busy)
        now_ms = self._clock.now_ms()
        processed = 0
        while True:
            self._processing.go_on(now_ms)
            here = 0 if paused else self._processing.round(now_ms)
            processed += here
            if not here or self._stop.is_given or self._timing.poll_due():
                break
        if not paused:
            self._processing.punctuate(now_ms)
        self._maybe_commit()
        self._input.balance(batches)
        self._ends.check()
        self._report.publish_if_due()
        self._summary.log_if_due(self._report.latest)
        return processed

    # ------------------------------------------------------------------ rebalance listener

    def on_partitions_assigned(self, partitions: list[TopicPartition]) -> None:
        """Take partitions; called from within `poll`."""
        _log.info("partitions assigned", thread=self.name, partitions=by_topic(partitions))
        self._manager.assigned.add(partitions)
        self._take_assigned()
        self._waiting.ends()
        self._group.shared_out()

    def _take_assigned(self) -> None:
        self._commit(leaving=True)  # An answer may take longer than a transaction may.
        self._manager.take_assigned()

    def on_partitions_revoked(self, partitions: list[TopicPartition]) -> None:
        """Commit and give partitions up; called from within `poll` and `close`."""
        _log.info("partitions revoked", thread=self.name, partitions=by_topic(partitions))
        self._commit(leaving=True)
        self._waiting.begins_by_revocation()
        self._group.joins()
        keep = self._settings.membership.static and not self._stop.is_given
        self._manager.revoke(partitions, keep=keep)
        self._input.forget(partitions)
        self._ends.forget(partitions)

    def on_partitions_lost(self, partitions: list[TopicPartition]) -> None:
        """Drop partitions that belong to somebody else; called from within `poll`."""
        _log.warning("partitions lost", thread=self.name, partitions=by_topic(partitions))
        self._waiting.begins()
        self._manager.lose(partitions)
        self._input.forget(partitions)
        self._ends.forget(partitions)
        of_thread = self._settings.guarantee is ProcessingGuarantee.EXACTLY_ONCE_V2
        if of_thread and any(producer.in_transaction for producer in self._producers.all()):
            # It holds what the lost tasks have sent, which must never be committed. Where it can't
            # be aborted soon, the next producer does that before anything else is sent.
            self._producers.close()
            self._revive(self._manager.running())
            if not self._stop.is_given:
                self._producers.prepare()
        self._waiting.begins()  # Again: that may have waited for the broker.

    # ------------------------------------------------------------------ commit

    def _maybe_commit(self) -> None:
        asked = self._manager.active.commit_requested
        if asked or self._processing.over_limit or not self._timing.until_commit_ms():
            self._commit()

    def _commit(self, *, leaving: bool = False) -> bool:
        """Commit all running tasks; return False when some of them could not."""
        started_ms = self._clock.monotonic_ms()
        self._processing.flush_caches()
        committing = self._manager.active.to_be_committed(started_ms)
        failures = self._committer.commit(committing, leaving=leaving)
        self._manager.active.committed(committing)
        self._timing.committed()
        succeeded = {task.task_id for task in committing}
        succeeded -= {task.task_id for failure in failures for task in failure.unit.tasks}
        # What waits for a record to be tried again was put off, neither committed nor failed.
        if any(task.task_id in succeeded and not task.held.commit_put_off for task in committing):
            self._metrics.committed(started_ms, self._timing.committed_ms)
        self._failing.keep(self._manager.tasks, succeeded, self._consumer.known_lag)
        if failures:
            self._recovery.recover(failures)
        self._purge.after_commit(self._timing.committed_ms)
        return not failures

    def _revive(self, tasks: Collection[StreamTask]) -> None:
        """Roll tasks back to their last commit; they go on from there."""
        self._manager.revive(tasks)
        for task in tasks:
            self._input.forget(task.partitions)

    # ------------------------------------------------------------------ group membership

    def _make_consumer(self) -> ConsumerPort:
        client_id = self._parts.identity.consumer_id(self.name)
        return self._parts.clients.consumer(client_id, self._instance_id)

    def _rejoin(self, error: TaskMigratedError) -> None:
        """Drop what may belong to somebody else and join the group again with a new client."""
        stops = self._stop.is_given  # Then what is left to do is to end.
        self._group.fenced(error)
        doing = "stopping without a commit" if stops else "joining the group again"
        _log.warning(doing, thread=self.name, why=str(error))
        self._waiting.begins()
        self._manager.close_all()
        self._producers.close()
        if stops:
            return
        self._consumer.close()
        self._input.forget_all()
        self._ends.forget_all()
        self._consumer = self._make_consumer()
        self.join_group()

    # ------------------------------------------------------------------ the end

    def shut_down(self, *, to_be_replaced: bool = False) -> None:
        """Commit what can be committed, close tasks and clients; keeps the first error.

        Args:
            to_be_replaced: Whether it stays in the group until `give_up_place`.
        """
        steps: list[Callable[[], None]] = [
            self._last_commit,
            self._abort_all,
            self._manager.close_all,
            self._manager.standbys.close,
            self._report.publish,
            self._ends.close,
            *([] if to_be_replaced else [self.give_up_place]),
            self._restorer.close,
            self._producers.close,
            self._concurrent.close,
        ]
        for step in steps:
            try:
                step()
            except RAISED_BY_CODE as error:
                self._failed("shutting down", error)

    def give_up_place(self, *, leave_group: bool | None = None) -> None:
        """Close the consumer; leave the group, or not: as `stop` was told, unless told here."""
        try:
            self._consumer.close(leave=self.leave_group if leave_group is None else leave_group)
        except RAISED_BY_CODE as error:
            self._failed("leaving the group", error)

    def _failed(self, what: str, error: BaseException) -> None:
        """Keep the first error, and log each with the lines that tell where it was raised."""
        known = as_streams_error(error)
        self.error = self.error or known
        _log.error(what, thread=self.name, error=str(known), **traceback_field(known))

    def _last_commit(self) -> None:
        with contextlib.suppress(TaskMigratedError):  # Somebody else has it, and goes on.
            if self.error is not None or self._commit(leaving=True):
                return
        _log.warning("the last commit failed: a start goes on from one before", thread=self.name)

    def _abort_all(self) -> None:
        """After an error abort what is open, so that readers need not wait for its timeout."""
        if self.error is None or self._settings.guarantee is ProcessingGuarantee.AT_LEAST_ONCE:
            return
        self._recovery.abort_all(self._clock)  # What is left, the next start aborts.
