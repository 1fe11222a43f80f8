"""Bugs that are planted into the runtime, each of which a sweep must find.

A plant is a context manager: within it one function of the runtime, or of the simulated clients
where what goes wrong is a setting of the real ones, does what it should not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from itertools import count
from typing import Any

from pystreams.errors import StreamsError, TransactionAbortableError
from pystreams.ids import TopicPartition
from pystreams.record import StaticMessage
from pystreams.runtime.core.task import StreamTask
from pystreams.runtime.loop.membership import left_open
from pystreams.runtime.loop.repartition_purge import RepartitionPurge
from pystreams.runtime.loop.stream_thread import StreamThread
from pystreams.runtime.state.managed_store import ManagedStore
from pystreams.runtime.state.state_manager import ProcessorStateManager
from pystreams.runtime.tasks import task_manager
from pystreams.runtime.tasks.committer import Committer, CommitUnit
from pystreams.runtime.tasks.producers import StreamsProducer, TaskProducers
from pystreams.runtime.tasks.restoring.changelog_restore import ChangelogRestore
from pystreams.runtime.tasks.restoring.restorer import Restorer
from pystreams.runtime.tasks.start_positions import start_positions
from pystreams.runtime.tasks.task_manager import TaskManager
from pystreams.runtime.tasks.thread_parts import ThreadParts
from pystreams.testing.simulation.consumers import SimulatedConsumer, SimulatedRestoreConsumer
from pystreams.testing.simulation.group import NO_MEMBER, GroupMetadata
from pystreams.testing.simulation.partition_log import PartitionLog

Plant = Callable[[], AbstractContextManager[None]]
PLANTS: dict[str, Plant] = {}
"""Every planted bug, by its name."""


@contextmanager
def replaced(owner: object, name: str, replacement: object) -> Iterator[None]:
    """Put something in place of an attribute, for a while."""
    before = getattr(owner, name)
    setattr(owner, name, replacement)
    try:
        yield
    finally:
        setattr(owner, name, before)


def plant(make: Callable[[], Iterator[None]]) -> Callable[[], Iterator[None]]:
    """Add a bug, named after its function."""
    PLANTS[make.__name__] = contextmanager(make)
    return make


# ------------------------------------------------------------------ commits


@plant
def stores_committed_before_kafka() -> Iterator[None]:
    """The commit's order is swapped."""
    commit_unit = Committer._commit_unit

    def swapped(self: Committer, unit: CommitUnit, metadata: Any) -> StreamsError | None:
        try:
            for task in unit.tasks:
                unit.producer.send(task.outputs())
            unit.producer.port.flush()
        except StreamsError as error:
            return error
        for task in unit.tasks:
            task.post_commit()
        return commit_unit(self, unit, metadata)

    with replaced(Committer, "_commit_unit", swapped):
        yield


@plant
def offsets_committed_before_the_data() -> Iterator[None]:
    commit_unit = Committer._commit_unit

    def swapped(self: Committer, unit: CommitUnit, metadata: Any) -> StreamsError | None:
        try:
            self._consumer().commit(unit.offsets())
        except StreamsError as error:
            return error
        return commit_unit(self, unit, metadata)

    with replaced(Committer, "_commit_unit", swapped):
        yield


@plant
def no_new_epoch_after_a_time_out() -> Iterator[None]:
    def begin(self: StreamsProducer) -> None:
        if self.transactional and not self.in_transaction:
            self.port.begin_transaction()
            self.in_transaction = True

    with replaced(StreamsProducer, "begin", begin):
        yield


@plant
def offsets_without_the_group() -> Iterator[None]:
    """A transaction's offsets do not say of which member and generation they are."""

    def nobody(_: SimulatedConsumer) -> GroupMetadata:
        return NO_MEMBER

    with replaced(SimulatedConsumer, "group_metadata", nobody):
        yield


@plant
def no_fencing() -> Iterator[None]:
    """Each life has transactional ids of its own, and the group takes offsets from anybody."""
    init, lives = TaskProducers.__init__, count()

    def of_its_own(self: TaskProducers, parts: ThreadParts, **options: Any) -> None:
        own = f"{parts.identity.transactional_id}-{next(lives)}"
        identity = replace(parts.identity, transactional_id=own)
        init(self, replace(parts, identity=identity), **options)
        self._application_id = f"{self._application_id}-{next(lives)}"

    with offsets_without_the_group_planted(), replaced(TaskProducers, "__init__", of_its_own):
        yield


@plant
def what_dead_members_left_open_is_committed() -> Iterator[None]:
    """Who has the tasks of a dead member ends its transaction, but the wrong way."""

    def commit(producer: Any, transactional_id: str) -> None:
        transactions = producer._broker.transactions
        entry = transactions._ids[transactional_id]
        transactions.end(transactional_id, entry.epoch, commit=True)
        transactions.init(transactional_id)

    with replaced(left_open, "_use_once", commit):
        yield


# ------------------------------------------------------------------ stores


@plant
def uncommitted_data_kept_after_an_abort() -> Iterator[None]:
    def keep(self: ProcessorStateManager) -> None:
        for output in self.changelog_buffers():
            output.records.clear()
            output.last_offset = None
        self.positions.rolled_back()

    with replaced(ProcessorStateManager, "rollback", keep):
        yield


@plant
def checkpoint_too_far() -> Iterator[None]:
    reached_offset = ManagedStore.reached_offset

    def too_far(self: ManagedStore, next_offsets: Mapping[TopicPartition, int]) -> int | None:
        offset = reached_offset(self, next_offsets)
        return None if offset is None else offset + 2

    with replaced(ManagedStore, "reached_offset", too_far):
        yield


