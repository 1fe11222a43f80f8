"""A record that waits in the buffer of a join: in memory, as stored bytes, and as a message.

    stored key    00 | int64 timestamp | key | int32 sequence number
    stored value  context | int32 -1 | int32 -1 | int32 length | value
    context       int64 timestamp | int64 offset | int32 length | topic | int32 partition |
                  int32 headers | { int32 length | name | int32 length (-1: null) | value }

All integers are big-endian. Example: key "k" at timestamp 1, the first one put, is stored under
00 00 00 00 00 00 00 00 01 6b 00 00 00 01. The two -1 stand for a prior and an old value, which a
suppressing buffer of this format would have.

The order of stored keys is that of timestamps, then of keys.

Spec: KIP-923; Kafka BufferValue, ProcessorRecordContext.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from pystreams.record import ConsumedMessage, Headers
from pystreams.stores.dirty_map.restoring import Changes

_KEY_HEAD = struct.Struct(">bq")
_INT = struct.Struct(">i")
_CONTEXT_HEAD = struct.Struct(">qqi")
_TWO_INTS = struct.Struct(">ii")
_NO_OLD_VALUES = struct.Struct(">iii")
_NO_HEADERS = struct.Struct(">iiiii")
_BUFFER_TIME = bytes(8)
FRAME_BYTES = _KEY_HEAD.size + _INT.size + _CONTEXT_HEAD.size + 5 * _INT.size
"""Bytes of an entry without key, topic, headers and value."""
_OBJECTS_BYTES = 500
"""What Python takes for a record beside its key and value, about."""
LAST_SEQUENCE = 0x7FFFFFFF
"""The highest sequence number."""


class WaitingRecord(NamedTuple):
    """A record as its stored bytes have it.

    Attributes:
        key: Its key's bytes.
        value: Its value's bytes.
        timestamp: Its timestamp (ms).
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


class Origin(NamedTuple):
    """Where a record came from; a class of its own, because messages may be tuples too."""

    topic: str
    partition: int
    offset: int


_new_tuple = tuple.__new__
NO_ORIGIN = Origin("", -1, -1)
"""That of a record that a punctuation has made."""

Waiting = tuple[int, int, Any, Any, Headers, Origin | ConsumedMessage, int]
"""A record as a buffer has it in memory: a plain tuple, because one is made for each that waits.

(timestamp in ms, sequence number, key, value, headers, where it came from, bytes that are to be
stored or 0 when they are). Key and value are bytes, or what `InBytes` turns into bytes: what does
not last to a flush is never stored, and needs none. The message it came of is kept as long as it is
not much larger.
"""

TIMESTAMP: Final = 0
SEQUENCE: Final = 1
KEY: Final = 2
VALUE: Final = 3
HEADERS: Final = 4
SOURCE: Final = 5
SIZE_BYTES: Final = 6


class InBytes(NamedTuple):
    """Turns keys and values of a buffer into bytes; not asked about what is bytes already."""

    key: Callable[[Any], bytes] = bytes
    value: Callable[[Any], bytes] = bytes

    def key_of(self, waiting: Waiting) -> bytes:
        """Return a record's key."""
        key = waiting[KEY]
        return key if type(key) is bytes else self.key(key)

    def value_of(self, waiting: Waiting) -> bytes:
        """Return a record's value."""
        value = waiting[VALUE]
        return value if type(value) is bytes else self.value(value)


class WaitingMessage:
    """The record that has waited and is processed now, as a message: one object a join."""

    __slots__ = ("_in_bytes", "waiting")

    waiting: Waiting

    def __init__(self, in_bytes: InBytes) -> None:
        self._in_bytes = in_bytes

    def topic(self) -> str:
        """Return the topic."""
        topic, _, _ = origin_of(self.waiting)
        return topic

    def partition(self) -> int:
        """Return the partition."""
        _, partition, _ = origin_of(self.waiting)
        return partition

    def offset(self) -> int:
        """Return the offset."""
        _, _, offset = origin_of(self.waiting)
        return offset

    def key(self) -> bytes:
        """Return the bytes of the key it waited with."""
        return self._in_bytes.key_of(self.waiting)

    def value(self) -> bytes:
        """Return those of the value."""
        return self._in_bytes.value_of(self.waiting)

    def timestamp(self) -> tuple[int, int]:
        """Return (create time, milliseconds since the epoch)."""
        return (1, self.waiting[TIMESTAMP])

    def headers(self) -> list[tuple[str, bytes | None]] | None:
        """Return the headers, or None when there are none."""
        return list(self.waiting[HEADERS]) or None


def origin_of(waiting: Waiting) -> Origin:
    """Return where a record came from."""
    source = waiting[SOURCE]
    return source if isinstance(source, Origin) else origin_of_message(source)


def origin_of_message(message: ConsumedMessage) -> Origin:
    """Return where a message came from."""
    coordinates = (message.topic() or "", message.partition() or 0, message.offset() or 0)
    return _new_tuple(Origin, coordinates)  # Half of what `Origin(...)` costs.


