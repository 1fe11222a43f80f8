"""A change that a suppression holds back, as stored and logged bytes.

    stored under    01 | key
    value           context | prior | old | newest | int64 buffer time
    context         int64 timestamp | int64 offset | int32 length | topic | int32 partition |
                    int32 headers | { int32 length | name | int32 length (-1: null) | value }
    prior, newest   int32 length (-1: null) | bytes
    old             the same, or int32 -2: equal to prior
    in order        00 | uint64 buffer time + 2^63 | key    with no value

All integers are big-endian. The changelog has the key alone, the same value, and the header `v`
with the byte 03: what Kafka calls version 3. Example: the newest value "v" of time 1, of the record
3 of partition 2 of topic "t", which has no headers, buffered for time 5, is
0000000000000001 0000000000000003 00000001 74 00000002 00000000 ffffffff ffffffff 00000001 76
0000000000000005.

The prior value is what the table had when the key came into the buffer; the old value is what it
had before the newest.

Spec: Kafka BufferValue, ProcessorRecordContext, BufferKey.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from pystreams.record import Headers, RecordMetadata

_CONTEXT_HEAD = struct.Struct(">qq")
_TWO_INTS = struct.Struct(">ii")
_INT = struct.Struct(">i")
_LONG = struct.Struct(">q")
_ORDERED_HEAD = struct.Struct(">BQ")
_ORDERED, _KEYED = b"\x00", b"\x01"
_SIGN = 1 << 63
_NULL = _INT.pack(-1)
_AS_PRIOR_LENGTH = -2
_AS_PRIOR = _INT.pack(_AS_PRIOR_LENGTH)
_LENGTHS_BYTES = 5 * _INT.size
"""Of the topic, the headers and the three values."""
_HEADER_LENGTHS_BYTES = 2 * _INT.size

FIRST_IN_ORDER = _ORDERED
"""Below all keys in order of time."""
FIRST_BY_KEY = _KEYED
"""Above all of those, and below all values."""
VERSION_3: Headers = (("v", b"\x03"),)
"""Headers of a logged value."""
NO_ORIGIN = RecordMetadata("", -1, -1)
"""That of a record that a punctuation has made."""


class BufferedChange(NamedTuple):
    """A change as its stored bytes have it.

    Attributes:
        timestamp: The record's timestamp (ms).
        origin: Where it came from.
        prior: Bytes of the value that the table had before the key came into the buffer, or None.
        old: Bytes of the value before the newest, or None.
        newest: Bytes of the newest value, None if the key was deleted.
        time: What it is buffered for (ms).
    """

    timestamp: int
    headers: Headers
    origin: RecordMetadata
    prior: bytes | None
    old: bytes | None
    newest: bytes | None
    time: int


def keyed(key: bytes) -> bytes:
    """Return what the value of a key is stored under."""
    return _KEYED + key


def ordered(time: int, key: bytes) -> bytes:
    """Return the key in order of a time (ms)."""
    return _ORDERED_HEAD.pack(0, time + _SIGN) + key


def time_of(in_order: bytes) -> int:
    """Return the time (ms) of a key in order."""
    time: int = _ORDERED_HEAD.unpack_from(in_order)[1] - _SIGN
    return time


def key_of(in_order: bytes) -> bytes:
    """Return the key of a key in order."""
    return in_order[_ORDERED_HEAD.size :]


def packed(
    timestamp: int,
    headers: Headers,
    origin: RecordMetadata,
    prior: bytes | None,
    old: bytes | None,
    newest: bytes | None,
    time: int,
) -> bytes:
    """Return the value that a change is stored as; the arguments are those of `BufferedChange`."""
    topic, partition, offset = origin
    parts = [
        _CONTEXT_HEAD.pack(timestamp, offset),
        *_sized(topic.encode()),
        _TWO_INTS.pack(partition, len(headers)),
    ]
    for name, header in headers:
        parts += _sized(name.encode())
        parts += _sized(header)
    parts += _sized(prior)
    parts += (_AS_PRIOR,) if old is not None and old == prior else _sized(old)
    parts += _sized(newest)
    parts.append(_LONG.pack(time))
    return b"".join(parts)


def unpacked(stored: bytes) -> BufferedChange:
    """Return the change of a stored value.

    Raises:
        ValueError: It is none.
        struct.error: It is none.
    """
    timestamp, headers, origin, at = context_at(stored, 0)
    prior, at = bytes_at(stored, at)
    if _INT.unpack_from(stored, at)[0] == _AS_PRIOR_LENGTH:
        old, at = prior, at + _INT.size
    else:
        old, at = bytes_at(stored, at)
    newest, at = bytes_at(stored, at)
    time: int = _LONG.unpack_from(stored, at)[0]
    return BufferedChange(timestamp, headers, origin, prior, old, newest, time)


def context_at(data: bytes, at: int) -> tuple[int, Headers, RecordMetadata, int]:
    """Return timestamp, headers and origin of the context that begins at a byte, and its end.

    Raises:
        ValueError: There is none.
        struct.error: There is none.
    """
    timestamp, offset = _CONTEXT_HEAD.unpack_from(data, at)
    topic, at = bytes_at(data, at + _CONTEXT_HEAD.size)
    partition, count = _TWO_INTS.unpack_from(data, at)
    at += _TWO_INTS.size
    headers: list[tuple[str, bytes | None]] = []
    for _ in range(count):
        name, at = bytes_at(data, at)
        header, at = bytes_at(data, at)
        headers.append(((name or b"").decode(), header))
    origin = RecordMetadata((topic or b"").decode(), partition, offset)
    return timestamp, tuple(headers), origin, at


def stored_time(stored: bytes) -> int:
    """Return what a stored value is buffered for (ms)."""
    time: int = _LONG.unpack_from(stored, len(stored) - _LONG.size)[0]
    return time


def stored_timestamp(stored: bytes) -> int:
    """Return the record's timestamp (ms) of a stored value."""
    timestamp: int = _LONG.unpack_from(stored)[0]
    return timestamp


def counted_bytes(key: bytes, stored: bytes) -> int:
    """Return what an entry counts for `BufferConfig.max_bytes`, as Kafka counts it.

    The bytes of key, values, time, topic and headers, without the lengths before them.
    """
    topic_length: int = _INT.unpack_from(stored, _CONTEXT_HEAD.size)[0]
    headers_at = _CONTEXT_HEAD.size + _INT.size + topic_length + _INT.size
    headers: int = _INT.unpack_from(stored, headers_at)[0]
    # Java applications of long ago wrote -1 for none.
    lengths_bytes = _LENGTHS_BYTES + max(headers, 0) * _HEADER_LENGTHS_BYTES
    return len(key) + len(stored) - lengths_bytes


def bytes_at(data: bytes, at: int) -> tuple[bytes | None, int]:
    """Return the bytes behind their length, and where they end; None for a length of -1.

    Raises:
        ValueError: The data end before them.
    """
    length: int = _INT.unpack_from(data, at)[0]
    at += _INT.size
    if length == -1:
        return None, at
    if length < 0 or at + length > len(data):
        raise ValueError(f"{length} bytes at {at} of {len(data)}")
    return data[at : at + length], at + length


def _sized(data: bytes | None) -> tuple[bytes, ...]:
    return (_NULL,) if data is None else (_INT.pack(len(data)), data)
