"""Contracts of the state stores: what users call, what the runtime calls, what an engine gives.

Three layers, each a protocol here:

- `KeyValueStore` and `TimestampedKeyValueStore` are what a user's processor sees: typed keys and
  values. Reads by the owner see its own uncommitted writes.
- `StateStore` is what the runtime sees: open, commit with offsets, roll back, restore, close.
- `KeyValueEngine` is what holds committed bytes: one batch in, ordered reads out.

Between engine and user stands one dirty map a store (`pystreams.stores.buffered`): record cache
and transaction buffer in one. Nothing reaches the engine before the Kafka commit.

Threads: a store belongs to the thread of its task. Only what `read_only` returns may be used by
other threads. Spec: KIP-892 "Changed Interfaces"; KIP-1035 "Public Interfaces".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Protocol, TypeVar

from pystreams.config.guarantee import IsolationLevel

if TYPE_CHECKING:
    from pathlib import Path

    from pystreams.ids import TaskId, TopicPartition
    from pystreams.record import ConsumedMessage, Headers, OutputBuffer, RecordContext
    from pystreams.serdes import Serde
    from pystreams.stores.read_cache import ReadCacheBudget

K = TypeVar("K")
V = TypeVar("V")
K_co = TypeVar("K_co", covariant=True)
V_co = TypeVar("V_co", covariant=True)
K_contra = TypeVar("K_contra", contravariant=True)
V_contra = TypeVar("V_contra", contravariant=True)

RocksDBConfigSetter = Callable[[str, Any], None]
"""The user's hook on RocksDB: called with the store's name and its (mutable) options."""

UNKNOWN_TIMESTAMP = -1
"""Timestamp (ms) of a value that was written by a store without timestamps."""


class ValueAndTimestamp(NamedTuple, Generic[V]):
    """A value with the event time (ms) it was written at."""

    value: V
    timestamp: int


@dataclass(frozen=True, slots=True)
class StateStoreContext:
    """What a store is given when it is opened.

    Attributes:
        application_id: The application's id.
        task_id: The task that owns the store.
        task_directory: `<state.dir>/<application.id>/<task id>`; exists and is locked by the task.
        changelog: Where the store appends its changelog records; None when logging is off.
        record: The task's record context: timestamp of what is being processed.
        changelog_topic: Topic name used to bind serdes; what it would be if logging is off.
        cache_enabled: Whether the runtime gave this store a share of the record cache; a store
            whose spec asks for caching caches only if this is true as well.
        read_cache_budget: What the read caches of the store's thread share, or None for no cache.
        rocksdb_config_setter: The user's hook on RocksDB options, or None.
        default_key_serde: Used by a store whose spec names no key serde; None means there is none.
        default_value_serde: Used by a store whose spec names no value serde; None likewise.
    """

    application_id: str
    task_id: TaskId
    task_directory: Path
    changelog: OutputBuffer | None
    record: RecordContext
    changelog_topic: str
    cache_enabled: bool = False
    read_cache_budget: ReadCacheBudget | None = None
    rocksdb_config_setter: RocksDBConfigSetter | None = None
    default_key_serde: Serde[Any] | None = None
    default_value_serde: Serde[Any] | None = None


class StateStore(Protocol):
    """What the runtime needs of every store.

    Life: `init` -> (`restore`)* -> (`put`... -> `commit` | `rollback`)* -> `close`.
    """

    @property
    def name(self) -> str:
        """The store's name, unique in its topology."""

    @property
    def persistent(self) -> bool:
        """Whether committed data outlives the process."""

    @property
    def is_open(self) -> bool:
        """Whether the store is between `init` and `close`."""

    def init(self, context: StateStoreContext) -> None:
        """Open the store.

        Raises:
            StateStoreError: The engine can't be opened; says why and what to do.
        """

    def restore(self, messages: Sequence[ConsumedMessage]) -> None:
        """Apply a batch of changelog records and remember the last one's offset, atomically.

        Bypasses the dirty map: what the changelog holds is committed. A null value deletes.
        """

    def flush_cache(self) -> None:
        """Log and forward what the record cache holds; a no-op without caching.

        Called by the task before a commit, upstream stores first.
        """

    def commit(self, changelog_offsets: Mapping[TopicPartition, int]) -> None:
        """Make everything written since the last commit durable, with the offsets, atomically.

        Called after the Kafka commit. An empty mapping clears the committed offsets. Processors
        never call this; they ask for a commit with `ProcessorContext.commit`.

        Args:
            changelog_offsets: For each changelog partition the offset of the last record applied.

        Raises:
            StateStoreError: The disk is full or gone; the store keeps what it had committed.
        """

    def rollback(self) -> None:
        """Drop everything written since the last commit."""

    def committed_offset(self, partition: TopicPartition) -> int | None:
        """Return the offset of the last changelog record in committed data, or None."""

    def manages_offsets(self) -> bool:
        """Return whether offsets given to `commit` survive `close`."""

    def approximate_num_uncommitted_bytes(self) -> int:
        """Return the bytes of keys and values waiting for `commit`; each key counts once."""

    def max_uncommitted_bytes(self) -> int:
        """Return the highest number `approximate_num_uncommitted_bytes` ever had since `init`."""

    def cached_bytes(self) -> int:
        """Return the bytes waiting for `flush_cache`; 0 without caching.

        The thread keeps the sum below `statestore.cache.max.bytes` by calling `flush_cache` early.
        """

    def close(self) -> None:
        """Close without committing; safe to call twice."""

    def destroy(self) -> None:
        """Close, and delete all that was ever committed; `init` may follow.

        Called by the runtime to rebuild a store whose files are damaged, or whose offset its
        changelog no longer has.
        """


