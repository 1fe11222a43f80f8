"""The RocksDB engine: one database a store, in Kafka Streams' layout; only importer of rocksdict.

Column families (KIP-1035): `default` holds the data of a plain store; `keyValueWithTimestamp`
that of a timestamped one, whose `default` is then the legacy of a plain store and is moved over
at open; `offsets` holds `<topic>-<partition>` -> int64 (big-endian) offset of the last changelog
record in the data. Any other column family is refused: it was written by something we can't read.

Crash safety. The write-ahead log is off and a commit forces no flush: the changelog is the log.
Atomic flush makes every memtable flush take all column families together, so that after a
SIGKILL data and offset are those of one and the same commit: that of the last flush. What is lost
is at most what the memtables held, and restoring it is the price of a crash. That decides the
write buffer's size, `WRITE_BUFFER_BYTES`: 4 MiB hold about 80,000 small records, a quarter of a
second of restoring, where RocksDB's 64 MiB (Kafka Streams: 16) would be seconds; measured, the
smaller buffer also writes faster, because it fits the processor's cache.
Never flush one column family by hand: a manual flush takes that one alone, atomic flush or not.
Closing is such a flush in rocksdict, so its order matters: data first, then offsets. A crash in
between leaves data newer than its offset, and replaying what is in it already changes nothing;
the other order would lose records.

What rocksdict does that one would not expect, and what is done about it here:
- A column family handle, a bound method of one or an iterator keeps the database, and its LOCK,
  open after `close`. So nothing native leaves this module: iterators are wrapped, and released
  by `close`.
- Closing or dropping the `Rdict` of a column family flushes that family alone. So none is kept
  for `offsets`: it is read once, at open, before there is anything to flush.
- `Rdict.items()` ends without an error at a corrupt block. `RdictIter` tells by `status()`.
- A `WriteBatch` is spent by a failed write as well; a retry builds a new one.
- It writes `rocksdict-config.json` into the directory. RocksDB ignores it, and a directory
  without it (written by Java) opens: raw mode is what we ask for, whatever the file says.
- `ReadOptions.set_iterate_lower_bound` sets the upper bound; so lower bounds are our own affair.
- `WriteOptions.disable_wal` is a property, though the type stubs say it is a method.

Spec: KIP-892 "Atomic Checkpointing"; KIP-1035 "Proposed Changes"; Kafka RocksDBStore.openDB.
"""

from __future__ import annotations

import os
import weakref
from pathlib import Path
from typing import TYPE_CHECKING, Any

import structlog
from rocksdict import (
    BlockBasedOptions,
    Cache,
    DBCompactionStyle,
    DBCompressionType,
    Options,
    Rdict,
    ReadOptions,
    WriteBatch,
    WriteBufferManager,
    WriteOptions,
)

from pystreams.errors import StateStoreCorruptedError, StateStoreError, StoreNotAvailableError
from pystreams.stores.engines.rocksdb_errors import cause_and_cure, is_damage
from pystreams.stores.engines.rocksdb_iterator import RocksDBIterator

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pystreams.stores.api import KeyValueIterator, RocksDBConfigSetter

DATA_CF = "default"
TIMESTAMPED_CF = "keyValueWithTimestamp"
OFFSETS_CF = "offsets"

WRITE_BUFFER_BYTES = 4 << 20
"""Size of a memtable; see the module's text for why it is small."""
_OFFSETS_WRITE_BUFFER_BYTES = 1 << 20
_WRITE_BUFFERS = 3
_BLOOM_BITS_PER_KEY = 10
_MIGRATION_BATCH_RECORDS = 10_000
_NO_TIMESTAMP = b"\xff" * 8

_log = structlog.get_logger(__name__)


class RocksDBMemory:
    """The memory all RocksDB stores of a process share: one block cache, one memtable budget.

    There is one object a process, `MEMORY`; the runtime sets its totals at start. Both totals can
    change while databases are open. Index and filter blocks live in the block cache, so the two
    totals bound what RocksDB holds, up to the block each open iterator pins.

    Attributes:
        block_cache_bytes: Capacity of the block cache.
        write_buffer_bytes: Memtables of all stores together; beyond it, memtables are flushed.
    """

    def __init__(self, block_cache_bytes: int, write_buffer_bytes: int) -> None:
        self.block_cache_bytes = block_cache_bytes
        self.write_buffer_bytes = write_buffer_bytes
        self.cache = Cache(block_cache_bytes)
        # Never stall writers: exceeding the budget by what a commit adds is better than waiting.
        self.write_buffer_manager = WriteBufferManager(write_buffer_bytes, allow_stall=False)

    def configure(self, block_cache_bytes: int, write_buffer_bytes: int) -> None:
        """Set both totals, in bytes."""
        self.block_cache_bytes = block_cache_bytes
        self.write_buffer_bytes = write_buffer_bytes
        self.cache.set_capacity(block_cache_bytes)
        self.write_buffer_manager.set_buffer_size(write_buffer_bytes)

    def used_bytes(self) -> int:
        """Return what the block cache and the memtables hold now."""
        return self.cache.get_usage() + self.write_buffer_manager.get_usage()