@plant
def changelog_offset_written_before_the_commit() -> Iterator[None]:
    commit_unit = Committer._commit_unit

    def early(self: Committer, unit: CommitUnit, metadata: Any) -> StreamsError | None:
        try:
            for task in unit.tasks:
                unit.producer.send(task.outputs())
            unit.producer.port.flush()
        except StreamsError as error:
            return error
        for task in unit.tasks:
            _write_offsets(task)
        return commit_unit(self, unit, metadata)

    with replaced(Committer, "_commit_unit", early):
        yield


def _write_offsets(task: StreamTask) -> None:
    for managed in task.state_manager._stores.values():
        if managed.output is not None and managed.output.last_offset is not None:
            engine = getattr(managed.store._buffer, "_engine", None)  # type: ignore[attr-defined]
            packed = managed.output.last_offset.to_bytes(8, "big")
            if engine is not None:
                engine.write({}, {str(managed.changelog).encode(): packed})


@plant
def restore_reads_uncommitted() -> Iterator[None]:
    """What follows or restores a changelog is not told to read committed records only."""
    poll = SimulatedRestoreConsumer.poll

    def uncommitted(self: SimulatedRestoreConsumer, max_records: int, timeout_s: float) -> Any:
        with replaced(PartitionLog, "read", _read_anything):
            return poll(self, max_records, timeout_s)

    with replaced(SimulatedRestoreConsumer, "poll", uncommitted):
        yield


def _read_anything(log: PartitionLog, position: int, limit: int) -> tuple[list[StaticMessage], int]:
    records = [
        entry for entry in log._entries if entry.offset >= position and entry.record is not None
    ]
    messages = [log._message(entry) for entry in records[:limit]]
    if len(records) > limit:
        return messages, records[limit].offset
    return messages, max(position, log.high_watermark)


@plant
def standbys_read_uncommitted() -> Iterator[None]:
    """What follows a changelog, and nothing else, reads all there is."""
    poll = Restorer.poll

    def uncommitted(self: Restorer, timeout_s: float) -> Any:
        if self._restores:
            return poll(self, timeout_s)
        with PLANTS["restore_reads_uncommitted"]():
            return poll(self, timeout_s)

    with replaced(Restorer, "poll", uncommitted):
        yield


@plant
def restore_ends_before_what_is_undecided() -> Iterator[None]:
    """A restore goes to the last stable offset, and not to the end of the log."""
    reads_of = Restorer._reads_of

    def short(self: Restorer, *args: Any, **options: Any) -> dict[TopicPartition, ChangelogRestore]:
        found = reads_of(self, *args, **options)
        for changelog, held in self._admin.offset_ranges(list(found)).items():
            found[changelog].end_offset = min(found[changelog].end_offset, held.end)
        return found

    with replaced(Restorer, "_reads_of", short):
        yield


# ------------------------------------------------------------------ tasks


@plant
def stale_tasks_go_on_after_their_partitions_are_lost() -> Iterator[None]:
    def keep_lost(self: TaskManager, partitions: Iterable[TopicPartition]) -> None:
        self.assigned.remove(partitions)

    with replaced(TaskManager, "lose", keep_lost):
        yield


@plant
def pending_offsets_are_not_waited_for() -> Iterator[None]:
    """Committed offsets are read while a transaction of the last owner is undecided."""

    def committed(self: SimulatedConsumer, partitions: Sequence[TopicPartition]) -> Any:
        offsets = self._broker.group.offsets
        return {at: offsets[at] for at in partitions if at in offsets}

    with replaced(SimulatedConsumer, "committed", committed):
        yield


@plant
def nothing_is_read_again_after_an_abort() -> Iterator[None]:
    """A task that goes back to its last commit goes on from where its consumer is."""
    start_at = SimulatedConsumer.start_at

    def stay(self: SimulatedConsumer, positions: Mapping[TopicPartition, int | None]) -> None:
        start_at(
            self,
            {
                partition: position
                if self._positions[partition] is None
                else self._positions[partition]
                for partition, position in positions.items()
            },
        )

    with replaced(SimulatedConsumer, "start_at", stay):
        yield


@plant
def repartition_records_dropped_at_a_rebalance() -> Iterator[None]:
    """What nothing is committed of is read from its end on, repartition topics too."""

    def latest(plan: Any, task_id: Any, partitions: Any, committed: Any, ranges: Any) -> Any:
        positions = start_positions(plan, task_id, partitions, committed, ranges)
        missing = [
            partition
            for partition in positions
            if partition not in committed and partition.topic.endswith("-repartition")
        ]
        ends = ranges(missing) if missing else {}
        return positions | {partition: held.end for partition, held in ends.items()}

    with replaced(task_manager, "start_positions", latest):
        yield


@plant
def repartition_records_purged_before_they_are_committed() -> Iterator[None]:
    maybe_commit = StreamThread._maybe_commit

    def purge_first(self: StreamThread) -> None:
        purge: RepartitionPurge = self._purge
        self._parts.admin.delete_records(
            {
                partition: offset.next_offset
                for task in self._manager.running()
                for partition, offset in task.offsets_to_commit().items()
                if partition.topic in purge._topics
            }
        )
        maybe_commit(self)

    with replaced(StreamThread, "_maybe_commit", purge_first):
        yield


@plant
def failed_sends_are_not_noticed() -> Iterator[None]:
    """A transaction that has lost records is committed all the same."""
    send = StreamsProducer.send

    def careless(self: StreamsProducer, outputs: Sequence[Any]) -> None:
        try:
            send(self, outputs)
        except TransactionAbortableError:
            for output in outputs:
                output.records.clear()
            self.port._broken = False  # type: ignore[attr-defined]

    with replaced(StreamsProducer, "send", careless):
        yield


def offsets_without_the_group_planted() -> AbstractContextManager[None]:
    return PLANTS["offsets_without_the_group"]()
