"""One database a store: the engine of key-value and versioned stores on disk."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rocksdict import Rdict, WriteBatch

from pystreams.errors import StateStoreError, StoreNotAvailableError
from pystreams.stores.engines.rocksdb.database import DEFAULT_CF, OFFSETS_CF, DatabaseEngine
from pystreams.stores.engines.rocksdb.plain_data import move_plain_data
from pystreams.stores.engines.rocksdb.writing import fill
from pystreams.stores.files.metadata import SEGMENT_INTERVAL

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from pystreams.stores.contracts.key_value import KeyValueIterator, RocksDBConfigSetter

TIMESTAMPED_CF = "keyValueWithTimestamp"


class RocksDBEngine(DatabaseEngine):
    """A `KeyValueEngine` on disk.

    Threads: the owner writes; `get` and `range` may be called by any thread. RocksDB iterators
    read from a snapshot, so a reader of another thread sees whole commits only.

    Args:
        timestamped: Whether values carry their timestamp in the first eight bytes, which decides
            the column family.
        versioned: Whether the store may be a versioned one; else the database of one is refused.
    """

    def __init__(self, name: str, *, timestamped: bool, versioned: bool = False) -> None:
        super().__init__(name)
        self._versioned = versioned
        self._data_cf = TIMESTAMPED_CF if timestamped else DEFAULT_CF
        self._data: Rdict | None = None
        self._data_handle: Any = None
        self._get: Any = self._refuse

    def open(
        self, directory: Path, rocksdb_config_setter: RocksDBConfigSetter | None = None
    ) -> None:
        """Open or create the database in `directory`."""
        database = self._database
        known = list(dict.fromkeys((DEFAULT_CF, self._data_cf, OFFSETS_CF)))
        present = database.present_families(directory)
        database.refuse_foreign(set(present).difference(known), ", ".join(known))
        native = database.open(known[1:-1], rocksdb_config_setter)
        plain = self._data_cf == DEFAULT_CF
        self._data = native if plain else native.get_column_family(self._data_cf)
        self._data_handle = native.get_column_family_handle(self._data_cf)
        self._get = self._data.get
        try:
            self._refuse_versions()
            if not plain:
                move_plain_data(self._name, database, self._data_handle)
        except StateStoreError:
            self.close()
            raise

    def get(self, key: bytes) -> bytes | None:
        """Return a committed value or None."""
        try:
            return self._get(key)  # type: ignore[no-any-return]
        except StoreNotAvailableError:
            raise
        except Exception as error:
            raise self._database.read_error(error) from error

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """Return the committed values of keys, in their order.

        Raises:
            StoreNotAvailableError: The store is closed.
            StateStoreError: The file is corrupt or unreadable.
        """
        try:
            return self._get(list(keys))  # type: ignore[no-any-return]
        except StoreNotAvailableError:
            raise
        except Exception as error:
            raise self._database.read_error(error) from error

    def range(
        self, start: bytes | None, end: bytes | None, *, reverse: bool = False
    ) -> KeyValueIterator[bytes, bytes]:
        """Iterate over a snapshot from `start` (inclusive) to `end` (exclusive)."""
        data = self._data
        if data is None:
            raise self._database.closed_error()
        return self._database.iterate(data, start, end, reverse=reverse)

    def write(
        self,
        changes: Mapping[bytes, bytes | None],
        metadata: Mapping[bytes, bytes | None],
        *,
        delete_below: bytes | None = None,
    ) -> None:
        """Apply data and metadata in one write batch; None deletes.

        Keys below `delete_below` go with one range tombstone, in the same batch.
        """

        def fill_data(batch: WriteBatch) -> None:
            if delete_below is not None:
                batch.delete_range(b"", delete_below, self._data_handle)
            fill(batch, changes, self._data_handle)

        self._database.apply(fill_data, metadata)

    def ingest(self, changes: Mapping[bytes, bytes | None]) -> None:
        """Apply data as a sorted file, durably; None deletes."""
        if changes:
            data = self._data
            if data is None:
                raise self._database.closed_error()
            self._database.ingest(data, ((key, changes[key]) for key in sorted(changes)))

    def approximate_num_entries(self) -> int:
        """Return RocksDB's estimate of the number of keys."""
        if self._data is None:
            raise self._database.closed_error()
        return self._data.property_int_value("rocksdb.estimate-num-keys") or 0

    def close(self) -> None:
        """Flush what is committed and release files and memory; safe to call twice.

        When the flush fails (a full disk), the store falls back to its last flushed commit, data
        and offset together, and the difference is restored at the next start: logged, not raised.
        """
        data = self._data
        self._data = self._data_handle = None
        self._get = self._refuse
        families = () if data is None or data is self._database.native else (data,)
        self._database.close(families)

    def _refuse_versions(self) -> None:
        """Refuse rows of versions, unless they are the store's own: they would pass for entries."""
        if not self._versioned and SEGMENT_INTERVAL in self._database.metadata():
            raise StateStoreError(
                self._name,
                f"{self._database.directory} was written by a versioned store. Use a versioned "
                "store, or delete the directory; the store is then restored from its changelog",
            )

    def _refuse(self, key: bytes) -> bytes | None:
        raise self._database.closed_error()