MEMORY = RocksDBMemory(block_cache_bytes=128 << 20, write_buffer_bytes=64 << 20)
"""The one owner of RocksDB's memory in this process."""


class RocksDBEngine:
    """A `KeyValueEngine` on disk.

    Threads: the owner writes; `get` and `range` may be called by any thread. RocksDB iterators
    read from a snapshot, so a reader of another thread sees whole commits only.

    Args:
        name: The store's name, for error messages and the config hook.
        timestamped: Whether values carry their timestamp in the first eight bytes, which decides
            the column family.
    """

    def __init__(self, name: str, *, timestamped: bool) -> None:
        self._name = name
        self._data_cf = TIMESTAMPED_CF if timestamped else DATA_CF
        self._directory = Path()
        self._db: Rdict | None = None
        self._data: Any = None
        self._metadata: dict[bytes, bytes] = {}
        self._data_handle: Any = None
        self._offsets_handle: Any = None
        self._get: Any = self._refuse
        self._iterators: weakref.WeakSet[RocksDBIterator] = weakref.WeakSet()
        self._write_options = WriteOptions()
        self._write_options.disable_wal = True  # type: ignore[method-assign, assignment]

    @property
    def persistent(self) -> bool:
        """Return True."""
        return True

    def open(
        self, directory: Path, rocksdb_config_setter: RocksDBConfigSetter | None = None
    ) -> None:
        """Open or create the database in `directory`.

        Raises:
            StateStoreError: Not writable, held by another process, corrupt, or foreign.
        """
        self._directory = directory
        try:
            directory.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise self._error("can't be opened", error) from error
        families = [DATA_CF, OFFSETS_CF]
        if self._data_cf != DATA_CF:
            families.insert(1, self._data_cf)
        self._refuse_foreign_families(families)
        options = _store_options()
        if rocksdb_config_setter is not None:
            rocksdb_config_setter(self._name, options)
        _crash_safe(options)
        by_family = {OFFSETS_CF: _offsets_options()}
        if self._data_cf != DATA_CF:
            by_family[self._data_cf] = options
        try:
            db = Rdict(str(directory), options, by_family)
        except Exception as error:
            raise self._error("can't be opened", error) from error
        offsets = db.get_column_family(OFFSETS_CF)
        self._metadata = dict(self._iterate(offsets))
        offsets.close()
        self._db = db
        self._data = db if self._data_cf == DATA_CF else db.get_column_family(self._data_cf)
        self._data_handle = db.get_column_family_handle(self._data_cf)
        self._offsets_handle = db.get_column_family_handle(OFFSETS_CF)
        self._get = self._data.get
        if self._data_cf != DATA_CF:
            try:
                self._migrate_plain_data(db)
            except StateStoreError:
                self.close()
                raise

    def get(self, key: bytes) -> bytes | None:
        """Return a committed value or None.

        Raises:
            StoreNotAvailableError: The store is closed.
            StateStoreError: The file is corrupt or unreadable.
        """
        try:
            return self._get(key)  # type: ignore[no-any-return]
        except StoreNotAvailableError:
            raise
        except Exception as error:
            raise self.read_error(error) from error

    def range(
        self, start: bytes | None, end: bytes | None, *, reverse: bool = False
    ) -> KeyValueIterator[bytes, bytes]:
        """Iterate over a snapshot from `start` (inclusive) to `end` (exclusive)."""
        data = self._data
        if data is None:
            raise self.closed_error()
        return self._iterate(data, start, end, reverse=reverse)

    def write(
        self, changes: Mapping[bytes, bytes | None], metadata: Mapping[bytes, bytes | None]
    ) -> None:
        """Apply data and metadata in one write batch; None deletes.

        Raises:
            StateStoreError: The disk is full or gone; nothing of the batch is applied.
        """
        if self._db is None:
            raise self.closed_error()
        batch = WriteBatch(raw_mode=True)
        _fill(batch, changes, self._data_handle)
        _fill(batch, metadata, self._offsets_handle)
        self._apply(self._db, batch)
        for key, value in metadata.items():
            if value is None:
                self._metadata.pop(key, None)
            else:
                self._metadata[key] = value

    def metadata(self) -> dict[bytes, bytes]:
        """Return everything in the `offsets` column family."""
        if self._db is None:
            raise self.closed_error()
        return dict(self._metadata)

    def approximate_num_entries(self) -> int:
        """Return RocksDB's estimate of the number of keys."""
        if self._data is None:
            raise self.closed_error()
        return self._data.property_int_value("rocksdb.estimate-num-keys") or 0

    def close(self) -> None:
        """Flush what is committed and release files and memory; safe to call twice.

        When the flush fails (a full disk), the store falls back to its last flushed commit, data
        and offset together, and the difference is restored at the next start: logged, not raised.
        """
        db = self._db
        if db is None:
            return
        for iterator in list(self._iterators):
            iterator.release()
        data = self._data
        self._db = self._data = None
        self._data_handle = self._offsets_handle = None
        self._get = self._refuse
        for family in (data, db) if data is not db else (db,):  # Data first: see the module.
            try:
                family.close()
            except Exception as error:  # noqa: BLE001 - rocksdict raises plain Exceptions
                _log.warning("store.close_flush_failed", store=self._name, error=str(error))

    def _iterate(
        self,
        family: Rdict,
        start: bytes | None = None,
        end: bytes | None = None,
        *,
        reverse: bool = False,
    ) -> RocksDBIterator:
        options = ReadOptions()
        if end is not None:
            options.set_iterate_upper_bound(end)
        try:
            native = family.iter(options)
            if reverse:
                native.seek_to_last()
            elif start is None:
                native.seek_to_first()
            else:
                native.seek(start)
        except Exception as error:
            raise self.read_error(error) from error
        iterator = RocksDBIterator(self, native, start, reverse=reverse)
        self._iterators.add(iterator)
        return iterator

    def _apply(self, db: Rdict, batch: WriteBatch) -> None:
        try:
            db.write(batch, self._write_options)
        except Exception as error:
            raise self._error("can't be written", error) from error

    def _refuse_foreign_families(self, known: list[str]) -> None:
        if not (self._directory / "CURRENT").exists():
            return
        try:
            present = Rdict.list_cf(str(self._directory))
        except Exception as error:
            raise self._error("can't be opened", error) from error
        foreign = sorted(set(present) - set(known))
        if foreign:
            names = ", ".join(repr(name) for name in foreign)
            raise StateStoreError(
                self._name,
                f"{self._directory} holds the unknown column family {names} (known here: "
                f"{', '.join(known)}): it was written by another kind of store or a newer "
                "version. Use the kind of store that wrote it, or delete the directory; the "
                "store is then restored from its changelog",
            )

    def _migrate_plain_data(self, db: Rdict) -> None:
        """Move what a plain store left in `default` to the timestamped family, timestamp -1.

        Differs from Kafka: Kafka moves each key when it is next read, and looks into both
        families until then; here the move is done once, at open, in atomic batches.
        """
        legacy = db.get_column_family_handle(DATA_CF)
        while True:
            batch = WriteBatch(raw_mode=True)
            moved = 0
            for key, value in self._iterate(db):
                batch.put(key, _NO_TIMESTAMP + value, self._data_handle)
                batch.delete(key, legacy)
                moved += 1
                if moved == _MIGRATION_BATCH_RECORDS:
                    break
            if not moved:
                return
            self._apply(db, batch)
            _log.info("store.timestamps_added", store=self._name, records=moved)

    def _refuse(self, key: bytes) -> bytes | None:
        raise self.closed_error()

    def closed_error(self) -> StoreNotAvailableError:
        """Return what readers of a closed store get."""
        return StoreNotAvailableError(
            f"state store {self._name!r} is closed: its task moved or stopped; ask again"
        )

    def read_error(self, error: Exception) -> Exception:
        """Return what a failed read raises; a reader overtaken by `close` is told so."""
        if self._db is None:
            return self.closed_error()
        return self._error("can't be read", error)

    def _error(self, what: str, error: Exception) -> StateStoreError:
        text = str(error)
        kind = StateStoreCorruptedError if is_damage(text) else StateStoreError
        return kind(self._name, f"{what}: {cause_and_cure(text, self._directory)}")


