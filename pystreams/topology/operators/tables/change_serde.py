"""Bytes of a table's change on its way to its group. Spec: KIP-904; Kafka ChangedSerializer.

    old value only          <old> 00
    new value only          <new> 01
    both                    <varint length of new> <new> <old> 02

The varint is Kafka's zig-zag one: the length 3 is written as the byte 06. Example: the strings
new "abc" and old "x" are 06 61 62 63 78 02. Flags 3, 4 and 5 are 0, 1 and 2 with one byte "is
latest" before the flag; Kafka 3.5 wrote them, they are read and never written. These bytes stand
in repartition topics: do not change them.

Differs from Kafka: the values are written without the record's headers, of which one could tell of
a single value; so is what stands inside the records of a foreign-key join.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pystreams.kernel.async_functions import deserializer_of, serializer_of
from pystreams.topology.contracts.outer_serde import OuterSerde
from pystreams.topology.operators.tables.table_view import Change

_OLD_ONLY, _NEW_ONLY, _BOTH = 0, 1, 2
_FIRST_FLAG_WITH_LATEST = 3


class ChangeSerde(OuterSerde[Any]):
    """Serde of the changes of a regrouped table; `inner` is that of the values."""

    missing = (
        "the values of a regrouped table have no serde: give KTable.group_by a value_serde=..., "
        "or set default.value.serde"
    )

    def serializer(self, topic: str) -> Callable[[Change], bytes]:
        """Return the function that turns a change into bytes.

        Raises:
            ConfigError: There is neither an inner serde nor a default.
        """
        serialize_value = serializer_of(self.known_inner(), topic)

        def serialize(change: Change) -> bytes:
            new, old = change
            if new is None:
                if old is None:
                    raise ValueError("a change from nothing to nothing can't be written")
                return serialize_value(old) + b"\x00"
            new_bytes = serialize_value(new)
            if old is None:
                return new_bytes + b"\x01"
            return b"".join((_varint(len(new_bytes)), new_bytes, serialize_value(old), b"\x02"))

        return serialize

    def deserializer(self, topic: str) -> Callable[[bytes], Change]:
        """Return the function that turns bytes into a change; raises as `serializer` does."""
        deserialize_value = deserializer_of(self.known_inner(), topic)

        def deserialize(data: bytes) -> Change:
            flag, end = data[-1], len(data) - 1
            if flag >= _FIRST_FLAG_WITH_LATEST:
                flag, end = flag - _FIRST_FLAG_WITH_LATEST, end - 1
            if flag == _NEW_ONLY:
                return deserialize_value(data[:end]), None
            if flag == _OLD_ONLY:
                return None, deserialize_value(data[:end])
            if flag != _BOTH:
                raise ValueError(f"a change ends with its kind, 0 to 5, not {data[-1]}")
            length, start = _read_varint(data)
            middle = start + length
            return deserialize_value(data[start:middle]), deserialize_value(data[middle:end])

        return deserialize

    def __repr__(self) -> str:
        """Return the serde's name."""
        return f"ChangeSerde({self.inner!r})"


def _varint(number: int) -> bytes:
    """Return a number of 0 or more as Kafka's zig-zag varint."""
    rest = number << 1
    encoded = bytearray()
    while rest > 0x7F:
        encoded.append(rest & 0x7F | 0x80)
        rest >>= 7
    encoded.append(rest)
    return bytes(encoded)


def _read_varint(data: bytes) -> tuple[int, int]:
    """Return the number that the bytes begin with, and where it ends."""
    rest = shift = position = 0
    while True:
        byte = data[position]
        position += 1
        rest |= (byte & 0x7F) << shift
        if byte < 0x80:
            return rest >> 1, position
        shift += 7
