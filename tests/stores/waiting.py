"""Records that wait in a buffer, put and let go as values."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pystreams.record import StaticMessage
from pystreams.stores.kinds.buffer.waiting_record import (
    InBytes,
    Origin,
    Waiting,
    WaitingRecord,
    key_in_order,
    origin_of,
    place_in_order,
)
from pystreams.stores.kinds.buffer.waiting_record import packed as packed_waiting

if TYPE_CHECKING:
    from pystreams.stores.kinds.buffer.store import TimeOrderedBuffer

HELD_BYTES = 502
"""What a buffer counts for a record that it keeps in memory, with a key and a value of a byte."""


TEXT = InBytes(str.encode, str.encode)
"""Of a buffer whose keys and values wait as text."""


def put(buffer: TimeOrderedBuffer, record: WaitingRecord) -> None:
    """Put a record as a join does."""
    exchange(buffer, record, -1)


def exchange(buffer: TimeOrderedBuffer, record: WaitingRecord, until: int) -> list[WaitingRecord]:
    """Put a record, and let leave what is due at a time (ms)."""
    key, value, timestamp, headers, topic, partition, offset = record
    as_text = buffer.in_bytes is TEXT
    leaving = buffer.exchange(
        key.decode() if as_text else key,
        value.decode() if as_text else value,
        timestamp,
        headers,
        StaticMessage(topic, partition, offset, None, None, timestamp, headers) if topic else None,
        len(key) + len(value),
        until,
    )
    return [_record_of(waiting, buffer.in_bytes) for waiting in leaving]


def let_leave(buffer: TimeOrderedBuffer, timestamp: int) -> list[WaitingRecord]:
    """Let leave what is due at a time (ms)."""
    return [_record_of(waiting, buffer.in_bytes) for waiting in buffer.leave_until(timestamp)]


def packed(record: WaitingRecord) -> bytes:
    """Return the value a record is stored as."""
    key, value, timestamp, headers, topic, partition, offset = record
    waiting = (timestamp, 0, key, value, headers, Origin(topic, partition, offset), 0)
    return packed_waiting(waiting)


def stored_key(record: WaitingRecord, sequence: int) -> bytes:
    """Return the key a record is stored under."""
    return key_in_order(record.timestamp, place_in_order(record.key, sequence))


def _record_of(waiting: Waiting, in_bytes: InBytes) -> WaitingRecord:
    timestamp, _, _, _, headers, _, _ = waiting
    key, value = in_bytes.key_of(waiting), in_bytes.value_of(waiting)
    return WaitingRecord(key, value, timestamp, headers, *origin_of(waiting))