def _fill(batch: WriteBatch, changes: Mapping[bytes, bytes | None], family: Any) -> None:
    put = batch.put
    delete = batch.delete
    for key, value in changes.items():
        if value is None:
            delete(key, family)
        else:
            put(key, value, family)


def _store_options() -> Options:
    """Return the data's options, before the user's hook. Spec: Kafka RocksDBStore.openDB."""
    table = BlockBasedOptions()
    table.set_block_cache(MEMORY.cache)
    table.set_block_size(4 << 10)
    table.set_bloom_filter(_BLOOM_BITS_PER_KEY, block_based=False)
    table.set_cache_index_and_filter_blocks(True)
    table.set_pin_l0_filter_and_index_blocks_in_cache(True)
    options = Options(raw_mode=True)
    options.set_block_based_table_factory(table)
    options.set_write_buffer_manager(MEMORY.write_buffer_manager)
    options.set_write_buffer_size(WRITE_BUFFER_BYTES)
    options.set_max_write_buffer_number(_WRITE_BUFFERS)
    options.set_compaction_style(DBCompactionStyle.universal())
    options.set_compression_type(DBCompressionType.none())
    options.increase_parallelism(max(os.cpu_count() or 1, 2))
    options.set_keep_log_file_num(1)
    return options


def _offsets_options() -> Options:
    options = Options(raw_mode=True)
    options.set_compression_type(DBCompressionType.none())
    options.set_write_buffer_size(_OFFSETS_WRITE_BUFFER_BYTES)
    return options


def _crash_safe(options: Options) -> None:
    """Set what correctness rests on, after the user's hook."""
    options.create_if_missing(True)
    options.create_missing_column_families(True)
    options.set_atomic_flush(True)
