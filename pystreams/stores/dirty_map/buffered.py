"""Bytes-level key-value store: one dirty map over an engine, record cache and transaction in one.

    put --> dirty map --commit--> engine (one batch: data + changelog offsets)
      |        ^  |
      |        |  +--> reads: dirty map first, then engine; ranges merge both
      +--> changelog (at once, or at flush_cache when the store caches)

Invariants:
- The engine holds exactly what the offsets beside it say: nothing reaches it but `commit` and
  `restore`, and each writes data and offsets in one batch.
- The dirty map only grows until it is cleared; a deletion is a None. Its identity never changes,
  so that the typed stores may bind it.
- `uncommitted_bytes` is the sum of len(key) + len(value) over the dirty map.
- A key is in `_pending` if and only if its last write is neither logged nor forwarded yet.
- `generation` changes whenever the engine's content does, which is when iterators reopen theirs.

Threads: everything here belongs to the task's thread; `views` has what others may read.
Rejected: a second map for the record cache, as in Kafka Streams: each value would be held twice.
Spec: KIP-892 "Proposed Changes", KIP-1035; Kafka CachingKeyValueStore, NamedCache.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pystreams.record import ConsumedMessage, PresentRecord, ProducedRecord
from pystreams.stores.accounting.read_cache import ReadCache
from pystreams.stores.accounting.uncommitted import UncommittedBytes
from pystreams.stores.dirty_map.cached_writes import PREVIOUS, BytesFlushListener, CachedWrite
from pystreams.stores.dirty_map.changelog import log_to
from pystreams.stores.dirty_map.known_gap import KnownGap
from pystreams.stores.dirty_map.merged_range import Entries, merged_range
from pystreams.stores.dirty_map.opening import open_engine
from pystreams.stores.dirty_map.restoring import RestoredChanges, plain_changes
from pystreams.stores.dirty_map.sorted_keys import ReadersKeys, SortedKeys
from pystreams.stores.files.metadata import StoreMetadata
from pystreams.stores.files.wiping import wipe

if TYPE_CHECKING:
    from pystreams.ids import TopicPartition
    from pystreams.stores.contracts.key_value import KeyValueEngine, StateStoreContext
    from pystreams.stores.contracts.position import Position

BytesWrite = Callable[[bytes, bytes | None, bytes | None, int, PresentRecord], None]
"""Writes (key, stored value, plain value, timestamp in ms), given the record that led to it."""

ABSENT: Any = object()
"""What `dirty.get` gives for a key that has no uncommitted write (None is a deletion)."""


class BufferedKeyValueStore(UncommittedBytes):
    """One dirty map over one engine.

    Typed stores call `write` for each put, with the bytes to store and the plain value to log:
    the same for plain stores, eight bytes of timestamp apart for timestamped ones. Which way
    `write` goes (logged, cached) is decided once, in `init`.

    Args:
        engine: Holds what is committed; owned by this object from now on.
        value_prefix_bytes: Bytes that precede the plain value in what is stored: 8 where the
            engine keeps timestamps, else 0.
        caching: Whether the spec asks for the record cache.
        key_prefix_bytes: Bytes before the key that the changelog does not see: 8 where keys are
            stored by segment, else 0.
        restored: Turns changelog records into changes.
        logs_headers: Whether records are logged with the headers of those that led to them.

    Attributes:
        dirty: Uncommitted writes by key; None deletes. Read-only for others.
        dirty_get: What a read of the owner calls first, `dirty.get`.
        sorted_keys: The keys of `dirty` in order, for the owner.
        gap: What the owner's ordered reads need not walk over.
        readers_keys: The keys of `dirty` in order, for other threads.
        committed_get: Committed bytes of a key, for the owner: through the read cache.
        engine_get: Committed bytes of a key; like the next two, for any thread.
        engine_range: Iterates over committed bytes.
        engine_num_entries: About how many keys are committed.
        write: `write(key, stored, plain, timestamp, record)`, with the record that led to it; None
            for both values deletes the key.
        cached_bytes: Bytes of keys and values neither logged nor forwarded yet.
        metadata: What is committed beside the data.
        generation: Counts changes of the engine's content and drops of the dirty map; raised after
            the engine has the change and before the map loses it, for readers of other threads.
        caches: Whether the record cache is on; known after `init`.
        transactional: Whether writes wait for `commit`.
    """

    transactional = True

    __slots__ = (
        "_delete_below",
        "_directory",
        "_engine",
        "_listener",
        "_log",
        "_logs_headers",
        "_pending",
        "_read_cache",
        "_restored",
        "_send_old_values",
        "_spec_caching",
        "cached_bytes",
        "caches",
        "committed_get",
        "dirty",
        "dirty_get",
        "engine_get",
        "engine_num_entries",
        "engine_range",
        "gap",
        "generation",
        "is_open",
        "key_prefix_bytes",
        "metadata",
        "name",
        "readers_keys",
        "sorted_keys",
        "value_prefix_bytes",
        "write",
    )

    def __init__(
        self,
        name: str,
        engine: KeyValueEngine,
        *,
        value_prefix_bytes: int = 0,
        caching: bool = False,
        key_prefix_bytes: int = 0,
        restored: RestoredChanges = plain_changes,
        logs_headers: bool = False,
    ) -> None:
        super().__init__()
        self.name = name
        self.value_prefix_bytes = value_prefix_bytes
        self.key_prefix_bytes = key_prefix_bytes
        self.dirty: dict[bytes, bytes | None] = {}
        self.dirty_get: Callable[[bytes, Any], Any] = self.dirty.get
        self.cached_bytes = self.generation = 0
        self.caches = self.is_open = self._send_old_values = False
        self.write: BytesWrite = self._write_logged
        self._engine = engine
        self._directory = Path()
        self.engine_get = self.committed_get = engine.get
        self._read_cache: ReadCache | None = None
        self.engine_range = engine.range
        self.engine_num_entries = engine.approximate_num_entries
        self._spec_caching = caching
        self.sorted_keys = SortedKeys(self.dirty)
        self.gap = KnownGap(self.dirty)
        self.readers_keys = ReadersKeys(self.dirty)
        self._pending: dict[bytes, CachedWrite] = {}
        self.metadata = StoreMetadata()
        self._restored = restored
        self._logs_headers = logs_headers
        self._delete_below: bytes | None = None
        self._listener: BytesFlushListener | None = None
        self._log: Callable[[ProducedRecord], None] = log_to(None)

    @property
    def persistent(self) -> bool:
        """Whether committed data outlives the process."""
        return self._engine.persistent

    def init(self, context: StateStoreContext) -> None:
        """Open the engine and read the committed offsets; see `opening` for what is checked.

        Raises:
            StateStoreError: The engine can't be opened; says why and what to do.
        """
        self._directory = context.task_directory / "rocksdb" / self.name
        open_engine(self._engine, self.metadata, self.name, self._directory, context)
        self._log = log_to(context.changelog, key_prefix_bytes=self.key_prefix_bytes)
        self.caches = self._spec_caching and context.environment.cache_enabled
        self.write = self._write_cached if self.caches else self._write_logged
        self.count_from_zero(context.growth)
        self.gap.forget()
        self._read_cache = None
        read_caches = context.environment.read_cache_budget
        if self.persistent and read_caches is not None:
            self._read_cache = read_caches.cache(self._engine.get)
        self.committed_get = self._engine.get if self._read_cache is None else self._read_cache.get
        self.is_open = True

    def set_flush_listener(self, listener: BytesFlushListener, *, send_old_values: bool) -> bool:
        """Set who hears of a cache flush; return whether the store caches."""
        self._listener = listener
        self._send_old_values = send_old_values
        return self.caches

    def get(self, key: bytes) -> bytes | None:
        """Return the stored bytes of a key, uncommitted ones first, or None."""
        stored: bytes | None = self.dirty.get(key, ABSENT)
        return self.committed_get(key) if stored is ABSENT else stored

    def known_get(self, key: bytes) -> bytes | None:
        """Return the stored bytes of a key if they are in memory, else None."""
        cached = None if self._read_cache is None else self._read_cache.peek(key)
        return self.dirty.get(key, cached)

    def get_sent(self, key: bytes) -> bytes | None:
        """Return the stored bytes of a key as the listener knows them: without the cache's."""
        entry = self._pending.get(key)
        stored = self.dirty.get(key, ABSENT) if entry is None else entry[PREVIOUS]
        return self.committed_get(key) if stored is ABSENT else stored

    def range(self, start: bytes | None, end: bytes | None, *, reverse: bool = False) -> Entries:
        """Iterate from `start` (inclusive) to `end` (exclusive) over uncommitted and committed.

        The owner may write, commit and roll back while the iterator is open: what lies ahead of
        it is then read as it is now.
        """
        return merged_range(self, start, end, reverse=reverse)

    def uncommitted_range(
        self, start: bytes | None, end: bytes | None, *, reverse: bool = False
    ) -> Entries:
        """Iterate as `range` does where the engine is known to hold nothing that is wanted."""
        return merged_range(self, start, end, reverse=reverse, none_committed=True)

    def approximate_num_entries(self) -> int:
        """Return the engine's estimate plus the dirty keys; updated keys count twice."""
        return self._engine.approximate_num_entries() + len(self.dirty)

    def _write_logged(
        self,
        key: bytes,
        stored: bytes | None,
        plain: bytes | None,
        timestamp: int,
        record: PresentRecord,
    ) -> None:
        """Write one key and log it at once."""
        dirty = self.dirty
        previous = dirty.get(key, ABSENT)
        size = len(stored) if stored is not None else 0
        if previous is ABSENT:
            size += len(key)
        elif previous is not None:
            size -= len(previous)
        elif stored is not None:
            self.gap.fill(key)
        dirty[key] = stored
        self.uncommitted_bytes = uncommitted = self.uncommitted_bytes + size
        if uncommitted > self.watched_bytes:
            self.note(uncommitted)
        self._log((key, plain, timestamp, record.headers if self._logs_headers else ()))

    def _write_cached(
        self,
        key: bytes,
        stored: bytes | None,
        plain: bytes | None,
        timestamp: int,
        record: PresentRecord,
    ) -> None:
        """Write one key and remember to log and forward it at the next flush.

        The value before is looked up at the flush and only if it is needed, which is possible
        because until then it is where it was: in the dirty map as `previous`, or in the engine.
        """
        dirty = self.dirty
        previous = dirty.get(key, ABSENT)
        growth = size = len(stored) if stored is not None else 0
        if previous is ABSENT:
            growth += len(key)
        elif previous is not None:
            growth -= len(previous)
        elif stored is not None:
            self.gap.fill(key)
        dirty[key] = stored
        self.uncommitted_bytes = uncommitted = self.uncommitted_bytes + growth
        if uncommitted > self.watched_bytes:
            self.note(uncommitted)
        pending = self._pending
        entry = pending.pop(key, None)  # Back in at the end: flush goes in order of last update.
        if entry is None:
            self.cached_bytes += len(key) + size
        else:
            self.cached_bytes += growth
            previous = entry[PREVIOUS]
        source = None if self._listener is None else record.metadata()
        pending[key] = (plain, timestamp, record.headers, source, previous)

    def flush_cache(self) -> None:
        """Log the last value of each key written since the last flush, and tell the listener.

        In order of last update, each as of the record that led to it. With a listener, a key that
        had no value before and has none now is neither logged nor forwarded. What the listener's
        processors write here is flushed, too. Spec: Kafka CachingKeyValueStore, NamedCache.flush.
        """
        log, listener, send_old_values = self._log, self._listener, self._send_old_values
        while self._pending:
            pending, self._pending = self._pending, {}
            self.cached_bytes = 0
            for key, (plain, timestamp, headers, source, previous) in pending.items():
                if listener is None:
                    log((key, plain, timestamp, ()))
                    continue
                old: bytes | None = None
                if plain is None or send_old_values:
                    old = self.committed_get(key) if previous is ABSENT else previous
                    if plain is None and old is None:
                        continue
                log((key, plain, timestamp, ()))
                listener(key, plain, old if send_old_values else None, timestamp, headers, source)

    def needs_flush(self) -> bool:
        """Return whether the cache holds something."""
        return bool(self._pending)

    def commit(self, changelog_offsets: Mapping[TopicPartition, int]) -> None:
        """Write dirty map and offsets to the engine in one batch, and only then clear the map.

        Raises:
            StateStoreError: The write failed; dirty map and engine are as they were.
        """
        assert not self._pending, f"store {self.name}: commit before flush_cache"
        with_data = bool(self.dirty) or self._delete_below is not None
        self._write_out(self.metadata.changes(changelog_offsets, with_data=with_data))
        self._clear()

    def rollback(self) -> None:
        """Drop the dirty map, and with it what the cache holds."""
        self._pending = {}
        self.cached_bytes = 0
        if self.dirty:
            self.gap.forget()
        self._clear()

    def restore(self, messages: Sequence[ConsumedMessage]) -> None:
        """Apply a batch of changelog records of one partition and the last one's offset.

        Raises:
            StateStoreError: The write failed; nothing of the batch is applied.
        """
        assert not self.dirty, f"store {self.name}: restore over uncommitted writes"
        if not messages:
            return
        changes = self._restored(messages)
        metadata = self.metadata.restored(messages[-1])
        self._engine.write(changes, metadata, delete_below=self._delete_below)
        self._delete_below = None
        self.metadata.remember(metadata)
        if self._read_cache is not None:
            self._read_cache.clear()
        self.gap.forget()
        self.generation += 1

    def delete_below(self, bound: bytes) -> None:
        """Delete every key below `bound` at the next commit, or with the batch being restored.

        The caller reads and writes above it only, from now on: reads do not look at the bound.
        `rollback` forgets it.
        """
        self._delete_below = bound

    def committed_offset(self, partition: TopicPartition) -> int | None:
        """Return the offset of the last changelog record in the engine, or None."""
        return self.metadata.offset(partition)

    def position(self) -> Position:
        """Return which input the engine's data reflects at least."""
        return self.metadata.position()

    def close(self) -> None:
        """Drop what is uncommitted and close the engine; safe to call twice."""
        self.is_open, self._read_cache = False, None
        self.committed_get = self._engine.get
        self.rollback()
        self._engine.close()

    def destroy(self) -> None:
        """Close, and delete all that was ever committed."""
        self.close()
        if self.persistent:
            wipe(self.name, self._directory)

    def _write_out(self, metadata: dict[bytes, bytes | None]) -> None:
        """Write the dirty map and some metadata to the engine."""
        bound = self._delete_below
        if self.dirty or metadata or bound is not None:
            changes = self.dirty
            if bound is not None:
                changes = {key: value for key, value in changes.items() if key >= bound}
            self._engine.write(changes, metadata, delete_below=bound)
            self.metadata.remember(metadata)
            if self._read_cache is not None:
                self._read_cache.committed(changes, self.uncommitted_bytes)

    def _clear(self) -> None:
        self.generation += 1
        self.gap.written_out()
        self.dirty.clear()
        self.sorted_keys.clear()
        self.readers_keys.clear()
        self.uncommitted_bytes = 0
        self._delete_below = None