class KeyValueIterator(Iterator[tuple[K_co, V_co]], Protocol[K_co, V_co]):
    """Entries in order of key bytes. Exhaust it or close it; a `for` loop over it does."""

    def close(self) -> None:
        """Release what the iterator holds; safe to call twice."""


class ReadOnlyKeyValueStore(Protocol[K, V_co]):
    """Reads of a key-value store. Ranges are inclusive on both ends, in order of key bytes.

    An iterator sees the store as it was when it was made or later, never a torn record, and goes
    on over writes and commits of the owner. Closing the store closes its iterators.
    """

    def get(self, key: K) -> V_co | None:
        """Return the value of a key, or None."""

    def range(self, start: K | None, end: K | None) -> KeyValueIterator[K, V_co]:
        """Iterate over keys from `start` to `end`, both inclusive; None leaves an end open."""

    def reverse_range(self, start: K | None, end: K | None) -> KeyValueIterator[K, V_co]:
        """Iterate over the same keys as `range`, highest first."""

    def all(self) -> KeyValueIterator[K, V_co]:
        """Iterate over all keys."""

    def reverse_all(self) -> KeyValueIterator[K, V_co]:
        """Iterate over all keys, highest first."""

    def prefix_scan(self, prefix: bytes) -> KeyValueIterator[K, V_co]:
        """Iterate over keys whose bytes start with `prefix`."""

    def approximate_num_entries(self) -> int:
        """Return about how many keys there are; cheap, not exact."""


class KeyValueStore(ReadOnlyKeyValueStore[K, V], Protocol[K, V]):
    """A key-value store as the owning processor sees it."""

    def put(self, key: K, value: V | None) -> None:
        """Write a value; None deletes the key.

        Raises:
            SerializationError: The key or value does not fit its serde.
        """

    def put_if_absent(self, key: K, value: V) -> V | None:
        """Write a value unless the key has one; return the one it had, or None."""

    def put_all(self, entries: Iterable[tuple[K, V | None]]) -> None:
        """Write several values."""

    def delete(self, key: K) -> V | None:
        """Delete a key and return the value it had, or None."""

    def read_only(self, isolation_level: IsolationLevel) -> ReadOnlyKeyValueStore[K, V]:
        """Return a view that other threads may read at the given isolation level."""

    def set_flush_listener(self, listener: FlushListener[K, V], *, send_old_values: bool) -> bool:
        """Say who hears of the last update of each key when the record cache is flushed.

        Args:
            listener: Called by `flush_cache`, on the task's thread, right after the key's update
                was logged; it sets the record context for what it forwards.
            send_old_values: Whether to look up and pass the value before the first of the updates.

        Returns:
            True if this store caches: the caller leaves forwarding to the listener. False if it
            does not, and the listener is never called.
        """


