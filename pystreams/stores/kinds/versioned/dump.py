"""What a versioned store was given, as far as it still knows it, as the records that put it again.

Deletions within the history are among them, also those that end no version: they end what a late
put brings.

Puts that are older than the history retention are dropped, and every put moves the stream time. So
what began before the history does comes first and in order of time; the rest is young enough in
any order and comes by key.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING

from pystreams.record import ProducedRecord
from pystreams.stores.kinds.versioned.reader import LATEST_PREFIX, latest_timestamp
from pystreams.stores.kinds.versioned.segment import newest_first, next_timestamp
from pystreams.stores.time_segments.segments import SEGMENT_ID_BYTES, segment_prefix

if TYPE_CHECKING:
    from pystreams.stores.dirty_map.buffered import BufferedKeyValueStore

_Put = tuple[int, bytes | None]
"""(timestamp, value; None for a deletion)."""


def dumped_versions(
    buffer: BufferedKeyValueStore, segment_ids: tuple[int, ...], history_begins: int
) -> Iterator[ProducedRecord]:
    """Return a changelog record for each committed version and each deletion that counts.

    Args:
        segment_ids: Its live segments, ascending.
        history_begins: The oldest time (ms) that history retention covers.
    """
    records = _records(buffer, segment_ids, history_begins)
    early = [record for record in records if _timestamp(record) < history_begins]
    yield from sorted(early, key=_timestamp)
    for record in _records(buffer, segment_ids, history_begins):
        if _timestamp(record) >= history_begins:
            yield record


def stored_versions(
    buffer: BufferedKeyValueStore, segment_ids: tuple[int, ...]
) -> Iterator[tuple[bytes, bytes, int, int | None]]:
    """Return (key, value, timestamp, end; None for the latest) of each committed version.

    Key by key, and in order of time.

    Args:
        segment_ids: Its live segments, ascending.
    """
    for key, puts in _puts(buffer, segment_ids):
        ends = (*(timestamp for timestamp, _ in puts[1:]), None)
        for (timestamp, value), end in zip(puts, ends, strict=True):
            if value is not None:
                yield key, value, timestamp, end


def _records(
    buffer: BufferedKeyValueStore, segment_ids: tuple[int, ...], history_begins: int
) -> Iterator[ProducedRecord]:
    for key, puts in _puts(buffer, segment_ids):
        before: bytes | None = None
        for timestamp, value in puts:
            ends_a_version = value is None and before is not None
            if value is not None or ends_a_version or timestamp >= history_begins:
                yield key, value, timestamp, ()
            before = value


def _puts(
    buffer: BufferedKeyValueStore, segment_ids: tuple[int, ...]
) -> Iterator[tuple[bytes, list[_Put]]]:
    """Return each key with its versions and deletions, in order of time."""
    walks = [_rows(buffer, segment_id) for segment_id in segment_ids]
    walks.append(_latest(buffer))
    for key, rows in groupby(heapq.merge(*walks, key=itemgetter(0)), key=itemgetter(0)):
        puts: dict[int, bytes | None] = {}
        for _, found in rows:
            for timestamp, value in found:
                # An end is a deletion unless a version begins there, which may be in another row.
                if value is not None or timestamp not in puts:
                    puts[timestamp] = value
        yield key, sorted(puts.items(), key=itemgetter(0))


def _timestamp(record: ProducedRecord) -> int:
    _, _, timestamp, _ = record
    return timestamp


def _rows(buffer: BufferedKeyValueStore, segment_id: int) -> Iterator[tuple[bytes, list[_Put]]]:
    entries = buffer.engine_range(segment_prefix(segment_id), segment_prefix(segment_id + 1))
    for stored_key, row in entries:
        found: list[_Put] = [(entry.valid_from, entry.value) for entry in newest_first(row)]
        yield stored_key[SEGMENT_ID_BYTES:], [*found, (next_timestamp(row), None)]


def _latest(buffer: BufferedKeyValueStore) -> Iterator[tuple[bytes, list[_Put]]]:
    for stored_key, stored in buffer.engine_range(LATEST_PREFIX, None):
        yield stored_key[SEGMENT_ID_BYTES:], [(latest_timestamp(stored), stored[8:])]
