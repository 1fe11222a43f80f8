"""A record that waits in the buffer of a join, and the message it is while it is joined."""

from __future__ import annotations

from typing import NamedTuple

from pystreams.record import Headers


class WaitingRecord(NamedTuple):
    """A record in the buffer.

    Attributes:
        key: Its key's bytes.
        value: Its value's bytes.
        timestamp: Its timestamp (ms).
        headers: Its headers.
        topic: Where it came from.
        partition: Likewise.
        offset: Likewise.
    """

    key: bytes
    value: bytes
    timestamp: int
    headers: Headers = ()
    topic: str = ""
    partition: int = -1
    offset: int = -1


class WaitingMessage:
    """A record that has waited, as the message that is processed now."""

    __slots__ = ("_record",)

    def __init__(self, record: WaitingRecord) -> None:
        self._record = record

    def topic(self) -> str:
        """Return the topic."""
        return self._record.topic

    def partition(self) -> int:
        """Return the partition."""
        return self._record.partition

    def offset(self) -> int:
        """Return the offset."""
        return self._record.offset

    def key(self) -> bytes:
        """Return the bytes of the key it waited with."""
        return self._record.key

    def value(self) -> bytes:
        """Return those of the value."""
        return self._record.value

    def timestamp(self) -> tuple[int, int]:
        """Return (create time, milliseconds since the epoch)."""
        return (1, self._record.timestamp)

    def headers(self) -> list[tuple[str, bytes | None]] | None:
        """Return the headers, or None when there are none."""
        return list(self._record.headers) or None
