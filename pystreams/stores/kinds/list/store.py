"""A store that keeps a list of values under each key, in the order they were put.

    stored and logged    01 | int32 number of values | { int32 length | value }

All integers are big-endian. Example: the strings "a" and "bc" are
01 00 00 00 02 00 00 00 01 61 00 00 00 02 62 63. 01 says that each value has a length of its own.

Each put logs the whole list, so that the changelog can be compacted. A left or outer join of two
streams holds back in such a store what has found no match yet.

Spec: Kafka ListValueStore, ChangeLoggingListValueBytesStore; ListSerializer (VARIABLE_SIZE).
Differs from Kafka, whose store is a `KeyValueStore` with half of its methods refused: here it has
the methods that it can keep.
"""

from __future__ import annotations

import struct
from collections.abc import Generator, Iterator, Mapping
from typing import ClassVar, TypeVar

from pystreams.serdes import serialize_or_raise
from pystreams.stores.typed_stores.typed_state_store import TypedStateStore

K = TypeVar("K")
V = TypeVar("V")

_HEAD = struct.Struct(">bi")
_LENGTH = struct.Struct(">i")
_VARIABLE_SIZE = 1


class ListValueStore(TypedStateStore[K, V]):
    """The store as operators and the runtime see it; logged with the current record's time.

    Threads: belongs to the task's thread.
    """

    __slots__ = ()

    metered_methods: ClassVar[Mapping[str, str]] = {
        "all": "all",
        "delete": "delete",
        "discard": "delete",
        "put": "put",
    }

    def put(self, key: K, value: V) -> None:
        """Add a value behind those that the key has.

        Raises:
            SerializationError: The key or value does not fit its serde.
        """
        raw_key = self._key_bytes(key)
        try:
            raw = self._serialize_value(value)
        except Exception:  # noqa: BLE001 - a serde may raise anything
            raw = serialize_or_raise(self._serialize_value, value, self._topic, "value")
        values = with_value(self._buffer.get(raw_key), raw)
        record = self._record
        self._write(raw_key, values, values, record.timestamp, record)

    def delete(self, key: K) -> None:
        """Delete the values of a key; the deletion is logged even if it has none."""
        record = self._record
        self._write(self._key_bytes(key), None, None, record.timestamp, record)

    def discard(self, key: K) -> None:
        """Delete the values of a key, if it has any."""
        raw_key = self._key_bytes(key)
        if self._buffer.get(raw_key) is not None:
            record = self._record
            self._write(raw_key, None, None, record.timestamp, record)

    def all(self) -> Generator[tuple[K, Iterator[V]], None, None]:
        """Iterate over (key, its values) in order of key bytes.

        The owner may write meanwhile: what lies ahead is read as it is then. Values are read from
        their bytes one at a time, when they are asked for.
        """
        deserialize_key = self._deserialize_key
        for raw_key, stored in self._buffer.range(None, None):
            try:
                key = deserialize_key(raw_key)
            except Exception as error:  # noqa: BLE001 - a serde may raise anything
                self._raise_undecodable(error, raw_key)
            yield key, self._values(stored)

    def _values(self, stored: bytes) -> Iterator[V]:
        decode = self._decode
        for raw in values_of(stored):
            try:
                value = decode(raw)
            except Exception as error:  # noqa: BLE001 - a serde may raise anything
                self._raise_undecodable(error, raw)
            yield value


def with_value(stored: bytes | None, value: bytes) -> bytes:
    """Return the bytes of a list with one more value at its end; None is the empty list."""
    count = 0 if stored is None else _HEAD.unpack_from(stored)[1]
    before = b"" if stored is None else stored[_HEAD.size :]
    head = _HEAD.pack(_VARIABLE_SIZE, count + 1)
    return b"".join((head, before, _LENGTH.pack(len(value)), value))


def values_of(stored: bytes) -> Iterator[bytes]:
    """Iterate over the values of a list's bytes."""
    position = _HEAD.size
    while position < len(stored):
        (length,) = _LENGTH.unpack_from(stored, position)
        position += _LENGTH.size
        yield stored[position : position + length]
        position += length
