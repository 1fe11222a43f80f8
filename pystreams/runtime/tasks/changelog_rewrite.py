"""Writes stores to their changelogs anew, a chunk at a time, before their tasks start.

What was decided about a store that holds more than its changelog (see `changelog_loss`) is
done here, once the store is restored:

- KEEP: a record for each key it holds, as a backfill hands over state;
- EMPTY: a tombstone for each; then it is wiped, and restored from what is in the changelog now, as
  on any other host. In a versioned store the tombstones leave a trace.

Under exactly-once each chunk is a transaction of the task's producer, which has fenced its
predecessor. One that others share is only used while no transaction of theirs is open, and that of
a chunk that failed is aborted before anything of theirs is sent. The decision is forgotten when the
store has the offset of the last record, or is wiped: after a crash before that, all is done again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice

from pystreams.config import ChangelogLossPolicy
from pystreams.errors import (
    RetriableClientError,
    StateStoreCorruptedError,
    TransactionAbortableError,
)
from pystreams.ids import TaskId
from pystreams.kernel.loggers import get_logger
from pystreams.record import ProducedRecord
from pystreams.runtime.core.task import StreamTask
from pystreams.runtime.ports import ConsumerPort
from pystreams.runtime.state.files.loss_decisions import forget_decision
from pystreams.runtime.state.managed_store import ManagedStore
from pystreams.runtime.tasks.producers import StreamsProducer, TaskProducers

_CHUNK_RECORDS = 10_000

_log = get_logger("pystreams.restore")


class Relogging:
    """The stores of one thread that are logged anew."""

    def __init__(self, producers: TaskProducers, consumer: Callable[[], ConsumerPort]) -> None:
        self._producers = producers
        self._consumer = consumer
        self._left: dict[TaskId, Iterator[ProducedRecord] | None] = {}

    def wanted(self, task: StreamTask) -> bool:
        """Return whether a store of a task, which is restored, is to be logged anew."""
        return task.state_manager.to_log_anew() is not None

    def active(self, task: StreamTask) -> bool:
        """Return whether stores of a task are being logged anew."""
        return task.task_id in self._left

    def write_some(self, task: StreamTask) -> None:
        """Write a chunk of a task's next store, or finish it.

        Raises:
            RetriableClientError: The chunk could not be written; all of the store is written again.
            ChangelogLossError: The store was to be kept, and is damaged.
        """
        managed = task.state_manager.to_log_anew()
        assert managed is not None, "only a task of which that is wanted writes"
        producer = self._producers.of_task(task.task_id)
        producer.abort_doomed()
        records = self._left.get(task.task_id)
        if records is None:
            records = self._left[task.task_id] = _records_of(task, managed)
        if producer.in_transaction:
            return
        chunk = list(islice(records, _CHUNK_RECORDS))
        if chunk:
            self._send(task, producer, managed, chunk)
            return
        self._finish(task, managed)
        self._left[task.task_id] = None
        if not self.wanted(task):
            del self._left[task.task_id]

    def forget(self, task: StreamTask) -> None:
        """Begin anew, should the task go on."""
        self._left.pop(task.task_id, None)

    def _send(
        self,
        task: StreamTask,
        producer: StreamsProducer,
        managed: ManagedStore,
        chunk: list[ProducedRecord],
    ) -> None:
        output = managed.output
        assert output is not None, "a store with a changelog writes to it"
        if managed.logs_anew is ChangelogLossPolicy.EMPTY:
            chunk = [(key, None, time, headers) for key, _, time, headers in chunk]
        try:
            output.records.extend(chunk)
            producer.send([output])
            producer.port.flush()
            if producer.in_transaction:
                producer.port.commit_transaction({}, self._consumer().group_metadata())
                producer.in_transaction = False
        except (RetriableClientError, TransactionAbortableError) as error:
            output.records.clear()
            self._left[task.task_id] = None
            producer.doom()
            raise RetriableClientError(str(error)) from error

    def _finish(self, task: StreamTask, managed: ManagedStore) -> None:
        manager, output, changelog = task.state_manager, managed.output, managed.changelog
        assert output is not None, "a store with a changelog writes to it"
        assert changelog is not None, "a store that is logged has a changelog"
        done, managed.logs_anew = managed.logs_anew, None
        last_offset, output.last_offset = output.last_offset, None
        if done is ChangelogLossPolicy.EMPTY:
            manager.rebuild(changelog)
        else:
            manager.set_offset(changelog, last_offset)
        forget_decision(manager.directory, managed.builder.name)
        _log.warning(
            "state store was logged anew",
            task=str(task.task_id),
            store=managed.builder.name,
            changelog=str(changelog),
            decision=done.value if done is not None else None,
            last_offset=last_offset,
        )


def _records_of(task: StreamTask, managed: ManagedStore) -> Iterator[ProducedRecord]:
    """Return what is to be written of a store.

    Raises:
        ChangelogLossError: It was to be kept, and some of it can't be read.
    """
    try:
        yield from managed.store.changelog_records()
    except StateStoreCorruptedError as error:
        if managed.logs_anew is not ChangelogLossPolicy.KEEP:
            raise
        assert managed.changelog is not None, "a store that is logged has a changelog"
        check = task.state_manager.check_of(managed.changelog)
        raise check.cannot_be_kept(error) from error
