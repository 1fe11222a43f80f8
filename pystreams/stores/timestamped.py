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
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from pystreams.serdes import Serde, serialize_or_raise
from pystreams.stores.api import UNKNOWN_TIMESTAMP, FlushListener, ValueAndTimestamp
from pystreams.stores.buffered import ABSENT
from pystreams.stores.typed import TypedStore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from pystreams.record import Headers

K = TypeVar("K")
V = TypeVar("V")

TIMESTAMP_BYTES = 8
"""Bytes of the timestamp in front of each stored value."""
_PACK_LONG = struct.Struct(">q").pack
_UNPACK_LONG = struct.Struct(">q").unpack_from


class TypedTimestampedKeyValueStore(TypedStore[K, ValueAndTimestamp[V]]):
    """`TimestampedKeyValueStore` (see the contracts) with serdes.

    Threads: belongs to the task's thread; others use `read_only`.
    """

    __slots__ = ("_deserialize_value",)

    metered_methods: ClassVar[Mapping[str, str]] = {
        **TypedStore.metered_methods,
        "get_with_timestamp": "get",
        "put_with_timestamp": "put",
    }
    """What each method is metered as; see `metered`."""

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

    def put_with_timestamp(self, key: K, value: V | None, timestamp: int) -> None:
        """Write a value and its timestamp (ms); a value of None deletes the key.

        A deletion is logged with the current record's timestamp, as in Kafka.

        Raises:
            SerializationError: The key or value does not fit its serde.
        """
        if key is None:
            self._refuse_null_key()
        try:
            raw_key = self._serialize_key(key)
        except Exception:  # noqa: BLE001 - a serde may raise anything
            raw_key = serialize_or_raise(self._serialize_key, key, self._topic, "key")
        if value is None:
            self._write(raw_key, None, None, self._record.timestamp)
            return
        try:
            plain = self._serialize_value(value)
        except Exception:  # noqa: BLE001 - a serde may raise anything
            plain = serialize_or_raise(self._serialize_value, value, self._topic, "value")
        self._write(raw_key, _PACK_LONG(timestamp) + plain, plain, timestamp)

    def get(self, key: K) -> ValueAndTimestamp[V] | None:
        """Return the value of a key with its timestamp, or None."""
        value, timestamp = self.get_with_timestamp(key)
        return None if value is None else ValueAndTimestamp(value, timestamp)

    def put(self, key: K, value: ValueAndTimestamp[V] | None) -> None:
        """Write a value with its timestamp; None deletes the key."""
        if value is None:
            self.put_with_timestamp(key, None, UNKNOWN_TIMESTAMP)
        else:
            self.put_with_timestamp(key, value.value, value.timestamp)

    def put_if_absent(self, key: K, value: ValueAndTimestamp[V]) -> ValueAndTimestamp[V] | None:
        """Write a value unless the key has one; return the one it had, or None."""
        existing = self.get(key)
        if existing is None:
            self.put(key, value)
        return existing

    def put_all(self, entries: Iterable[tuple[K, ValueAndTimestamp[V] | None]]) -> None:
        """Write several values."""
        put = self.put
        for key, value in entries:
            put(key, value)

    def delete(self, key: K) -> ValueAndTimestamp[V] | None:
        """Delete a key and return the value it had, or None."""
        existing = self.get(key)
        self.put(key, None)
        return existing

    def set_flush_listener(self, listener: FlushListener[K, V], *, send_old_values: bool) -> bool:
        """Say who hears of a cache flush; return whether the store caches."""
        deserialize_key = self._deserialize_key
        deserialize_value = self._deserialize_value
        prefix = self._buffer.value_prefix_bytes

        def typed(
            key: bytes, new: bytes | None, old: bytes | None, timestamp: int, headers: Headers
        ) -> None:
            try:
                typed_key = deserialize_key(key)
                new_value = None if new is None else deserialize_value(new)
                old_value = None if old is None else deserialize_value(old[prefix:])
            except Exception as error:  # noqa: BLE001 - a serde may raise anything
                self._raise_undecodable(error, key)
            listener(typed_key, new_value, old_value, timestamp, headers)

        return self._buffer.set_flush_listener(typed, send_old_values=send_old_values)

    def _bind_serdes(self, key_serde: Serde[Any], value_serde: Serde[Any], topic: str) -> None:
        super()._bind_serdes(key_serde, value_serde, topic)
        self._deserialize_value: Callable[[bytes], V] = value_serde.deserializer(topic)

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

    def put_with_timestamp(self, key: K, value: V | None, timestamp: int) -> None:
        """Write a value; its timestamp goes to the changelog only."""
        raw_key = self._key_bytes(key)
        if value is None:
            self._write(raw_key, None, None, self._record.timestamp)
            return
        try:
            plain = self._serialize_value(value)
        except Exception:  # noqa: BLE001 - a serde may raise anything
            plain = serialize_or_raise(self._serialize_value, value, self._topic, "value")
        self._write(raw_key, plain, plain, timestamp)

    def _decoder(
        self, deserialize: Callable[[bytes], V]
    ) -> Callable[[bytes], ValueAndTimestamp[V]]:
        def decode(stored: bytes) -> ValueAndTimestamp[V]:
            return ValueAndTimestamp(deserialize(stored), UNKNOWN_TIMESTAMP)

        return decode
