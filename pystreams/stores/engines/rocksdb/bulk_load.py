"""Fills a new database with sorted files instead of write batches.

    write --> waiting changes --(full)--> sorted by key --> one SST file a family --> ingested
                                                            close: `offsets`, last, the same way

Whoever builds a whole store at once has no commit to be atomic with, and no use for memtables: what
a write batch brings is sorted, written to disk, and written again by compactions. A file that is
written in order and ingested is written once, and goes to the lowest level where it overlaps with
nothing.

What waits is bounded (`run_entries`, `run_bytes`), whatever the order in which changes come: each
run is sorted by itself, and of two ingested files that overlap the later one counts, as of two
writes. Rows in order of stored keys, which is what a backfill stages of most stores, make files
that do not overlap. Reads see what was written, ingested or not: a versioned store looks up the
rows that a record changes.

Metadata waits until `close`: `offsets` never says more than the data beside it. Until then the
directory is no store that could be opened for use; so it is built under another name.

Spec: RocksDB `IngestExternalFile`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pystreams.kernel.changes import apply_changes
from pystreams.stores.contracts.many_keys import get_many

if TYPE_CHECKING:
    from pystreams.stores.contracts.key_value import KeyValueIterator, RocksDBConfigSetter
    from pystreams.stores.engines.rocksdb.engine import RocksDBEngine
    from pystreams.stores.engines.rocksdb.segments import RocksDBSegmentEngine

RUN_ENTRIES = 100_000
RUN_BYTES = 32 << 20

_ABSENT: Any = object()


class BulkLoadEngine:
    """A `KeyValueEngine` for a store that is built from nothing and then closed.

    Threads: one, its owner's.

    Args:
        engine: The engine of the store's kind, closed; owned by this object from now on.
        run_entries: Changes that wait to be sorted, at most, but for those of the last write.
        run_bytes: Their keys and values, likewise.
    """

    def __init__(
        self,
        engine: RocksDBEngine | RocksDBSegmentEngine,
        *,
        run_entries: int = RUN_ENTRIES,
        run_bytes: int = RUN_BYTES,
    ) -> None:
        self._engine = engine
        self._run_entries = run_entries
        self._run_bytes = run_bytes
        self._waiting: dict[bytes, bytes | None] = {}
        self._waiting_bytes = 0
        self._metadata: dict[bytes, bytes] = {}
        self._is_open = False

    @property
    def persistent(self) -> bool:
        """Return True."""
        return True

    def open(
        self, directory: Path, rocksdb_config_setter: RocksDBConfigSetter | None = None
    ) -> None:
        """Create the database in `directory`."""
        self._engine.open(directory, rocksdb_config_setter)
        self._metadata = self._engine.metadata()
        self._is_open = True

    def get(self, key: bytes) -> bytes | None:
        """Return what was written, or None."""
        value: bytes | None = self._waiting.get(key, _ABSENT)
        return self._engine.get(key) if value is _ABSENT else value

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """Return what was written under keys, in their order.

        Raises:
            StateStoreError: The file is corrupt or unreadable.
        """
        waiting = self._waiting
        others = [key for key in keys if key not in waiting]
        ingested = dict(zip(others, get_many(self._engine, others), strict=True))
        return [ingested[key] if key in ingested else waiting[key] for key in keys]

    def range(
        self, start: bytes | None, end: bytes | None, *, reverse: bool = False
    ) -> KeyValueIterator[bytes, bytes]:
        """Iterate over what was written, from `start` (inclusive) to `end` (exclusive).

        Raises:
            StateStoreError: The disk is full or gone, or the file unreadable.
        """
        self._ingest_waiting()
        return self._engine.range(start, end, reverse=reverse)

    def write(
        self,
        changes: Mapping[bytes, bytes | None],
        metadata: Mapping[bytes, bytes | None],
        *,
        delete_below: bytes | None = None,
    ) -> None:
        """Take data and metadata; None deletes. Durable after `close`."""
        if delete_below is not None:
            self._ingest_waiting()
            self._engine.write({}, {}, delete_below=delete_below)
        self._waiting.update(changes)
        self._waiting_bytes += sum(map(len, changes)) + sum(
            len(value) for value in changes.values() if value is not None
        )
        apply_changes(self._metadata, metadata)
        if len(self._waiting) >= self._run_entries or self._waiting_bytes >= self._run_bytes:
            self._ingest_waiting()

    def metadata(self) -> dict[bytes, bytes]:
        """Return the metadata that `close` will write."""
        return dict(self._metadata)

    def approximate_num_entries(self) -> int:
        """Return about how many keys there are; those that wait may count twice."""
        return self._engine.approximate_num_entries() + len(self._waiting)

    def close(self) -> None:
        """Ingest what waits, then the metadata, and release the files; safe to call twice.

        Raises:
            StateStoreError: The disk is full or gone; the directory is of no use then.
        """
        try:
            if self._is_open:
                self._ingest_waiting()
                if self._metadata:
                    self._engine.ingest_metadata(self._metadata)
        finally:
            self.abandon()

    def abandon(self) -> None:
        """Release the files, and write nothing more; safe to call twice."""
        self._is_open = False
        self._waiting.clear()
        self._waiting_bytes = 0
        self._engine.close()

    def _ingest_waiting(self) -> None:
        if self._waiting:
            self._engine.ingest(self._waiting)
            self._waiting.clear()
            self._waiting_bytes = 0
