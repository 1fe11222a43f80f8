"""How a record says which schema it was written with: Confluent's bytes.

    before the data   00, four bytes of the schema's id
    in a header       __key_schema_id or __value_schema_id: 01, the sixteen bytes of the schema's
                      GUID; or 00 and its id, where the registry gives none
    Protobuf          either of them goes on with where in its file the message stands:
                      00 for the first one, or zigzag varints: how many, each

Both forms are read in either place.
"""

from __future__ import annotations

import enum
import struct
import uuid
from collections.abc import Sequence

from pystreams.record import Headers

ID_BYTES = 5
GUID_BYTES = 17
_ID = struct.Struct(">bI")


class _Varints(dict[int, bytes]):
    """Numbers in zigzag varints; the frequent ones are there."""

    def __missing__(self, number: int) -> bytes:
        left = (number << 1) ^ (number >> 63)
        if 1 << 35 <= left < 1 << 42:  # Times of our days, in milliseconds.
            return bytes(
                (
                    left & 127 | 128,
                    left >> 7 & 127 | 128,
                    left >> 14 & 127 | 128,
                    left >> 21 & 127 | 128,
                    left >> 28 & 127 | 128,
                    left >> 35,
                )
            )
        made = bytearray()
        while left > 127:
            made.append(left & 127 | 128)
            left >>= 7
        made.append(left)
        return bytes(made)


VARINTS = _Varints()
VARINTS.update({number: VARINTS[number] for number in range(-64, 8192)})


class SchemaIdPlace(enum.Enum):
    """Where the id of a record's schema is written. It is found in either when it is read."""

    PREFIX = "prefix"
    """Before the data."""
    HEADERS = "headers"
    """In a header of the record; before the data in stores, whose records have none."""


def header_name(part: str) -> str:
    """Return the header that has the schema of the keys or values."""
    return f"__{part}_schema_id"


def id_bytes(schema_id: int) -> bytes:
    """Return what says a schema's id."""
    return _ID.pack(0, schema_id)


def header_bytes(schema_id: int, guid: str | None) -> bytes:
    """Return a header's value, without the place of a Protobuf message."""
    return id_bytes(schema_id) if guid is None else b"\x01" + uuid.UUID(guid).bytes


def without_header(headers: Headers, name: str) -> Headers:
    """Return headers without those of a name."""
    return tuple(header for header in headers if header[0] != name)


def header_of(headers: Headers, name: str) -> bytes | None:
    """Return the value of the first header of a name, or None."""
    for found, value in headers:
        if found == name:
            return value
    return None


def named_schema(data: bytes, schema_type: str) -> tuple[int | str, int]:
    """Return the id, or the GUID, that bytes begin with, and how many bytes it takes.

    Raises:
        ValueError: They begin with neither.
    """
    if data[:1] == b"\x00" and len(data) >= ID_BYTES:
        return _ID.unpack_from(data)[1], ID_BYTES
    if data[:1] == b"\x01" and len(data) >= GUID_BYTES:
        return str(uuid.UUID(bytes=data[1:GUID_BYTES])), GUID_BYTES
    raise ValueError(
        "it is not in Confluent's format: a zero byte and four of a schema id come before the "
        f"{schema_type} data there, or {header_name('value')!r} (of keys, {header_name('key')!r}) "
        f"is among its headers; it begins with {data[:ID_BYTES].hex() or 'nothing'}"
    )


def place_bytes(place: Sequence[int]) -> bytes:
    """Return the bytes of a message's place in its file: its index in each message around it."""
    if list(place) == [0]:
        return b"\x00"
    return b"".join(VARINTS[number] for number in (len(place), *place))


def read_place(data: bytes, position: int) -> tuple[tuple[int, ...], int]:
    """Return a message's place, and the position after it.

    Raises:
        ValueError: The bytes end before it does.
    """
    count, position = _read_varint(data, position)
    if count == 0:
        return (0,), position
    place = []
    for _ in range(count):
        index, position = _read_varint(data, position)
        place.append(index)
    return tuple(place), position


def _read_varint(data: bytes, position: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        if position >= len(data) or shift > 28:
            raise ValueError("its bytes end before the place of its message does")
        byte = data[position]
        position += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number >> 1, position
        shift += 7
