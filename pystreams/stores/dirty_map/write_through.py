"""A store that is not transactional: what is written reaches the engine before the commit.

    put --> small batch --(full, cache flushed, or commit)--> engine
      +---> changelog

The price of not holding a transaction in memory is that nothing can be undone. Under at-least-once
that is what was agreed: the records are processed again. Under exactly-once the store is wiped and
restored from its changelog, it alone, whenever the engine may hold what was not committed:

- after a rollback, by the state manager;
- after an unclean end: `status` in the metadata is 1 while the store is open, and 0 after it was
  closed with nothing in the engine beyond the last commit. It is written before any data, and
  RocksDB flushes all column families together, so that no data of a life is on the disk without
  the 1.

Queries see what is written, at either isolation level. Uncommitted bytes are 0: there is nothing
that an early commit could free.

Spec: KIP-844 (the flag), KIP-1035; Kafka RocksDBStore.DirectDBAccessor and its `status` entry.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from pystreams.errors import StateStoreError
from pystreams.kernel.loggers import get_logger
from pystreams.stores.dirty_map.buffered import BufferedKeyValueStore
from pystreams.stores.files.metadata import CLOSED, OPEN, STATUS, pack_long

if TYPE_CHECKING:
    from pystreams.ids import TopicPartition
    from pystreams.record import PresentRecord
    from pystreams.stores.contracts.key_value import StateStoreContext

_BATCH_RECORDS = 100
"""Keys that wait to be written together: a batch costs RocksDB much less than its keys one by one,
and what waits is still too little to count as memory."""

_log = get_logger("pystreams.stores")


class WriteThroughKeyValueStore(BufferedKeyValueStore):
    """A `BufferedKeyValueStore` whose dirty map holds one small batch, or the record cache.

    Invariant: `_ahead` is True from the first write that reaches the engine until the commit that
    covers it.
    """

    __slots__ = ("_ahead",)

    transactional = False

    def init(self, context: StateStoreContext) -> None:
        """Open the engine, read the committed offsets, and mark the store as open.

        Raises:
            StateStoreError: The engine can't be opened or written.
            StateStoreCorruptedError: Under exactly-once, the store was not closed in order.
        """
        super().init(context)
        self._ahead = False
        self._mark(OPEN)

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
        if stored is not None and dirty.get(key, stored) is None:
            self.gap.fill(key)
        dirty[key] = stored
        self._log((key, plain, timestamp, record.headers if self._logs_headers else ()))
        if len(dirty) >= _BATCH_RECORDS:
            self._write_through()

    def _write_cached(
        self,
        key: bytes,
        stored: bytes | None,
        plain: bytes | None,
        timestamp: int,
        record: PresentRecord,
    ) -> None:
        """Write one key; it is logged, forwarded and written through at the next flush."""
        super()._write_cached(key, stored, plain, timestamp, record)
        self.uncommitted_bytes = self.max_uncommitted_bytes = 0

    def flush_cache(self) -> None:
        """Log and forward what the record cache holds, then write it through."""
        super().flush_cache()
        self._write_through()

    def commit(self, changelog_offsets: Mapping[TopicPartition, int]) -> None:
        """Write what is left of the batch together with the offsets.

        Raises:
            StateStoreError: The write failed; nothing of it is applied.
        """
        super().commit(changelog_offsets)
        self._ahead = False

    def close(self) -> None:
        """Close; what has not reached the engine is dropped. Safe to call twice."""
        if self.is_open and not self._ahead:
            try:
                self._mark(CLOSED)
            except StateStoreError as error:
                # It then counts as not closed: under exactly-once the next start restores it.
                _log.warning("store can't be marked as closed", store=self.name, error=str(error))
        super().close()

    def _write_out(self, metadata: dict[bytes, bytes | None]) -> None:
        """Write the batch; its bytes are counted here, for the read cache, and not per write."""
        self.uncommitted_bytes = sum(
            len(key) + len(stored) if stored is not None else len(key)
            for key, stored in self.dirty.items()
        )
        super()._write_out(metadata)

    def _write_through(self) -> None:
        if self.dirty or self._delete_below is not None:
            self._ahead = True
            self._write_out({})
            self._clear()

    def _mark(self, status: int) -> None:
        if self.persistent:
            entry: dict[bytes, bytes | None] = {STATUS: pack_long(status)}
            self._engine.write({}, entry)
            self.metadata.remember(entry)
