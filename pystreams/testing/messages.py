"""Messages without a broker: what the Kafka client would have handed out."""

from __future__ import annotations

from dataclasses import dataclass

from pystreams.record import Headers


@dataclass(frozen=True, slots=True)
class StaticMessage:
    """A `ConsumedMessage` made of values.

    Attributes:
        message_topic: Its topic.
        message_partition: Its partition.
        message_offset: Its offset.
        message_key: Its key's bytes, or None.
        message_value: Its value's bytes, or None.
        timestamp_ms: Its timestamp (ms).
        message_headers: Its headers.
    """

    message_topic: str
    message_partition: int
    message_offset: int
    message_key: bytes | None
    message_value: bytes | None
    timestamp_ms: int
    message_headers: Headers = ()

    def topic(self) -> str:
        """Return the topic."""
        return self.message_topic

    def partition(self) -> int:
        """Return the partition."""
        return self.message_partition

    def offset(self) -> int:
        """Return the offset."""
        return self.message_offset

    def key(self) -> bytes | None:
        """Return the key's bytes."""
        return self.message_key

    def value(self) -> bytes | None:
        """Return the value's bytes."""
        return self.message_value

    def timestamp(self) -> tuple[int, int]:
        """Return (create time, milliseconds since the epoch)."""
        return (1, self.timestamp_ms)

    def headers(self) -> list[tuple[str, bytes | None]] | None:
        """Return the headers, or None when there are none."""
        return list(self.message_headers) or None
