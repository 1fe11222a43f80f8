"""Records that wait in a buffer, put and let go as values."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pystreams.stores.kinds.buffer.waiting_record import (
    Waiting,
    WaitingRecord,
    key_in_order,
)
from pystreams.stores.kinds.buffer.waiting_record import packed as packed_waiting

if TYPE_CHECKING:
    from pystreams.stores.kinds.buffer.store import TimeOrderedBuffer

HELD_BYTES = 502
"""What a buffer counts for a record that it keeps in memory, with a key and a value of a byte."""


def put(buffer: TimeOrderedBuffer, record: WaitingRecord) -> None:
    """Put a record as a join does."""
    key, value, timestamp, headers, topic, partition, offset = record
    buffer.put(key, value, timestamp, headers, (topic, partition, offset))


def let_leave(buffer: TimeOrderedBuffer, timestamp: int) -> list[WaitingRecord]:
    """Let leave what is due at a time (ms)."""
    return [_record_of(waiting) for waiting in buffer.leave_until(timestamp)]


def packed(record: WaitingRecord) -> bytes:
    """Return the value a record is stored as."""
    key, value, timestamp, headers, topic, partition, offset = record
    return packed_waiting((timestamp, b"", key, value, headers, (topic, partition, offset), 0))


def stored_key(record: WaitingRecord, sequence: int) -> bytes:
    """Return the key a record is stored under."""
    return key_in_order(record.timestamp, record.key + sequence.to_bytes(4, "big"))


def _record_of(waiting: Waiting) -> WaitingRecord:
    timestamp, _, key, value, headers, origin, _ = waiting
    return WaitingRecord(key, value, timestamp, headers, *origin)