class FlushListener(Protocol[K_contra, V_contra]):
    """Hears of one key's last update when the record cache is flushed. Was: CacheFlushListener."""

    def __call__(
        self,
        key: K_contra,
        new_value: V_contra | None,
        old_value: V_contra | None,
        timestamp: int,
        headers: Headers,
        /,
    ) -> None:
        """Forward the change.

        Args:
            key: The key.
            new_value: What the key holds now; None when it was deleted.
            old_value: What it held before the first update that was not forwarded yet; None when
                nothing, or when old values were not asked for. Never both None.
            timestamp: The new value's timestamp in a timestamped store, else that of the record
                whose processing made the last update (ms).
            headers: Headers of that record.
        """


class TimestampedKeyValueStore(ReadOnlyKeyValueStore[K, ValueAndTimestamp[V]], Protocol[K, V]):
    """A key-value store that keeps with each value the event time it was written at.

    `get_with_timestamp` and `put_with_timestamp` are `get` and `put` without the
    `ValueAndTimestamp` object, for operators that call them once a record.
    """

    def get_with_timestamp(self, key: K) -> tuple[V | None, int]:
        """Return (value, timestamp in ms); (None, -1) when the key has no value."""

    def put_with_timestamp(self, key: K, value: V | None, timestamp: int) -> None:
        """Write a value and its timestamp (ms); a value of None deletes the key.

        Raises:
            SerializationError: The key or value does not fit its serde.
        """

    def put(self, key: K, value: ValueAndTimestamp[V] | None) -> None:
        """Write a value with its timestamp; None deletes the key."""

    def put_if_absent(self, key: K, value: ValueAndTimestamp[V]) -> ValueAndTimestamp[V] | None:
        """Write a value unless the key has one; return the one it had, or None."""

    def put_all(self, entries: Iterable[tuple[K, ValueAndTimestamp[V] | None]]) -> None:
        """Write several values."""

    def delete(self, key: K) -> ValueAndTimestamp[V] | None:
        """Delete a key and return the value it had, or None."""

    def read_only(
        self, isolation_level: IsolationLevel
    ) -> ReadOnlyKeyValueStore[K, ValueAndTimestamp[V]]:
        """Return a view that other threads may read at the given isolation level."""

    def set_flush_listener(self, listener: FlushListener[K, V], *, send_old_values: bool) -> bool:
        """Say who hears of a flush, as `KeyValueStore.set_flush_listener`; values come plain."""


class KeyValueEngine(Protocol):
    """Holds committed bytes of one store, ordered by unsigned key bytes."""

    @property
    def persistent(self) -> bool:
        """Whether the data outlives the process."""

    def open(
        self, directory: Path, rocksdb_config_setter: RocksDBConfigSetter | None = None
    ) -> None:
        """Open or create.

        Args:
            directory: The store's own directory; made if missing, by engines that need one.
            rocksdb_config_setter: The user's hook, for engines that are RocksDB.

        Raises:
            StateStoreError: Unreadable, foreign or locked data; says which and the cure.
        """

    def get(self, key: bytes) -> bytes | None:
        """Return a value or None. Any thread may call it.

        Raises:
            StoreNotAvailableError: The engine is closed.
            StateStoreError: The data can't be read.
        """

    def range(
        self, start: bytes | None, end: bytes | None, *, reverse: bool = False
    ) -> KeyValueIterator[bytes, bytes]:
        """Iterate from `start` (inclusive) to `end` (exclusive), in or against key order.

        May be called, and iterated, by any thread while the owner writes. `close` of the engine
        closes the iterator.
        """

    def write(
        self,
        changes: Mapping[bytes, bytes | None],
        metadata: Mapping[bytes, bytes | None],
        *,
        delete_below: bytes | None = None,
    ) -> None:
        """Apply data and metadata in one atomic batch; None deletes.

        Args:
            changes: Values by key.
            metadata: Values by name, see `metadata`.
            delete_below: Deletes every key below it, before `changes`; segments that expired go
                this way. None, the rule, deletes nothing.

        Raises:
            StateStoreError: The write failed; nothing of it is applied.
        """

    def metadata(self) -> dict[bytes, bytes]:
        """Return everything `write` put as metadata (the `offsets` column family)."""

    def approximate_num_entries(self) -> int:
        """Return about how many keys there are."""

    def close(self) -> None:
        """Release files and memory; safe to call twice."""
