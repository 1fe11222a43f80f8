"""What changelog records become in a store: one function a store kind. Was: RecordConverters.

Each takes a batch of records of one partition and returns the store's changes; the last record of
a key wins, a null value deletes, and a record without a key is skipped, as Kafka does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pystreams.record import ConsumedMessage
from pystreams.stores.files.metadata import pack_long

TIMESTAMP_BYTES = 8
"""Bytes of the timestamp in front of each value, where an engine keeps timestamps."""

Changes = dict[bytes, bytes | None]
RestoredChanges = Callable[[Sequence[ConsumedMessage]], Changes]


def plain_changes(messages: Sequence[ConsumedMessage]) -> Changes:
    """Return values as they are."""
    changes: dict[Any, bytes | None] = {m.key(): m.value() for m in messages}
    changes.pop(None, None)
    return changes


def timestamped_changes(messages: Sequence[ConsumedMessage]) -> Changes:
    """Return values behind the records' timestamps (int64, ms)."""
    pack = pack_long
    changes: dict[Any, bytes | None] = {
        m.key(): None if (value := m.value()) is None else pack(m.timestamp()[1]) + value
        for m in messages
    }
    changes.pop(None, None)
    return changes
