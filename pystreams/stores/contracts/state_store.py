"""What the runtime needs of every store, ours or a user's: open, commit, roll back, restore, close.

A store of a user's own subclasses `StateStore` and writes seven members: `name`, `persistent`,
`is_open`, `init`, `restore`, `close` and `destroy`. The others have defaults, and with those the
runtime does for the store what it does not do for itself:

| the store                    | what the runtime does                                           |
|------------------------------|-----------------------------------------------------------------|
| does not persist             | restores it from the beginning of its changelog                 |
| persists, manages no offsets | keeps its offset in `<task directory>/.checkpoint_<name>`       |
| manages its offsets          | asks it: `committed_offset`                                     |
| is not transactional         | under exactly-once, wipes and restores it, alone, after a       |
|                              | rollback or an unclean end: what it wrote can't be undone       |

A store that manages its offsets and is not transactional knows alone whether it was closed in
order. Under exactly-once (`StoreEnvironment.exactly_once`) its `init` raises
`StateStoreCorruptedError` when it was not, and is rebuilt.

A store logs its own changes, one record a write, as bytes and milliseconds; a value of None is a
deletion. `restore` gets them back:

    context.changelog.records.append((key, value, context.record.timestamp, ()))

Spec: KIP-892 "Changed Interfaces"; KIP-1035 "Public Interfaces"; KIP-844 (`transactional`).
"""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, runtime_checkable

from pystreams.errors import StateStoreError
from pystreams.ids import NO_TOPIC_ID
from pystreams.record import NO_RECORD, DroppedRecords, GrowthWatch, PresentRecord
from pystreams.stores.contracts.position import Position

if TYPE_CHECKING:
    from pathlib import Path

    from pystreams.config.guarantee import IsolationLevel
    from pystreams.ids import TaskId, TopicPartition
    from pystreams.record import ConsumedMessage, OutputBuffer, ProducedRecord
    from pystreams.serdes import Serde
    from pystreams.stores.accounting.read_cache import ReadCacheBudget

RocksDBConfigSetter = Callable[[str, Any], None]
"""The user's hook on RocksDB: called with the store's name and its (mutable) options."""


@dataclass(slots=True)
class ChangelogIdentity:
    """Which topic a store's offset is of: one that is created again under its name is another.

    Eight bytes stand for the id that brokers give a topic; those before Kafka 2.8 give none.

    Attributes:
        stored: What the store holds beside its offset; None if it holds none.
        current: What the broker says now; to be written with the next offset. None if not known.
    """

    stored: bytes | None = None
    current: bytes | None = None

    def is_now(self, topic_id: str | None) -> None:
        """Take note of the topic's id, as the broker says it."""
        self.current = None if topic_id is None else identity_noted(digest_of(topic_id))

    @property
    def is_another(self) -> bool:
        """Whether the store's offset is known to be of a topic that is gone."""
        return None not in {self.stored, self.current} and self.stored != self.current


def no_stream_time() -> int:
    """Return the stream time of a task that has processed nothing."""
    return -1


def digest_of(topic_id: str) -> bytes:
    """Return the eight bytes that stand for a topic's id."""
    return blake2b(topic_id.encode(), digest_size=8).digest()


def identity_noted(noted: bytes | None) -> bytes | None:
    """Return which topic was noted; None if it says nothing, as of a broker that gives no ids."""
    return None if noted == _NO_IDENTITY else noted


