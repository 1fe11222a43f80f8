"""Undoes what another process has written to the changelog of a task that runs here.

Without transactions nothing refuses the records of a process that stood still, and that a network
delivers late: old values behind newer ones, which the next restore would take for the newest. The
offsets of a changelog that one process writes follow each other; so a commit whose last record lies
further on than this task has sent tells that there are others (`ManagedStore.look_for_others`).
These are read, and what the store holds of their keys is logged once more, behind them.

Not noticed: what comes behind the last commit of a task, until it commits again. A start over the
same state, or a task that goes back to that commit, restores it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from pystreams.errors import (
    OffsetOutOfRangeError,
    RetriableClientError,
    StateStoreCorruptedError,
    StateStoreError,
    TaskCorruptedError,
    TransactionAbortableError,
)
from pystreams.ids import TopicPartition
from pystreams.kernel.loggers import get_logger
from pystreams.record import OutputBuffer, ProducedRecord, offset_of
from pystreams.runtime.core.task import StreamTask
from pystreams.runtime.ports import RestoreConsumerPort
from pystreams.runtime.state.managed_store import ManagedStore
from pystreams.runtime.state.unexpected_offsets import REBUILT_FROM_IT, UnexpectedOffsets
from pystreams.runtime.tasks.producers import StreamsProducer
from pystreams.runtime.tasks.standstill_guard import Membership
from pystreams.runtime.tasks.thread_parts import ThreadParts
from pystreams.stores.contracts.state_store import (
    GivesRecordsByKey,
    StateStore,
    can_be_dumped,
)

_POLL_RECORDS = 10_000
_POLL_S = 0.2
_POLLS_IN_VAIN = 12

_RESTS_TIMES = 10
"""What was tried in vain is followed by so many times as long without another try, of any store:
there are other tasks, and brokers that give nothing of one changelog may give nothing of others."""

_log = get_logger("pystreams.tasks")


class ForeignRecords:
    """Looks after the changelogs of one thread's tasks.

    Args:
        parts: The thread's: clients; the admin client, which tells where a changelog begins if it
            no longer begins where it is read from; the clock; whether producers may write a record
            twice.
        membership: Tells whether the thread may send.
        client_id: How its consumer is called, which lives as long as it reads.
    """

    def __init__(self, parts: ThreadParts, membership: Membership, client_id: str) -> None:
        self._clients, self._admin, self._clock = parts.clients, parts.admin, parts.clock
        self._producers_repeat = not parts.settings.idempotent
        self._membership = membership
        self._client_id = client_id
        self._rests_until_ms = -math.inf

    def in_turn(self, tasks: Sequence[StreamTask]) -> list[StreamTask]:
        """Return those that have any for which it is time; first who was tried the longest ago."""
        now_ms = self._clock.monotonic_ms()
        if now_ms < self._rests_until_ms:
            return []
        due_ms = {
            task: min(map(_due_ms, stores))
            for task in tasks
            if (stores := task.state_manager.to_be_undone(now_ms))
        }
        return sorted(due_ms, key=due_ms.__getitem__)

    def undo(self, task: StreamTask, producer: StreamsProducer, *, leaving: bool = False) -> bool:
        """Log again what others have overwritten, if anything; to be called after a commit.

        Where that is not possible now it is tried again after a later commit, of each store less
        and less often, while the rest of the thread goes on.

        Args:
            leaving: Whether there is no time to read a whole store: where that were needed only
                the changelog is read, and the rest is left for the next commit, which comes without
                input, too; or, if the task leaves, to who restores it (see `tell_of_those_left`).

        Returns:
            Whether brokers answer. If not, all else is to wait for a later commit: the thread has
            waited for long.

        Raises:
            TaskMigratedError: The thread stood still, and somebody else has its partitions.
            TaskCorruptedError: A store is damaged, and rebuilt once the task goes back.
        """
        began_ms = self._clock.monotonic_ms()
        for managed in sorted(task.state_manager.to_be_undone(began_ms), key=_due_ms):
            try:
                self._undo(task, managed, producer, leaving=leaving)
            except StateStoreCorruptedError as error:
                task.trouble = error
                raise TaskCorruptedError(task.task_id, error) from error
            except (RetriableClientError, TransactionAbortableError, StateStoreError) as error:
                assert managed.unexpected is not None, "it is not undone"
                now_ms = self._clock.monotonic_ms()
                if managed.unexpected.tries.failed(now_ms):
                    _log.warning(
                        "records of others in a changelog are not undone yet",
                        task=str(task.task_id),
                        changelog=str(managed.changelog),
                        why=str(error),
                    )
                if isinstance(error, RetriableClientError):
                    self._rests_until_ms = now_ms + _RESTS_TIMES * (now_ms - began_ms)
                    return False
        return True

    def _undo(
        self, task: StreamTask, managed: ManagedStore, producer: StreamsProducer, *, leaving: bool
    ) -> None:
        changelog, output, found = managed.changelog, managed.output, managed.unexpected
        assert changelog is not None, "a store that is logged has a changelog"
        assert output is not None, "a store that is logged has a buffer"
        assert found is not None, "somebody else has written to it"
        left = leaving and _is_read_whole(managed.store)
        if left and found.records is not None:
            return
        count, times = self._read(changelog, found)
        if count <= found.own_records:
            managed.unexpected = None
            return
        managed.unexpected = found = replace(found, records=count)
        if left:
            return
        can_be_undone = can_be_dumped(managed.store)
        damage, done = None, "the present values are logged again"
        if not can_be_undone:
            managed.unexpected = None
            done = "nothing: write changelog_records() of the store, or restore may take them"
        else:
            try:
                self._log_again(task, managed.store, times, output, producer)
                managed.logged_again = True
            except StateStoreCorruptedError as error:
                damage, managed.unexpected = error, None
                done = REBUILT_FROM_IT
        own = self._producers_repeat or (found.perhaps_own and can_be_undone)
        if damage is not None or not own:
            found.tell(task.task_id, changelog, done)
        if damage is not None:
            raise damage

    def _log_again(
        self,
        task: StreamTask,
        store: StateStore,
        times: Mapping[bytes, int],
        output: OutputBuffer,
        producer: StreamsProducer,
    ) -> None:
        try:
            output.records.extend(records_that_undo(store, times))
            self._membership.prove(task.partitions)  # It may have stood still since the commit.
            producer.send([output])
            producer.port.flush()
        finally:
            output.records.clear()

    def _read(
        self, changelog: TopicPartition, found: UnexpectedOffsets
    ) -> tuple[int, dict[bytes, int]]:
        """Return how many records lie at these offsets, and their keys with the last time (ms)."""
        consumer = self._clients.restore_consumer(self._client_id)
        try:
            try:
                return _read(consumer, changelog, found.first, found.last)
            except OffsetOutOfRangeError:  # Some are deleted by now, or were before it had any.
                beginning = self._admin.offset_ranges([changelog])[changelog].beginning
                consumer.assign({})
                return _read(consumer, changelog, max(found.first, beginning), found.last)
        except OffsetOutOfRangeError:
            return 0, {}
        finally:
            consumer.close()


def _due_ms(managed: ManagedStore) -> float:
    assert managed.unexpected is not None, "somebody else has written to it"
    return managed.unexpected.tries.next_ms


def tell_of_those_left(task: StreamTask) -> None:
    """Tell of what was not undone, of a task that leaves."""
    for managed in task.state_manager.with_unexpected_offsets():
        found = managed.unexpected
        assert found is not None, "somebody else has written to it"
        done = "nothing: the task has left, and who gets it restores them"
        found.tell(task.task_id, managed.changelog, done)


def _read(
    consumer: RestoreConsumerPort, changelog: TopicPartition, first: int, last: int
) -> tuple[int, dict[bytes, int]]:
    count, times, next_offset, in_vain = 0, dict[bytes, int](), first, 0
    consumer.assign({changelog: next_offset})
    while next_offset <= last:
        batches = consumer.poll(_POLL_RECORDS, _POLL_S)
        in_vain = 0 if batches else in_vain + 1
        if in_vain > _POLLS_IN_VAIN:
            raise RetriableClientError(f"no broker gives records of {changelog}")
        for _, messages, end in batches:
            for message in messages:
                next_offset = offset_of(message) + 1
                key = message.key()
                if next_offset <= last + 1 and key is not None:
                    times[key] = message.timestamp()[1]
                    count += 1
            next_offset = max(next_offset, end or 0)
    return count, times


def _is_read_whole(store: StateStore) -> bool:
    return can_be_dumped(store) and not isinstance(store, GivesRecordsByKey)


def records_that_undo(store: StateStore, times: Mapping[bytes, int]) -> list[ProducedRecord]:
    """Return what makes a changelog say of some keys again what their store holds, committed.

    Args:
        times: The time (ms) of what is undone of each key, for those that the store has not.
    """
    if isinstance(store, GivesRecordsByKey):
        found = map(store.changelog_record, times)
        records = [record for record in found if record is not None]
    else:
        records = [record for record in store.changelog_records() if record[0] in times]
    held = {record[0] for record in records}
    gone: list[ProducedRecord] = [
        (key, None, time_ms, ()) for key, time_ms in times.items() if key not in held
    ]
    return gone + records
