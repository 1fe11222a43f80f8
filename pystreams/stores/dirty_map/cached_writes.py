"""What waits in a record cache: the last write of a key, with the record that led to it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from pystreams.record import Headers, RecordMetadata

CachedWrite = tuple[bytes | None, int, Headers, RecordMetadata | None, bytes | None]
"""(plain value, timestamp in ms, headers, where the record came from, stored value before)."""

PREVIOUS: Final = 4

BytesFlushListener = Callable[
    [bytes, bytes | None, bytes | None, int, Headers, RecordMetadata | None], None
]
"""Called with (key, new plain value, old stored value, timestamp in ms, headers, source)."""
