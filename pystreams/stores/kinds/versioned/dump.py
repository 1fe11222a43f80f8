"""All versions of a versioned store, as the changelog records that put them again.

Puts that are older than the history retention are dropped, and every put moves the stream time. So
versions that began before the history does, of which each key has one at most, come first and in
order of time; the others are young enough in any order and come by key.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING

from pystreams.record import ProducedRecord
from pystreams.stores.kinds.versioned.reader import LATEST_PREFIX, latest_timestamp
from pystreams.stores.kinds.versioned.segment import find_all
from pystreams.stores.time_segments.segments import SEGMENT_ID_BYTES, segment_prefix

if TYPE_CHECKING:
    from pystreams.stores.dirty_map.buffered import BufferedKeyValueStore

_Version = tuple[int, int | None, bytes]
"""(beginning, end or None, value)."""


def dumped_versions(
    buffer: BufferedKeyValueStore, segment_ids: tuple[int, ...], history_begins: int
) -> Iterator[ProducedRecord]:
    """Return a changelog record for each committed version, and for each end that is none's start.

    Args:
        segment_ids: Its live segments, ascending.
        history_begins: The oldest time (ms) that history retention covers.
    """
    records = _records(buffer, segment_ids)
    early = [record for record in records if _timestamp(record) < history_begins]
    yield from sorted(early, key=_timestamp)
    for record in _records(buffer, segment_ids):
        if _timestamp(record) >= history_begins:
            yield record


def _records(
    buffer: BufferedKeyValueStore, segment_ids: tuple[int, ...]
) -> Iterator[ProducedRecord]:
    walks = [_rows(buffer, segment_id) for segment_id in segment_ids]
    walks.append(_latest(buffer))
    for key, rows in groupby(heapq.merge(*walks, key=itemgetter(0)), key=itemgetter(0)):
        versions = sorted(version for _, found in rows for version in found)
        for version, following in zip(versions, [*versions[1:], None], strict=True):
            begins, ends, value = version
            yield key, value, begins, ()
            if ends is not None and (following is None or following[0] > ends):
                yield key, None, ends, ()


def _timestamp(record: ProducedRecord) -> int:
    _, _, timestamp, _ = record
    return timestamp


def _rows(buffer: BufferedKeyValueStore, segment_id: int) -> Iterator[tuple[bytes, list[_Version]]]:
    entries = buffer.engine_range(segment_prefix(segment_id), segment_prefix(segment_id + 1))
    for stored_key, row in entries:
        found: list[_Version] = [
            (version.valid_from, version.valid_to, version.value)
            for version in find_all(row, None, None)
            if version.value is not None
        ]
        yield stored_key[SEGMENT_ID_BYTES:], found


def _latest(buffer: BufferedKeyValueStore) -> Iterator[tuple[bytes, list[_Version]]]:
    for stored_key, stored in buffer.engine_range(LATEST_PREFIX, None):
        yield stored_key[SEGMENT_ID_BYTES:], [(latest_timestamp(stored), None, stored[8:])]
