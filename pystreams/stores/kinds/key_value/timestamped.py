"""The timestamped key-value store: each value with the event time it was written at.

Stored bytes are an int64 timestamp (big-endian, milliseconds) and the plain value; the changelog
record carries the plain value and has the timestamp as its own. Example: the string "a" written
at 1 is stored as 00 00 00 00 00 00 00 01 61.

Where the engine holds plain values (a user's own, or one written by a plain store), the timestamp
is not kept and reads give -1. Was: KeyValueToTimestampedKeyValueByteStoreAdapter.
Spec: Kafka MeteredTimestampedKeyValueStore, ValueAndTimestampSerializer.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, ClassVar, TypeVar

from pystreams.serdes import serialize_or_raise
from pystreams.stores.contracts.key_value import UNKNOWN_TIMESTAMP, ValueAndTimestamp
from pystreams.stores.dirty_map.buffered import ABSENT
from pystreams.stores.kinds.key_value.reads import TypedStore
from pystreams.stores.typed_stores.wrong_arguments import refuse_row, refuse_times

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

K = TypeVar("K")
V = TypeVar("V")

_PACK_LONG = struct.Struct(">q").pack
_UNPACK_LONG = struct.Struct(">q").unpack_from


class TypedTimestampedKeyValueStore(TypedStore[K, ValueAndTimestamp[V]]):
    """`TimestampedKeyValueStore` (see the contracts) with serdes.

    Threads: belongs to the task's thread; others use `read_only`.
    """

    __slots__ = ()

    metered_methods: ClassVar[Mapping[str, str]] = {
        **TypedStore.metered_methods,
        "get_with_timestamp": "get",
        "sent_with_timestamp": "get",
        "put_with_timestamp": "put",
    }

    def get_with_timestamp(self, key: K) -> tuple[V | None, int]:
        """Return (value, timestamp in ms); (None, -1) when the key has no value."""
        if key is None:
            self._refuse_null_key()
        try:
            raw_key = self._serialize_key(key)
        except Exception:  # noqa: BLE001 - a serde may raise anything
            raw_key = serialize_or_raise(self._serialize_key, key, self._topic, "key")
        stored = self._dirty_get(raw_key, ABSENT)
        if stored is ABSENT:
            stored = self._committed_get(raw_key)
        if stored is None:
            return None, -1
        try:
            return self._deserialize_value(stored[8:]), _UNPACK_LONG(stored)[0]
        except Exception as error:  # noqa: BLE001 - a serde may raise anything
            self._raise_undecodable(error, stored)

    @property
    def caches(self) -> bool:
        """Whether a record cache holds changes back until a flush; known once it is open."""
        return self._buffer.caches

    def sent_with_timestamp(self, key: K) -> tuple[V | None, int]:
        """Return the same as it was sent downstream, without what the record cache holds back."""
        stored = self._sent_get(self._key_bytes(key))
        if stored is None:
            return None, -1
        try:
            return self._deserialize_value(stored[8:]), _UNPACK_LONG(stored)[0]
        except Exception as error:  # noqa: BLE001 - a serde may raise anything
            self._raise_undecodable(error, stored)

    def sent_bytes(self, key: K) -> bytes | None:
        """Return the bytes of the value that `sent_with_timestamp` returns."""
        stored = self._sent_get(self._key_bytes(key))
        return None if stored is None else stored[self._buffer.value_prefix_bytes :]

    def put_with_timestamp(self, key: K, value: V | None, timestamp: int) -> None:
        """Write a value and its timestamp (ms); a value of None deletes the key.

        A deletion is logged with the current record's timestamp, as in Kafka.
        """
        if key is None:
            self._refuse_null_key()
        try:
            raw_key = self._serialize_key(key)
        except Exception:  # noqa: BLE001 - a serde may raise anything
            raw_key = serialize_or_raise(self._serialize_key, key, self._topic, "key")
        if value is None:
            record = self._record
            self._write(raw_key, None, None, record.timestamp, record)
            return
        try:
            plain = self._serialize_value(value)
        except Exception:  # noqa: BLE001 - a serde may raise anything
            plain = serialize_or_raise(self._serialize_value, value, self._topic, "value")
        try:
            stored = _PACK_LONG(timestamp) + plain
        except struct.error as error:
            refuse_times(self._name, error, timestamp=timestamp)
        self._write(raw_key, stored, plain, timestamp, self._record)

    def get(self, key: K) -> ValueAndTimestamp[V] | None:
        """Return the value of a key with its timestamp, or None."""
        value, timestamp = self.get_with_timestamp(key)
        return None if value is None else ValueAndTimestamp(value, timestamp)

    def put(self, key: K, value: ValueAndTimestamp[V] | None) -> None:
        """Write a value with its timestamp; None deletes the key."""
        if value is None:
            self.put_with_timestamp(key, None, UNKNOWN_TIMESTAMP)
            return
        try:
            self.put_with_timestamp(key, value.value, value.timestamp)
        except AttributeError as error:
            refuse_row(self._name, error, value)

    def _decoder(
        self, deserialize: Callable[[bytes], V]
    ) -> Callable[[bytes], ValueAndTimestamp[V]]:
        def decode(stored: bytes) -> ValueAndTimestamp[V]:
            return ValueAndTimestamp(deserialize(stored[8:]), _UNPACK_LONG(stored)[0])

        return decode


class AdaptedTimestampedKeyValueStore(TypedTimestampedKeyValueStore[K, V]):
    """A timestamped store over an engine that holds plain values; timestamps read as -1.

    The changelog still gets the timestamps, so that a later move to a timestamped engine can
    restore them.
    """

    __slots__ = ()

    def get_with_timestamp(self, key: K) -> tuple[V | None, int]:
        """Return (value, -1)."""
        stored = self._buffer.get(self._key_bytes(key))
        if stored is None:
            return None, UNKNOWN_TIMESTAMP
        try:
            return self._deserialize_value(stored), UNKNOWN_TIMESTAMP
        except Exception as error:  # noqa: BLE001 - a serde may raise anything
            self._raise_undecodable(error, stored)

    def sent_with_timestamp(self, key: K) -> tuple[V | None, int]:
        """Return (value, -1) as it was sent downstream."""
        stored = self._sent_get(self._key_bytes(key))
        if stored is None:
            return None, UNKNOWN_TIMESTAMP
        try:
            return self._deserialize_value(stored), UNKNOWN_TIMESTAMP
        except Exception as error:  # noqa: BLE001 - a serde may raise anything
            self._raise_undecodable(error, stored)

    def put_with_timestamp(self, key: K, value: V | None, timestamp: int) -> None:
        """Write a value; its timestamp goes to the changelog only."""
        raw_key = self._key_bytes(key)
        if value is None:
            record = self._record
            self._write(raw_key, None, None, record.timestamp, record)
            return
        plain = self._value_bytes(value)
        try:
            _PACK_LONG(timestamp)
        except struct.error as error:
            refuse_times(self._name, error, timestamp=timestamp)
        self._write(raw_key, plain, plain, timestamp, self._record)

    def _decoder(
        self, deserialize: Callable[[bytes], V]
    ) -> Callable[[bytes], ValueAndTimestamp[V]]:
        def decode(stored: bytes) -> ValueAndTimestamp[V]:
            return ValueAndTimestamp(deserialize(stored), UNKNOWN_TIMESTAMP)

        return decode
