"""Contracts of the state stores: what users call, what the runtime calls, what an engine gives.

Three layers, each a protocol, here or in `pystreams.stores.contracts.state_store`:

- `KeyValueStore` and `TimestampedKeyValueStore` are what a user's processor sees: typed keys and
  values. Reads by the owner see its own uncommitted writes.
- `StateStore` is what the runtime sees: open, commit with offsets, roll back, restore, close.
- `KeyValueEngine` is what holds committed bytes: one batch in, ordered reads out.

Between engine and user stands one dirty map a store, record cache and transaction buffer in one
(`pystreams.stores.dirty_map.buffered`). Nothing reaches the engine before the Kafka commit.

Threads: a store belongs to the thread of its task. Only what `read_only` returns may be used by
other threads. Spec: KIP-892 "Changed Interfaces"; KIP-1035 "Public Interfaces".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Generic, NamedTuple, Protocol, TypeVar

from pystreams.config.guarantee import IsolationLevel
from pystreams.stores.contracts.state_store import RocksDBConfigSetter as RocksDBConfigSetter  # noqa: PLC0414
from pystreams.stores.contracts.state_store import StateStore as StateStore  # noqa: PLC0414
from pystreams.stores.contracts.state_store import StateStoreContext as StateStoreContext  # noqa: PLC0414

if TYPE_CHECKING:
    from pathlib import Path

    from pystreams.record import Headers, RecordMetadata

K = TypeVar("K")
V = TypeVar("V")
K_co = TypeVar("K_co", covariant=True)
V_co = TypeVar("V_co", covariant=True)
K_contra = TypeVar("K_contra", contravariant=True)
V_contra = TypeVar("V_contra", contravariant=True)

UNKNOWN_TIMESTAMP = -1
"""Timestamp (ms) of a value that was written by a store without timestamps."""


class ValueAndTimestamp(NamedTuple, Generic[V]):
    """A value with the event time (ms) it was written at."""

    value: V
    timestamp: int


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


class KeyValueWrites(ReadOnlyKeyValueStore[K, V], Protocol[K, V]):
    """Reads and writes of a key-value store's owner, with timestamps in the values or without."""

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


class KeyValueStore(KeyValueWrites[K, V], Protocol[K, V]):
    """A key-value store as the owning processor sees it."""

    def set_flush_listener(self, listener: FlushListener[K, V], *, send_old_values: bool) -> bool:
        """Say who hears of the last update of each key when the record cache is flushed.

        Args:
            listener: Called by `flush_cache`, on the task's thread, right after the key's update
                was logged; it sets the task's record for what it forwards.
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
        source: RecordMetadata | None,
        /,
    ) -> None:
        """Forward the change.

        Args:
            new_value: What the key holds now; None when it was deleted.
            old_value: What it held before the first update that was not forwarded yet; None when
                nothing, or when old values were not asked for. Never both None.
            timestamp: The new value's timestamp in a timestamped store, else that of the record
                whose processing made the last update (ms).
            headers: Headers of that record.
            source: Where that record came from; None for what a punctuation has written.
        """


class TimestampedKeyValueStore(KeyValueWrites[K, ValueAndTimestamp[V]], Protocol[K, V]):
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
