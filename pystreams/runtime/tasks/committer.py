"""The commit of a set of tasks, in KIP-892's order, side by side where producers differ.

    flush caches and settle -> send -> producer flush -> Kafka commit -> stores commit

A crash between the Kafka commit and the stores' leaves the stores behind, never ahead: the next
start restores the delta from the changelog.

Tasks that share a producer share a transaction and a fate; they form a unit. Units commit at the
same time, because a commit is mostly waiting for the broker.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from pystreams.errors import (
    RetriableClientError,
    StreamsError,
    TaskCorruptedError,
    TaskMigratedError,
    TransactionAbortableError,
)
from pystreams.ids import TopicPartition
from pystreams.runtime.cluster.committed_offsets import CommittedOffset
from pystreams.runtime.core.task import StreamTask
from pystreams.runtime.ports import ConsumerPort
from pystreams.runtime.tasks.concurrent_calls import ConcurrentCalls
from pystreams.runtime.tasks.foreign_records import ForeignRecords
from pystreams.runtime.tasks.producers import StreamsProducer, TaskProducers
from pystreams.runtime.tasks.stop_order import StopOrder


@dataclass(frozen=True, slots=True)
class CommitUnit:
    """Tasks that commit together because one producer sends for them."""

    producer: StreamsProducer
    tasks: tuple[StreamTask, ...]

    def offsets(self) -> dict[TopicPartition, CommittedOffset]:
        """Return the offsets of all tasks of the unit."""
        offsets: dict[TopicPartition, CommittedOffset] = {}
        for task in self.tasks:
            offsets.update(task.offsets_to_commit())
        return offsets


@dataclass(frozen=True, slots=True)
class CommitFailure:
    """A unit whose Kafka commit, or that of its stores, did not happen, and why."""

    unit: CommitUnit
    error: StreamsError


class Committer:
    """Executes commits for one thread.

    Args:
        concurrent: Runs several units at once.
        foreign: Undoes what others have written to changelogs.
        stop: The thread's.

    Attributes:
        commits: Kafka commits that succeeded so far.
        settling: The task that lets go what it holds back at this moment, or None.
    """

    def __init__(
        self,
        consumer: Callable[[], ConsumerPort],
        producers: TaskProducers,
        concurrent: ConcurrentCalls,
        foreign: ForeignRecords,
        stop: StopOrder,
    ) -> None:
        self._foreign, self._stop = foreign, stop
        self._consumer = consumer
        self._producers = producers
        self._concurrent = concurrent
        self.commits = 0
        self.settling: StreamTask | None = None

    def commit(self, tasks: Sequence[StreamTask], *, leaving: bool = False) -> list[CommitFailure]:
        """Commit tasks that have something to commit, and no record that waits to be tried again.

        Args:
            leaving: Whether there is no time to wait: what can't be committed now never will.

        Returns:
            The units that failed; their tasks still hold what they had, uncommitted in their
            stores at least.

        Raises:
            TaskMigratedError: The thread stood still, and somebody else has its partitions.
            StateStoreError: A store could not be written after the Kafka commit.
        """
        undoing = self._foreign.in_turn(tasks)
        units = self._units([task for task in tasks if task.needs_commit() or task in undoing])
        if not units:
            return []
        failures: list[CommitFailure] = []
        for unit in list(units):
            try:
                for task in unit.tasks:
                    self.settling = task
                    task.settle()
            except (TaskCorruptedError, TransactionAbortableError) as trouble:
                failures.append(CommitFailure(unit, trouble))
                units.remove(unit)
            finally:
                self.settling = None
        units, aborted = _without_retries(units, leaving=leaving)
        failures += aborted
        if not units:
            return failures
        try:  # Behind what may have waited for answers: the thread may have stood still meanwhile.
            self._producers.membership.prove([part for task in tasks for part in task.partitions])
        except RetriableClientError as unanswered:
            return [*failures, *(CommitFailure(unit, unanswered) for unit in units)]
        group_metadata = (
            self._consumer().group_metadata() if units[0].producer.transactional else None
        )
        errors = self._concurrent.run(lambda unit: self._commit_unit(unit, group_metadata), units)
        for unit, error in zip(units, errors, strict=True):
            if error is not None:
                failures.append(CommitFailure(unit, error))
                continue
            self.commits += 1
            for task in unit.tasks:
                task.held.commit_put_off = False
            failures += self._commit_stores(unit, leaving=leaving)
        return failures

    def _commit_stores(self, unit: CommitUnit, *, leaving: bool) -> list[CommitFailure]:
        """Commit the stores of tasks; those with a damaged one are committed in Kafka alone."""
        failures, committed = [], []
        for task in unit.tasks:
            try:
                task.post_commit()
                committed.append(task)
            except TaskCorruptedError as error:
                failures.append(CommitFailure(CommitUnit(unit.producer, (task,)), error))
        for task in self._foreign.in_turn(committed):
            try:
                if not self._foreign.undo(task, unit.producer, leaving=leaving):
                    break
            except TaskCorruptedError as error:
                if self._stop.is_given:
                    continue  # All is committed, and the damage is told.
                failures.append(CommitFailure(CommitUnit(unit.producer, (task,)), error))
            except TaskMigratedError:
                if not leaving:
                    raise
                break  # All is committed, and who has the tasks by now restores them.
        return failures

    def _units(self, tasks: Sequence[StreamTask]) -> list[CommitUnit]:
        by_producer: dict[StreamsProducer, list[StreamTask]] = {}
        for task in tasks:
            by_producer.setdefault(self._producers.of_task(task.task_id), []).append(task)
        return [CommitUnit(producer, tuple(group)) for producer, group in by_producer.items()]

    def _commit_unit(self, unit: CommitUnit, group_metadata: Any) -> StreamsError | None:
        producer = unit.producer
        try:
            producer.refuse_if_too_late()
            producer.abort_doomed()
            for task in unit.tasks:
                producer.send(task.outputs())
            producer.port.flush()
            offsets = unit.offsets()
            if not producer.transactional:
                if offsets:
                    self._consumer().commit(offsets)
                return None
            if offsets:
                producer.begin()
            if producer.in_transaction:
                producer.commit(offsets, group_metadata)
        except StreamsError as error:
            return error
        return None


def _without_retries(
    units: Sequence[CommitUnit], *, leaving: bool
) -> tuple[list[CommitUnit], list[CommitFailure]]:
    """Return what can be committed now, and what has to be aborted.

    A record that is to be tried again has left effects upstream, and has others to come: until then
    its task is not committed, nor what shares its transaction. The thread goes on meanwhile.
    """
    ready: list[CommitUnit] = []
    aborted: list[CommitFailure] = []
    for unit in units:
        waiting = [task for task in unit.tasks if task.held.retry_at_ms is not None]
        if not waiting:
            ready.append(unit)
            continue
        if unit.producer.transactional and leaving:
            what = f"task {waiting[0].task_id}: a record waits to be tried again"
            aborted.append(CommitFailure(unit, TransactionAbortableError(what)))
            continue
        put_off = unit.tasks if unit.producer.transactional else waiting
        for task in put_off:
            task.held.commit_put_off = True
        if rest := tuple(task for task in unit.tasks if task not in put_off):
            ready.append(CommitUnit(unit.producer, rest))
    return ready, aborted
