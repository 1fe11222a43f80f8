"""Whether a database is one of a versioned store with segments of a given length.

RocksDB can't tell: a plain store's database has the same column families, and the same segment id
means another time where segments are longer, so that a store that took it for its own would drop
what it is given as too late, or find nothing. Two things tell:

- `segment_interval_ms` in the metadata, which a versioned store writes before its first row.
- Where that is missing, as in what Java wrote, the rows: the newest version of a row ends in the
  row's segment, so nextTimestamp // interval is the segment's id. Example: a row under
  00 00 00 00 00 00 00 02 that begins with 00 00 00 00 00 00 00 fa (250) is one of segments of
  100 ms, and not of 200 ms.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pystreams.errors import StateStoreError
from pystreams.stores.dirty_map.opening import first_entry
from pystreams.stores.kinds.versioned.reader import LATEST_PREFIX
from pystreams.stores.kinds.versioned.segment import BOUNDS_BYTES, next_timestamp
from pystreams.stores.time_segments.segments import SEGMENT_ID_BYTES, segment_id_of, segment_prefix

if TYPE_CHECKING:
    from pathlib import Path

    from pystreams.stores.dirty_map.buffered import BufferedKeyValueStore


def check_layout(buffer: BufferedKeyValueStore, directory: Path, interval_ms: int) -> None:
    """Refuse a database that another kind of store wrote, or one with other segments.

    Args:
        buffer: The store, open.
        directory: Where its database is, for the message.
        interval_ms: What one of its segments covers.

    Raises:
        StateStoreError: The database is such a one; says what to do.
    """
    written_ms = buffer.metadata.segment_interval_ms()
    if written_ms is None:
        for stored_key, row in first_rows(buffer):
            if not _in_its_segment(stored_key, row, interval_ms):
                raise StateStoreError(
                    buffer.name,
                    f"{directory} holds what is not of a versioned store with segments of "
                    f"{interval_ms} ms: it was written by another kind of store, or with another "
                    "history retention or segment interval. Take that back, or delete the "
                    "directory; the store is then restored from its changelog",
                )
    elif written_ms != interval_ms:
        raise StateStoreError(
            buffer.name,
            f"{directory} was written with segments of {written_ms} ms, and is opened with "
            f"segments of {interval_ms} ms: the store's history retention or its segment interval "
            f"was changed. Keep the segments with segment_interval_ms={written_ms}, or delete the "
            "directory; the store is then restored from its changelog",
        )


def first_rows(buffer: BufferedKeyValueStore) -> Iterator[tuple[bytes, bytes]]:
    """Iterate over the first committed row of each segment, ascending, with one seek for each."""
    start = None
    while True:
        entry = first_entry(buffer.engine_range(start, LATEST_PREFIX))
        if entry is None:
            return
        yield entry
        start = segment_prefix(segment_id_of(entry[0]) + 1)


def _in_its_segment(stored_key: bytes, row: bytes, interval_ms: int) -> bool:
    if len(stored_key) < SEGMENT_ID_BYTES or len(row) < BOUNDS_BYTES:
        return False
    segment_id = segment_id_of(stored_key)
    return segment_id >= 0 and next_timestamp(row) // interval_ms == segment_id
