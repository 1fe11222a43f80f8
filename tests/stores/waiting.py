"""Records that wait in a buffer, put and let go as values."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pystreams.stores.kinds.buffer.waiting_record import WaitingRecord, record_of

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
    return [record_of(waiting) for waiting in buffer.leave_until(timestamp)]