_NO_IDENTITY = digest_of(NO_TOPIC_ID)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreEnvironment:
    """What all stores of a thread are opened with.

    Attributes:
        application_id: The application's id.
        exactly_once: Whether what is not committed must leave no trace.
        default_key_serde: Used by a store whose spec names no key serde; None means there is none.
        default_value_serde: Used by a store whose spec names no value serde; None likewise.
        cache_enabled: Whether the record cache has any bytes to give; a store whose spec asks for
            caching caches only if this is true as well.
        read_cache_budget: What the read caches of the thread share, or None for no cache.
        rocksdb_config_setter: The user's hook on RocksDB options, or None.
    """

    application_id: str
    exactly_once: bool = False
    default_key_serde: Serde[Any] | None = None
    default_value_serde: Serde[Any] | None = None
    cache_enabled: bool = False
    read_cache_budget: ReadCacheBudget | None = None
    rocksdb_config_setter: RocksDBConfigSetter | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StateStoreContext:
    """What a store is given when it is opened.

    Attributes:
        environment: What it shares with the other stores of its thread.
        task_id: The task that owns the store.
        task_directory: `<state.dir>/<application.id>/<task id>`; exists and is locked by the task.
        changelog: Where the store appends its changelog records; None when logging is off.
        changelog_topic: Topic name used to bind serdes; what it would be if logging is off.
        changelog_identity: For stores that keep it beside their offset; others let it be.
        record: The record that the task is processing.
        stream_time: Returns the highest timestamp (ms) that the task has seen, -1 before the first.
        dropped: Where the store counts what it drops because it comes too late.
        growth: What a store is added to that holds back uncommitted bytes.
        position: Returns which input the store reflects, committed or not; to be asked by `commit`
            and written beside the data. See `StateStore.position`.
    """

    environment: StoreEnvironment
    task_id: TaskId
    task_directory: Path
    changelog: OutputBuffer | None
    changelog_topic: str
    changelog_identity: ChangelogIdentity = field(default_factory=ChangelogIdentity)
    record: PresentRecord = NO_RECORD
    stream_time: Callable[[], int] = no_stream_time
    dropped: DroppedRecords = field(default_factory=DroppedRecords)
    growth: GrowthWatch = field(default_factory=GrowthWatch)
    position: Callable[[], Position] = Position


