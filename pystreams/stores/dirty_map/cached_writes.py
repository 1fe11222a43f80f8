"""What waits in a record cache: the last write of a key, with the record that led to it."""

from __future__ import annotations

from collections.abc import Callable

from pystreams.record import Headers, RecordMetadata

CachedWrite = tuple[bytes | None, int, Headers, bytes | None, RecordMetadata | None]
"""(plain value, timestamp in ms, headers, stored value before, where the record came from)."""

BytesFlushListener = Callable[[bytes, bytes | None, bytes | None, int, Headers], None]
"""Called with (key, new plain value, old stored value, timestamp in ms, headers)."""