def waiting_of(stored_key: bytes, stored: bytes) -> Waiting:
    """Return the record of an entry of the store."""
    key, value, timestamp, headers, *_ = record = unpacked(stored_key, stored)
    origin = Origin(record.topic, record.partition, record.offset)
    return timestamp, sequence_of(stored_key), key, value, headers, origin, 0


def held_bytes(waiting: Waiting) -> int:
    """Return the memory that a stored record takes, about."""
    _, _, key, value, headers, _, _ = waiting
    return _OBJECTS_BYTES + len(key) + len(value) + (bytes_of(headers) if headers else 0)


def as_stored(waiting: Waiting, in_bytes: InBytes) -> Waiting:
    """Return a record as one that is stored."""
    timestamp, sequence, key, value, headers, source, _ = waiting
    if type(key) is not bytes:
        key = in_bytes.key(key)
    if type(value) is not bytes:
        value = in_bytes.value(value)
    if not isinstance(source, Origin):
        source = origin_of_message(source)
    return timestamp, sequence, key, value, headers, source, 0


def place_in_order(key: bytes, sequence: int) -> bytes:
    """Return what stands behind the timestamp in a stored key: the order of equal times."""
    return key + _INT.pack(sequence & LAST_SEQUENCE)


def stored_key_of(waiting: Waiting) -> bytes:
    """Return the key of the entry that stores a record; its own key is bytes."""
    key: bytes = waiting[KEY]
    return _KEY_HEAD.pack(0, waiting[TIMESTAMP]) + place_in_order(key, waiting[SEQUENCE])


def key_in_order(timestamp: int, place: bytes) -> bytes:
    """Return the stored key of a timestamp (ms) and what stands behind it."""
    return _KEY_HEAD.pack(0, timestamp) + place


def time_of(stored_key: bytes) -> int:
    """Return the timestamp (ms) of a stored key."""
    timestamp: int = _KEY_HEAD.unpack_from(stored_key)[1]
    return timestamp


def sequence_of(stored_key: bytes) -> int:
    """Return the sequence number of a stored key."""
    sequence: int = _INT.unpack_from(stored_key, len(stored_key) - _INT.size)[0]
    return sequence


def bytes_of(headers: Headers) -> int:
    """Return how long headers are in a stored value."""
    return sum(2 * _INT.size + len(name.encode()) + len(header or b"") for name, header in headers)


def packed(waiting: Waiting) -> bytes:
    """Return the value of the entry that stores a record; see `as_stored`."""
    timestamp, _, _, value, headers, source, _ = waiting
    assert isinstance(source, Origin), "a stored record has an origin"
    topic, partition, offset = source
    encoded_topic = topic.encode()
    head = _CONTEXT_HEAD.pack(timestamp, offset, len(encoded_topic))
    if not headers:
        rest = _NO_HEADERS.pack(partition, 0, -1, -1, len(value))
        return b"".join((head, encoded_topic, rest, value))
    parts = [head, encoded_topic, _TWO_INTS.pack(partition, len(headers))]
    for name, header in headers:
        encoded = name.encode()
        parts += (_INT.pack(len(encoded)), encoded)
        parts += (_INT.pack(-1),) if header is None else (_INT.pack(len(header)), header)
    parts += (_NO_OLD_VALUES.pack(-1, -1, len(value)), value)
    return b"".join(parts)


def unpacked(stored_key: bytes, stored: bytes) -> WaitingRecord:
    """Return the record stored under a key."""
    timestamp, offset, length = _CONTEXT_HEAD.unpack_from(stored)
    at = _CONTEXT_HEAD.size
    topic, at = stored[at : at + length].decode(), at + length
    partition, count = _TWO_INTS.unpack_from(stored, at)
    at += _TWO_INTS.size
    headers: list[tuple[str, bytes | None]] = []
    for _ in range(count):
        name, at = _bytes_at(stored, at)
        header, at = _bytes_at(stored, at)
        headers.append(((name or b"").decode(), header))
    _, at = _bytes_at(stored, at)
    _, at = _bytes_at(stored, at)
    newest, _ = _bytes_at(stored, at)
    plain_key = stored_key[_KEY_HEAD.size : -_INT.size]
    return WaitingRecord(
        plain_key, newest or b"", timestamp, tuple(headers), topic, partition, offset
    )


def logged(stored: bytes) -> bytes:
    """Return what the changelog has of a stored value: the buffer's time is behind it."""
    return stored + _BUFFER_TIME


def restored_records(messages: Sequence[ConsumedMessage]) -> Changes:
    """Return what changelog records are in the store."""
    changes: Changes = {}
    for message in messages:
        key, value = message.key(), message.value()
        if key is not None:
            changes[key] = None if value is None else value[: -len(_BUFFER_TIME)]
    return changes


def _bytes_at(value: bytes, at: int) -> tuple[bytes | None, int]:
    """Return the bytes behind their length, and where they end; None for a length of -1."""
    length: int = _INT.unpack_from(value, at)[0]
    at += _INT.size
    return (None, at) if length < 0 else (value[at : at + length], at + length)