class StateStore(Protocol):
    """What the runtime needs of every store; to be subclassed by stores of a user's own.

    Life: `init` -> (`restore`)* -> (`put`... -> `commit` | `rollback`)* -> `close`. All calls come
    from the thread of the task.
    """

    metered_methods: ClassVar[Mapping[str, str]] = {}
    """What is timed at `metrics.recording.level` DEBUG: operations by method; see `metered`."""

    @property
    @abstractmethod
    def name(self) -> str:
        """The store's name, unique in its topology."""

    @property
    @abstractmethod
    def persistent(self) -> bool:
        """Whether committed data outlives the process."""

    @property
    @abstractmethod
    def is_open(self) -> bool:
        """Whether the store is between `init` and `close`."""

    @property
    def transactional(self) -> bool:
        """Whether writes wait for `commit`, so that `rollback` and a crash undo them.

        False by default. Spec: KIP-844 `StateStore.transactional`.
        """
        return False

    @abstractmethod
    def init(self, context: StateStoreContext) -> None:
        """Open the store, in a directory of its own below `context.task_directory`.

        Raises:
            StateStoreError: The store can't be opened; says why and what to do.
            StateStoreCorruptedError: Its files are damaged, or can't be trusted; the runtime
                calls `destroy` and `init` again, if the store has a changelog.
        """

    @abstractmethod
    def restore(self, messages: Sequence[ConsumedMessage]) -> None:
        """Apply a batch of changelog records; a null value deletes. Nothing of it is logged.

        A store that manages its offsets remembers the last record's, atomically with the data.
        What the changelog holds is committed: a later `rollback` does not undo it.
        """

    def flush_cache(self) -> None:
        """Log and forward what the record cache holds; a no-op without caching (the default).

        Called by the task before a commit, upstream stores first.
        """
        return

    def needs_flush(self) -> bool:
        """Return whether something waits for `flush_cache`; False without caching (the default).

        What a store forwards at a flush may be written to another one that was flushed before:
        that one is flushed again.
        """
        return False

    def flush(self) -> None:
        """Do nothing. Deprecated by KIP-892: what is written becomes durable at a commit."""
        warnings.warn(
            f"state store {self.name!r}: flush() does nothing; ask for a commit with "
            "ProcessorContext.commit()",
            DeprecationWarning,
            stacklevel=2,
        )

    def commit(self, changelog_offsets: Mapping[TopicPartition, int]) -> None:
        """Make everything written since the last commit durable, with the offsets, atomically.

        Called after the Kafka commit. An empty mapping clears the committed offsets. Processors
        never call this; they ask for a commit with `ProcessorContext.commit`. The default does
        nothing, for stores whose writes are durable at once.

        Args:
            changelog_offsets: For each changelog partition the offset of the last record applied;
                a global store's are those to read next, as in Kafka Streams. To be ignored by a
                store that does not manage offsets.

        Raises:
            StateStoreError: The disk is full or gone; the store keeps what it had committed.
        """
        return

    def rollback(self) -> None:
        """Drop everything written since the last commit; nothing where that is impossible.

        The default does nothing, for stores that are not `transactional`.
        """
        return

    def committed_offset(self, partition: TopicPartition) -> int | None:
        """Return the offset of the last changelog record in committed data, or None (default)."""
        return None

    @property
    def position(self) -> Position:
        """Which input committed data reflects at least, as the last commit that wrote had it.

        Empty, the default, when the store does not know. A store without a changelog goes on from
        here after a restart; of others the runtime knows better, from the group's offsets.
        """
        return Position()

    def estimated_entries(self) -> int | None:
        """Return about how many entries are committed; None, the default, if that is not known.

        Cheap, and asked for by any thread.
        """
        return None

    def changelog_records(self) -> Iterator[ProducedRecord]:
        """Return changelog records that restore what is committed, in an order that does.

        Asked for by a backfill, which hands its state over as a changelog: once a task, at its
        end, right after a commit; and when a store is logged anew or emptied
        (`changelog.loss.policy`). Nothing is written while the iterator is read. Of a store that
        has a changelog and not this method both are refused before anything is done.

        Raises:
            StateStoreError: The store can't; the default.
        """
        raise StateStoreError(
            self.name,
            f"{type(self).__name__} can't be dumped to a changelog, which a backfill needs; write "
            "its changelog_records(), or build this state from the live topics",
        )

    def read_only(self, isolation_level: IsolationLevel) -> Any:
        """Return a view that other threads may read: of the form that the store's kind reads.

        `KafkaStreams.store` and queries read through it. The default has none.

        Raises:
            StateStoreError: There is no such view; the default.
        """
        raise StateStoreError(
            self.name, f"{type(self).__name__} has no read_only(isolation_level): write that"
        )

    def query(self, query: Any, isolation_level: IsolationLevel) -> Any:
        """Return the answer to a query of a class of the user's own; NotImplemented, the default.

        `KafkaStreams.query` puts every query to the store first, and answers those it knows itself
        where this returns NotImplemented. It says how far the partition has come, and holds that
        against a position bound, for all of them. Called by any thread, beside the owner; what it
        raises becomes a STORE_EXCEPTION.

        Args:
            query: A `pystreams.Query`.
            isolation_level: READ_COMMITTED asks for what the last commit left, if the store is
                transactional.

        Spec: KIP-796 `StateStore.query`. Differs from Kafka: it returns the bare answer.
        """
        return NotImplemented

    def manages_offsets(self) -> bool:
        """Return whether offsets given to `commit` survive `close`; False by default."""
        return False

    def holds_data(self) -> bool | None:
        """Return whether there is anything in the store; None, the default, if it can't tell.

        Asked right after `init`, of a store that persists and has a changelog, when its offset is
        not known, or is known from a file beside it. What a file says of an empty store is not
        believed, because data may be deleted and the file left: the store is restored from the
        beginning of its changelog.
        """
        return None

    def approximate_num_uncommitted_bytes(self) -> int:
        """Return the bytes of keys and values waiting for `commit`; each key counts once.

        0, the default, from a store that is not transactional.
        """
        return 0

    def max_uncommitted_bytes(self) -> int:
        """Return the highest number `approximate_num_uncommitted_bytes` ever had since `init`."""
        return 0

    def cached_bytes(self) -> int:
        """Return the bytes waiting for `flush_cache`; 0 without caching.

        The thread keeps the sum below `statestore.cache.max.bytes` by calling `flush_cache` early.
        """
        return 0

    @abstractmethod
    def close(self) -> None:
        """Close without committing; safe to call twice."""

    @abstractmethod
    def destroy(self) -> None:
        """Close, and delete all that was ever committed; `init` may follow.

        Called by the runtime to rebuild a store: its files are damaged, or can't be trusted, or
        its changelog no longer has its offset.
        """


@runtime_checkable
class GivesRecordsByKey(Protocol):
    """A store whose changelog's keys are its own: it need not be dumped for one of them."""

    def changelog_record(self, key: bytes) -> ProducedRecord | None:
        """Return what `changelog_records` has of a key, or None."""


def can_be_dumped(store: StateStore) -> bool:
    """Return whether a store has a `changelog_records` of its own."""
    return type(store).changelog_records is not StateStore.changelog_records


def gives_views(store: StateStore) -> bool:
    """Return whether a store has a `read_only` of its own."""
    return type(store).read_only is not StateStore.read_only
