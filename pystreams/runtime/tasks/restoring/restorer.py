"""Restores stores from their changelogs, between the iterations of running tasks.

A task restores the delta between what its stores have committed and the end of their changelogs.
A transaction that the last owner has left there is waited for: it may be committed, in which case
the committed offsets cover it, even if its markers are still to be written. What becomes of a
store that its changelog can't continue is said in `changelog_loss`.

A changelog can also be followed: its store is kept beside what the owner commits there, until it
is forgotten, or restored to the end to take over. While anything restores, what is followed waits.

Source: Kafka Streams' `StoreChangelogReader` (RESTORING, UPDATE_STANDBY).
Spec: KIP-892 "Error Handling"; DESIGN "Never wipe what is good".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from types import MappingProxyType

from pystreams.errors import (
    OffsetOutOfRangeError,
    RetriableClientError,
    StateStoreCorruptedError,
)
from pystreams.ids import TaskId, TopicPartition
from pystreams.kernel.clock import Clock
from pystreams.kernel.loggers import get_logger
from pystreams.record import ConsumedMessage, offset_of
from pystreams.runtime.cluster.committed_offsets import OffsetRange
from pystreams.runtime.ports import AdminPort, RestoreConsumerPort
from pystreams.runtime.state.state_manager import ProcessorStateManager
from pystreams.runtime.tasks.restore_listener import StateRestoreListener
from pystreams.runtime.tasks.restoring.changelog_restore import ChangelogLook, ChangelogRestore
from pystreams.runtime.tasks.restoring.restore_progress import ProgressLog, RestoreProgress
from pystreams.runtime.tasks.thread_parts import ThreadParts

_log = get_logger("pystreams.restore")

_BATCH_RECORDS = 10_000


class Restorer:
    """Restores the state of one thread's tasks, or follows that of others'.

    Args:
        consumer: Makes the restore consumer, when first needed.
        clock: For rates in the log.
        listener: Told of what is restored to the end, or None.

    Attributes:
        told: Tells the log how far it is, and knows when there was nothing more to read.
        followed_records: Records applied to what is followed since the thread started.
        heard: Told of a task that restores: None when records were restored, else why it can't go
            on for now.
    """

    def __init__(
        self,
        consumer: Callable[[], RestoreConsumerPort],
        admin: AdminPort,
        clock: Clock,
        listener: StateRestoreListener | None = None,
    ) -> None:
        self._listener = listener or StateRestoreListener()
        self._make_consumer = consumer
        self._consumer: RestoreConsumerPort | None = None
        self._admin = admin
        self._restores: dict[TopicPartition, ChangelogRestore] = {}
        self._followed: dict[TopicPartition, ChangelogRestore] = {}
        self._expected_topics: set[str] = set()
        self._topic_ids: dict[str, str | None] = {}
        self.followed_records = 0
        self._restored_records = 0
        self.heard: Callable[[TaskId, RetriableClientError | None], None] = lambda *_: None
        self.told = ProgressLog(clock)

    @property
    def active(self) -> bool:
        """Whether anything restores."""
        return bool(self._restores)

    def progress(self) -> RestoreProgress:
        """Return how far the restore is; may be called from any thread."""
        restores = list(self._restores.values())
        remaining = sum(restore.remaining_records for restore in restores)
        return RestoreProgress(len(restores), self._restored_records, remaining)

    def remaining_records(self) -> dict[TaskId, int]:
        """Return how many offsets the restoring tasks still have to go, at most.

        May be called from any thread.
        """
        stores = self.remaining_of_stores().items()
        return {task_id: sum(remaining.values()) for task_id, remaining in stores}

    def remaining_of_stores(self) -> dict[TaskId, dict[str, int]]:
        """Return the same for each of their stores that restores, by its name."""
        remaining: dict[TaskId, dict[str, int]] = {}
        for changelog, restore in list(self._restores.items()):
            store = restore.state.store_of(changelog)
            remaining.setdefault(restore.state.task_id, {})[store] = restore.remaining_records
        return remaining

    def undecided(self) -> list[tuple[TaskId, TopicPartition, int]]:
        """Return changelogs that held more than was decided as restores began, and its end."""
        found = [(at, restore) for at, restore in self._restores.items() if restore.is_undecided]
        return [(restore.state.task_id, at, restore.stable_end) for at, restore in found]

    def next_offsets(self, task_id: TaskId) -> dict[TopicPartition, int]:
        """Return how far the changelogs of a task are that are read now; from any thread."""
        return {
            changelog: restore.next_offset
            for changelog, restore in [*self._restores.items(), *self._followed.items()]
            if restore.state.task_id == task_id
        }

    def lags(self) -> dict[TopicPartition, int]:
        """Ask how many offsets the followed changelogs are ahead of their stores, at most.

        May be called from any thread.

        Raises:
            RetriableClientError: No answer in time.
        """
        followed = dict(self._followed)
        ranges = self._admin.offset_ranges(list(followed)) if followed else {}
        return {
            changelog: max(ranges[changelog].high_watermark - restore.next_offset, 0)
            for changelog, restore in followed.items()
        }

    def expect(self, states: Iterable[ProcessorStateManager]) -> None:
        """Learn what begins next: the ids of all changelogs are asked at once."""
        changelogs = (changelog for state in states for changelog in state.changelogs())
        self._expected_topics = {changelog.topic for changelog in changelogs}
        self._topic_ids.clear()

    def begin(
        self,
        state: ProcessorStateManager,
        committed: Mapping[TopicPartition, int] = MappingProxyType({}),
    ) -> bool:
        """Start to restore a task's stores to the end; if they were followed, what is left.

        Args:
            committed: The next offsets of its input. What is restored from input is so up to
                there: what comes after is still to be processed.

        Returns:
            True when there is nothing to restore.

        Raises:
            RetriableClientError: The broker did not tell what the changelogs hold; call again.
            ChangelogLossError: A store holds more than its changelog.
        """
        self.forget(state)
        changelogs = state.changelogs()
        ranges = self._admin.offset_ranges(changelogs) if changelogs else {}
        look = ChangelogLook(ranges, self._ids_of({changelog.topic for changelog in changelogs}))
        found = {
            changelog: restore
            for changelog, restore in self._reads_of(state, look, committed).items()
            if restore.remaining_records
        }
        if not found:
            return True
        if not self._restores:
            self.told.begins(self._restored_records)
        self._restores.update(found)
        self._assign()
        for changelog, restore in found.items():
            _log.info(
                "restoring",
                task=str(state.task_id),
                changelog=str(changelog),
                from_offset=restore.next_offset,
                to_offset=restore.end_offset,
                records=restore.remaining_records,
            )
            store, first = state.store_of(changelog), restore.next_offset
            self._listener.on_restore_start(changelog, store, first, restore.end_offset)
        return False

    def look(self, changelogs: Sequence[TopicPartition]) -> ChangelogLook:
        """Ask what changelogs hold now. May be called from any thread.

        Raises:
            RetriableClientError: No answer in time.
        """
        if not changelogs:
            return ChangelogLook({}, {})
        ranges = self._admin.offset_ranges(changelogs)
        topics = sorted({changelog.topic for changelog in changelogs})
        return ChangelogLook(ranges, self._admin.topic_ids(topics))

    def follow(self, state: ProcessorStateManager, look: ChangelogLook) -> None:
        """Keep a task's stores beside what is committed to their changelogs, without an end.

        Stores that are restored from input are left to `begin`: what is committed of that is known
        then.

        Args:
            look: What its changelogs hold.

        Raises:
            ChangelogLossError: A store holds more than its changelog; nothing was done about it.
        """
        self.forget(state)
        found = self._reads_of(state, look, {}, follows=True)
        self._followed.update(
            {changelog: restore for changelog, restore in found.items() if restore.limit is None}
        )
        self._assign()

    def poll(self, timeout_s: float) -> list[TaskId]:
        """Restore one batch, or follow by one when nothing restores.

        Args:
            timeout_s: How long to wait for records (s); 0 when other tasks have work.

        Returns:
            Tasks whose stores are all restored now.
        """
        reading = self._reading()
        if self._consumer is None or not reading:
            return []
        finished: dict[TaskId, None] = {}
        try:
            batches = self._consumer.poll(_BATCH_RECORDS, timeout_s)
        except OffsetOutOfRangeError as error:
            self._go_on_after(error, self._consumer)
            return []
        self.told.brought(sum(len(messages) for _, messages, _ in batches), _BATCH_RECORDS)
        rebuilt = False
        for changelog, messages, end_reached_at in batches:
            restore = reading.get(changelog)
            if restore is None:
                continue
            applied = restore.before_limit(messages)
            if applied and not self._apply(changelog, restore, applied):
                rebuilt = True
                continue
            if len(applied) < len(messages):
                restore.next_offset = restore.end_offset
            if end_reached_at is not None:
                restore.next_offset = max(restore.next_offset, end_reached_at)
            if restore.next_offset >= restore.end_offset:
                restore.anew = False
                if reading is self._restores:
                    self._finish(changelog, restore)
                    finished[restore.state.task_id] = None
        if rebuilt:
            self._consumer.assign({})
        if finished or rebuilt:
            self._assign()
        if self._restores:
            self.told.log_if_due(self.progress(), self._restores)
        busy = {restore.state.task_id for restore in self._restores.values()}
        return [task_id for task_id in finished if task_id not in busy]

    def forget(self, state: ProcessorStateManager) -> None:
        """Stop restoring or following the stores of a task that goes away."""
        gone = [
            (reads, changelog)
            for reads in (self._restores, self._followed)
            for changelog, restore in reads.items()
            if restore.state is state
        ]
        for reads, changelog in gone:
            restore = reads.pop(changelog)
            if reads is self._restores:
                store = state.store_of(changelog)
                self._listener.on_restore_suspended(changelog, store, restore.restored)
        if gone:
            self._assign()

    def close(self) -> None:
        """Release the restore consumer."""
        self._restores.clear()
        self._followed.clear()
        if self._consumer is not None:
            self._consumer.close()
            self._consumer = None

    # ------------------------------------------------------------------ inside

    def _reading(self) -> dict[TopicPartition, ChangelogRestore]:
        """Return what is read now: what is followed waits for what restores."""
        return self._restores or self._followed

    def _reads_of(
        self,
        state: ProcessorStateManager,
        look: ChangelogLook,
        committed: Mapping[TopicPartition, int],
        *,
        follows: bool = False,
    ) -> dict[TopicPartition, ChangelogRestore]:
        """Return from where to where a task's changelogs are to be read; nothing reads them yet."""
        found: dict[TopicPartition, ChangelogRestore] = {}
        for changelog in state.changelogs():
            held = look.ranges[changelog]
            state.identify(changelog, look.topic_ids.get(changelog.topic))
            check = state.check_of(changelog)
            first = check.first_offset_to_follow if follows else check.first_offset_to_restore
            next_offset, is_empty = first(held), state.is_empty(changelog)
            limit = committed.get(changelog, 0) if state.is_source(changelog) else None
            found[changelog] = ChangelogRestore(state, held, next_offset, is_empty, limit)
        return found

    def _ids_of(self, topics: AbstractSet[str]) -> dict[str, str | None]:
        """Return the ids of topics, None for one that is not there."""
        if not topics <= self._topic_ids.keys():
            asked = sorted(topics | self._expected_topics)
            found = self._admin.topic_ids(asked)
            self._topic_ids = {topic: found.get(topic) for topic in asked}
        return self._topic_ids

    def _go_on_after(self, error: OffsetOutOfRangeError, consumer: RestoreConsumerPort) -> None:
        """Go on when a changelog was cut off while it was read.

        A store that was being restored from nothing is restored anew; of another it is asked
        whether its changelog can still continue it.
        """
        restore = self._reading().get(error.partition)
        try:
            if restore is not None:
                held = self._admin.offset_ranges([error.partition])[error.partition]
                if restore.anew:
                    restore.state.rebuild(error.partition)
                restore.next_offset = self._first_offset(error.partition, restore, held)
                restore.now_ends_at(held)
        except RetriableClientError as unanswered:  # Then the error comes again.
            if restore is not None and self._restores:
                self.heard(restore.state.task_id, unanswered)
        finally:
            # What came together with the error was not applied: all are read again from where
            # they are.
            consumer.assign({})
            self._assign()

    def _first_offset(
        self, changelog: TopicPartition, restore: ChangelogRestore, held: OffsetRange
    ) -> int:
        """Return where a changelog is read from, after what has to be done to its store before."""
        check = restore.state.check_of(changelog)
        first = check.first_offset_to_restore if self._restores else check.first_offset_to_follow
        return first(held)

    def _apply(
        self, changelog: TopicPartition, restore: ChangelogRestore, messages: list[ConsumedMessage]
    ) -> bool:
        """Apply a batch; return False when its store was damaged and begins anew."""
        try:
            restore.state.restore(changelog, messages)
        except StateStoreCorruptedError as error:
            restore.state.found_damaged(error)
            restore.begins_anew_with(self._first_offset(changelog, restore, restore.known_range))
            return False
        last_offset = offset_of(messages[-1])
        restore.next_offset = last_offset + 1
        restore.restored += len(messages)
        if changelog in self._restores:
            self._restored_records += len(messages)
            self.heard(restore.state.task_id, None)
            store = restore.state.store_of(changelog)
            self._listener.on_batch_restored(changelog, store, last_offset, len(messages))
        else:
            self.followed_records += len(messages)
        return True

    def _finish(self, changelog: TopicPartition, restore: ChangelogRestore) -> None:
        del self._restores[changelog]
        _log.info(
            "restored",
            task=str(restore.state.task_id),
            changelog=str(changelog),
            records=restore.restored,
            seconds=round(self.told.seconds(), 3),
        )
        store = restore.state.store_of(changelog)
        self._listener.on_restore_end(changelog, store, restore.restored)

    def _assign(self) -> None:
        if self._consumer is None:
            self._consumer = self._make_consumer()
        self._consumer.assign(
            {changelog: restore.next_offset for changelog, restore in self._reading().items()}
        )


def restorer_of_thread(name: str, parts: ThreadParts) -> Restorer:
    """Return the restorer of a thread."""
    return Restorer(
        lambda: parts.clients.restore_consumer(f"{name}-restore-consumer"),
        parts.admin,
        parts.clock,
        parts.restore_listener,
    )
