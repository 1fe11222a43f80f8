"""What a batch of changelog records changes in the rows of a versioned store.

A changelog record is put again. Nearly all rows that a batch asks for are known before: the latest
value of each key, and its row in the segment of each record, where an append ends. They are read
at once, past the read cache, which a restore empties anyway. Rows in segments that had none before
the batch are not looked for. Read one by one are only those of segments that are newer than a
record, for a record that comes late or whose key has no latest value.

Keys are not grouped: an append reads two numbers of a row and copies the rest once.

Spec: Kafka RocksDBVersionedStoreRestoreWriteBuffer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pystreams.stores.contracts.many_keys import get_many
from pystreams.stores.dirty_map.buffered import ABSENT
from pystreams.stores.dirty_map.restoring import Changes
from pystreams.stores.kinds.versioned.reader import LATEST_PREFIX, SegmentIndex
from pystreams.stores.kinds.versioned.writer import VersionWriter
from pystreams.stores.time_segments.segments import SEGMENT_ID_BYTES, Segments, segment_prefix

if TYPE_CHECKING:
    from pystreams.stores.contracts.key_value import KeyValueEngine

RestoredPut = tuple[bytes, bytes | None, int]
"""(key, value, timestamp in ms)."""


class RestoredRows:
    """Rows as a batch finds them, and as it leaves them; made for one batch.

    Args:
        engine: Holds the rows from before the batch.
        index: Where there are rows; kept up to date.

    Attributes:
        changes: The rows that the batch has written.
    """

    __slots__ = ("_engine", "_index", "_known", "_prefixes", "_segments", "changes")

    def __init__(self, engine: KeyValueEngine, index: SegmentIndex, segments: Segments) -> None:
        self._engine = engine
        self._index = index
        self._segments = segments
        self._prefixes = {LATEST_PREFIX, *map(segment_prefix, index.ids)}
        self._known: Changes = {}
        self.changes: Changes = {}

    def put_all(self, puts: Sequence[RestoredPut]) -> None:
        """Put versions that history retention admits, in order."""
        self._read_all(puts)
        put = VersionWriter(self._segments, self._index, self._read, self._write).put
        for key, value, timestamp in puts:
            put(key, value, timestamp)

    def _read_all(self, puts: Sequence[RestoredPut]) -> None:
        wanted = dict.fromkeys([LATEST_PREFIX + key for key, _, _ in puts])
        if self._index.ids:
            id_of, prefixes = self._segments.id_of, self._prefixes
            for key, _, timestamp in puts:
                prefix = segment_prefix(id_of(timestamp))
                if prefix in prefixes:
                    wanted[prefix + key] = None
        stored_keys = list(wanted)
        self._known = dict(zip(stored_keys, get_many(self._engine, stored_keys), strict=True))

    def _read(self, stored_key: bytes) -> bytes | None:
        row: bytes | None = self._known.get(stored_key, ABSENT)
        if row is ABSENT:
            there = stored_key[:SEGMENT_ID_BYTES] in self._prefixes
            row = self._known[stored_key] = self._engine.get(stored_key) if there else None
        return row

    def _write(self, stored_key: bytes, row: bytes | None) -> None:
        self._known[stored_key] = self.changes[stored_key] = row
