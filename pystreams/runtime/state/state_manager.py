"""The state of one task: the only owner of its stores, changelogs, offsets and positions.

Whoever holds it can be restored or kept warm by a `Restorer`, which knows nothing else of a task.

Offsets on their way: a store says what its committed data holds (`committed_offset`); restore
moves it forward; after that a producer flush leaves the offset of the last acknowledged record
on the changelog's buffer, and `commit` hands it to the store together with the data. For a store
that does not manage its offsets, `StoreCheckpoint` does.

Under exactly-once a store that is not transactional can't go back to the last commit. After a
rollback, or an end that was not a clean one, it is wiped and restored, that store alone; as one is
that is damaged. Until its changelog was looked at it is closed: see `store_rebuilds`.

Source: Kafka Streams' `ProcessorStateManager`. Spec: KIP-1035, KIP-892 "Atomic Checkpointing".
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

from pystreams.errors import StateStoreCorruptedError
from pystreams.ids import TaskId, TopicPartition
from pystreams.record import (
    NO_RECORD,
    ConsumedMessage,
    DroppedRecords,
    GrowthWatch,
    OutputBuffer,
    PresentRecord,
)
from pystreams.runtime.state.bytes_ledger import StoreBytes
from pystreams.runtime.state.cache_flush import flush_all
from pystreams.runtime.state.changelog_loss import ChangelogCheck
from pystreams.runtime.state.files.checkpointed_offsets import holds_state
from pystreams.runtime.state.managed_store import ManagedStore, StoreSource
from pystreams.runtime.state.old_task_checkpoint import take_in_task_checkpoint
from pystreams.runtime.state.store_positions import StorePositions
from pystreams.runtime.state.store_rebuilds import StoreRebuilds
from pystreams.runtime.state.store_settings import StoreSettings
from pystreams.stores.accounting.metered import StoreMeters
from pystreams.stores.contracts.key_value import StateStore, StateStoreContext
from pystreams.stores.contracts.position import Position
from pystreams.stores.contracts.state_store import no_stream_time
from pystreams.stores.store_builder import StoreBuilder


class ProcessorStateManager:
    """Opens, restores, commits, rolls back and closes the stores of one task.

    Args:
        stores: Builder and changelog topic of each store, and whether it is logged; upstream
            stores first.
        settings: What all stores are opened with.
        fed_by_stores: Stores that hear of some input only through other stores of the task.
        record: The record that the task is processing, if it processes any.
        stream_time: Returns the highest timestamp (ms) that the task has seen.
        sources: Of stores that are filled from one topic: that topic.

    Attributes:
        directory: The task's directory, once it is open.
        positions: Which input the stores reflect; for any thread.
        settings: What all stores were opened with.
        dropped: What the stores dropped because it came too late.
        growth: Ends a run of records when the stores have written enough.
        restored_records: Changelog records applied so far.
    """

    def __init__(
        self,
        task_id: TaskId,
        stores: Sequence[tuple[StoreBuilder, str, bool]],
        settings: StoreSettings,
        fed_by_stores: Collection[str] = (),
        record: PresentRecord = NO_RECORD,
        stream_time: Callable[[], int] = no_stream_time,
        sources: Mapping[str, StoreSource] = MappingProxyType({}),
    ) -> None:
        self.task_id = task_id
        self.restored_records = 0
        self.settings = settings
        self.dropped = DroppedRecords()
        self.growth = GrowthWatch()
        self._record = record
        self._stream_time = stream_time
        self.directory = Path()
        self._stores: dict[str, ManagedStore] = {}
        self._by_changelog: dict[TopicPartition, ManagedStore] = {}
        for builder, topic, logged in stores:
            source = sources.get(builder.name)
            managed = ManagedStore(builder, topic, task_id, settings, logged=logged, source=source)
            self._stores[builder.name] = managed
            if managed.changelog is not None:
                self._by_changelog[managed.changelog] = managed
        restored = [managed.builder.name for managed in self._by_changelog.values()]
        self.positions = StorePositions(restored, fed_by_stores)
        measured = [(managed.store, managed.meters) for managed in self._stores.values()]
        self._alone = not settings.environment.exactly_once
        self._noticed: list[ManagedStore] = []
        self._bytes = StoreBytes(settings.ledger, measured)
        restorable = self._by_changelog.values()
        self._rebuilds = StoreRebuilds(task_id, settings, self._init)
        through = [managed for managed in restorable if not managed.store.transactional]
        self._writing_through = [managed for managed in through if not managed.from_source]
        self._written_by_sources = [managed for managed in through if managed.from_source]

    def open(self, task_directory: Path) -> None:
        """Open all stores.

        Raises:
            StateStoreError: A store can't be opened; those already open are closed again.
        """
        self.directory = task_directory
        had_state = holds_state(task_directory)
        rebuilds, restored = self._rebuilds, self._by_changelog.values()
        rebuilds.open(task_directory, restored, had_state=had_state)
        try:
            for managed in self._stores.values():
                self._open(managed, had_state=had_state)
            take_in_task_checkpoint(
                self.task_id, task_directory, self._by_changelog, rebuilds.holds_data, self._init
            )
            if had_state:
                rebuilds.check_trust(restored)
            rebuilds.adopt(restored)
        except BaseException:
            with suppress(Exception):  # What came first is told.
                self.close()
            raise
        self.positions.open(
            {
                name: Position() if managed.rebuild_reason else managed.store.position
                for name, managed in self._stores.items()
            }
        )

    def store(self, name: str) -> Any:
        """Return a store by name, as processors see it."""
        return self._stores[name].processors_store

    def readers_store(self, name: str) -> StateStore | None:
        """Return a store by name, as queries ask it; None if the task has no such store."""
        managed = self._stores.get(name)
        return None if managed is None else managed.store

    def stores(self) -> dict[str, StateStore]:
        """Return all stores by name."""
        return {name: managed.store for name, managed in self._stores.items()}

    def meters(self) -> dict[str, StoreMeters]:
        """Return what is measured on all stores, by their names; safe from any thread."""
        return {name: managed.meters for name, managed in self._stores.items()}

    def outputs(self) -> list[OutputBuffer]:
        """Return the changelog buffers, to be sent."""
        for managed in self._writing_through:
            managed.ahead = managed.holds_uncommitted()
        return self.changelog_buffers()

    def changelog_buffers(self) -> list[OutputBuffer]:
        """Return the changelog buffers, to be looked at; safe from any thread."""
        return [managed.output for managed in self._stores.values() if managed.output is not None]

    # ------------------------------------------------------------------ restore

    def changelogs(self) -> list[TopicPartition]:
        """Return the changelogs of the stores that have one."""
        return list(self._by_changelog)

    def is_empty(self, changelog: TopicPartition) -> bool:
        """Return whether a store holds nothing of its changelog yet."""
        managed = self._by_changelog[changelog]
        return managed.rebuild_reason is None and managed.committed_offset() is None

    def identify(self, changelog: TopicPartition, topic_id: str | None) -> None:
        """Take note of the id of the topic that is a changelog now; None if it has none."""
        self._by_changelog[changelog].identity.is_now(topic_id)

    def check_of(self, changelog: TopicPartition) -> ChangelogCheck:
        """Return what tells whether a changelog can continue its store, and from where."""
        managed = self._by_changelog[changelog]
        return ChangelogCheck(self.task_id, self.directory, self.settings, managed, self._rebuilds)

    def take_deleted(self) -> dict[TopicPartition, tuple[int, int]]:
        """Return which offsets, from and to, retention took before stores had them; once."""
        found = {changelog: managed.deleted for changelog, managed in self._by_changelog.items()}
        for managed in self._by_changelog.values():
            managed.deleted = None
        return {changelog: deleted for changelog, deleted in found.items() if deleted}

    def is_source(self, changelog: TopicPartition) -> bool:
        """Return whether what a store is restored from is input: it is, as far as committed."""
        return self._by_changelog[changelog].from_source

    def restore_positions(self) -> dict[TopicPartition, int | None]:
        """Return for each changelog the next offset to restore, None for its beginning."""
        return {
            changelog: managed.next_offset() for changelog, managed in self._by_changelog.items()
        }

    def store_of(self, changelog: TopicPartition) -> str:
        """Return the name of the store that a changelog is of."""
        return self._by_changelog[changelog].builder.name

    def restore(self, changelog: TopicPartition, messages: Sequence[ConsumedMessage]) -> None:
        """Apply a batch of changelog records to their store."""
        managed = self._by_changelog[changelog]
        managed.count_anew()
        meters, restore = managed.meters, partial(managed.restore, messages)
        if meters.debug:
            meters.timed(restore, meters.operation("restore"))
        else:
            restore()
        self.restored_records += len(messages)
        meters.restored_records += len(messages)
        last_offset = messages[-1].offset() if messages else None
        if last_offset is not None:
            self._rebuilds.note_offset(managed, last_offset)
        if managed.checkpoint is not None and last_offset is not None:
            if managed.checkpoint.due(last_offset):
                managed.store.commit({changelog: last_offset})
            managed.checkpoint.moved(last_offset)

    def rebuild(self, changelog: TopicPartition) -> str:
        """Wipe one store, to be restored from the changelog's beginning; return its name."""
        managed = self._by_changelog[changelog]
        self._rebuilds.wipe(managed)
        return managed.builder.name

    def rebuild_all(self) -> None:
        """Wipe the stores that are to be rebuilt, where no broker has changelogs to look at."""
        for managed in self._by_changelog.values():
            if managed.rebuild_reason is not None:
                self._rebuilds.rebuild(managed)

    def to_log_anew(self) -> ManagedStore | None:
        """Return the next store that is to be logged anew before the task starts, if any is."""
        logged = self._by_changelog.values()
        return next((managed for managed in logged if managed.logs_anew is not None), None)

    def set_offset(self, changelog: TopicPartition, last_offset: int | None) -> None:
        """Note for good that a store holds what its changelog does, up to an offset or nothing."""
        managed = self._by_changelog[changelog]
        managed.count_anew()
        if last_offset is not None:
            self._rebuilds.note_offset(managed, last_offset)
        managed.store.commit({} if last_offset is None else {changelog: last_offset})
        if managed.store.persistent:
            managed.store.close()  # Which makes it durable.
            self._init(managed)
        if managed.checkpoint is not None:
            managed.checkpoint.take_in(last_offset)

    def found_damaged(self, error: StateStoreCorruptedError) -> None:
        """Have the store rebuilt that an error says is damaged: `check_of` does it.

        Raises:
            StateStoreCorruptedError: It has no changelog.
            StateStoreError: It was found damaged again and again; or can't be wiped.
        """
        managed = self._stores.get(error.store)
        if managed is None:
            raise error
        self._rebuilds.found_damaged(managed, error)

    # ------------------------------------------------------------------ commit

    def flush_caches(self) -> None:
        """Log and forward what the record caches hold; raises as `flush_all`."""
        flush_all(self.task_id, [managed.store for managed in self._stores.values()])
        self.positions.flushed()
        self.measure()

    def uncommitted_bytes(self) -> int:
        """Return the bytes of keys and values that wait for `commit`, over all stores."""
        return self.measure()[0]

    def measure(self) -> tuple[int, int]:
        """Enter what the stores hold into the thread's ledger; return both (see `StoreBytes`)."""
        return self._bytes.measure()

    def input_comes(self) -> None:
        """Take note that input is about to be processed, which stores may be restored from."""
        for managed in self._written_by_sources:
            managed.ahead = True

    def commit(self, next_offsets: Mapping[TopicPartition, int] = MappingProxyType({})) -> None:
        """Make all stores durable with their offsets; called after the Kafka commit.

        Args:
            next_offsets: Of the input, as they were committed.
        """
        for managed in self._stores.values():
            store, changelog = managed.store, managed.changelog
            meters = managed.meters
            if meters.debug:
                meters.sample(managed.builder.store_kind.samples(store))
            if changelog is None:
                meters.timed(partial(store.commit, {}), meters.commits)
                continue
            last_offset = managed.reached_offset(next_offsets)
            if last_offset is not None:
                if self._alone and managed.output is not None:
                    managed.look_for_others(last_offset)
                self._rebuilds.note_offset(managed, last_offset)
                meters.timed(partial(store.commit, {changelog: last_offset}), meters.commits)
                managed.committed(last_offset)
            else:
                store.rollback()
        if self._alone:
            self._noticed = [each for each in self._stores.values() if each.unexpected is not None]
        self.positions.committed()
        self.measure()

    def to_be_undone(self, now_ms: float) -> list[ManagedStore]:
        """Return the stores for which it is time to undo what others have written.

        Args:
            now_ms: The monotonic clock's.
        """
        return [
            managed
            for managed in self.with_unexpected_offsets()
            if managed.unexpected is not None and managed.unexpected.tries.next_ms <= now_ms
        ]

    def with_unexpected_offsets(self) -> list[ManagedStore]:
        """Return the stores to whose changelogs somebody else has written."""
        return [
            managed
            for managed in self._noticed
            if managed.unexpected is not None and not managed.logged_again
        ]

    def rollback(self) -> None:
        """Drop everything written since the last commit, in stores and changelog buffers.

        A store that can't do that is rebuilt under exactly-once; under at-least-once it goes on.
        """
        for managed in self._stores.values():
            holds_uncommitted = managed.holds_uncommitted()
            try:
                if managed.rebuild_reason is None:
                    managed.store.rollback()
            except StateStoreCorruptedError as error:
                self.found_damaged(error)
            if managed.output is not None:
                managed.output.records.clear()
                managed.output.last_offset = None
                managed.count_anew(went_back=True)
            if holds_uncommitted and self.settings.environment.exactly_once:
                self._rebuilds.ask_for(managed, "it can't go back to the last commit")
        self.positions.rolled_back()
        self.measure()

    def close(self) -> None:
        """Close all stores, also those behind one that raises; committed data stays."""
        self._bytes.leave()
        with ExitStack() as closing:
            for managed in self._stores.values():
                closing.callback(managed.close)

    # ------------------------------------------------------------------ inside

    def _open(self, managed: ManagedStore, *, had_state: bool) -> None:
        """Open a store; one whose files are damaged is to be rebuilt, if it has a changelog."""
        if managed.checkpoint is not None:
            managed.checkpoint.open(self.directory, had_state=had_state)
        try:
            self._init(managed)
        except StateStoreCorruptedError as error:
            self.found_damaged(error)
        self._rebuilds.check_opened(managed)

    def _init(self, managed: ManagedStore) -> None:
        managed.store.init(
            StateStoreContext(
                environment=self.settings.environment,
                task_id=self.task_id,
                task_directory=self.directory,
                changelog=managed.output,
                changelog_topic=managed.changelog_topic,
                changelog_identity=managed.identity,
                record=self._record,
                stream_time=self._stream_time,
                dropped=self.dropped,
                growth=self.growth,
                position=partial(self.positions.uncommitted_of, managed.builder.name),
            )
        )
