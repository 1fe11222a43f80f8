"""One database a store: the engine of key-value and versioned stores on disk."""

from __future__ import annotations

import weakref
from pathlib import Path
from typing import TYPE_CHECKING, Any

import structlog
from rocksdict import Rdict, ReadOptions, WriteBatch, WriteOptions

from pystreams.errors import StateStoreCorruptedError, StateStoreError, StoreNotAvailableError
from pystreams.stores.engines.rocksdb.errors import cause_and_cure, is_damage
from pystreams.stores.engines.rocksdb.iterator import RocksDBIterator
from pystreams.stores.engines.rocksdb.options import crash_safe, offsets_options, store_options

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pystreams.stores.api import KeyValueIterator, RocksDBConfigSetter

DATA_CF = "default"
TIMESTAMPED_CF = "keyValueWithTimestamp"
OFFSETS_CF = "offsets"

_MIGRATION_BATCH_RECORDS = 10_000
_NO_TIMESTAMP = b"\xff" * 8

_log = structlog.get_logger(__name__)


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
        options = store_options()
        if rocksdb_config_setter is not None:
            rocksdb_config_setter(self._name, options)
        crash_safe(options)
        by_family = {OFFSETS_CF: offsets_options()}
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
        self,
        changes: Mapping[bytes, bytes | None],
        metadata: Mapping[bytes, bytes | None],
        *,
        delete_below: bytes | None = None,
    ) -> None:
        """Apply data and metadata in one write batch; None deletes.

        Keys below `delete_below` go with one range tombstone, in the same batch.

        Raises:
            StateStoreError: The disk is full or gone; nothing of the batch is applied.
        """
        if self._db is None:
            raise self.closed_error()
        batch = WriteBatch(raw_mode=True)
        if delete_below is not None:
            batch.delete_range(b"", delete_below, self._data_handle)
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
