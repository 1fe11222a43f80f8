"""The plain key-value store: typed keys and values over the dirty map and its engine."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from pystreams.serdes import serialize_or_raise
from pystreams.stores.buffered import ABSENT
from pystreams.stores.typed import TypedStore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pystreams.record import Headers
    from pystreams.stores.api import FlushListener

K = TypeVar("K")
V = TypeVar("V")


class TypedKeyValueStore(TypedStore[K, V]):
    """`KeyValueStore` (see the contracts) with serdes; logged with the current record's time.

    Threads: belongs to the task's thread; others use `read_only`.
    Spec: Kafka MeteredKeyValueStore, ChangeLoggingKeyValueBytesStore.
    """

    __slots__ = ()

    def get(self, key: K) -> V | None:
        """Return the value of a key, or None."""
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
            return None
        try:
            return self._decode(stored)
        except Exception as error:  # noqa: BLE001 - a serde may raise anything
            self._raise_undecodable(error, stored)

    def put(self, key: K, value: V | None) -> None:
        """Write a value; None deletes the key.

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
            raw = self._serialize_value(value)
        except Exception:  # noqa: BLE001 - a serde may raise anything
            raw = serialize_or_raise(self._serialize_value, value, self._topic, "value")
        self._write(raw_key, raw, raw, self._record.timestamp)

    def put_if_absent(self, key: K, value: V) -> V | None:
        """Write a value unless the key has one; return the one it had, or None."""
        existing = self.get(key)
        if existing is None:
            self.put(key, value)
        return existing

    def put_all(self, entries: Iterable[tuple[K, V | None]]) -> None:
        """Write several values."""
        put = self.put
        for key, value in entries:
            put(key, value)

    def delete(self, key: K) -> V | None:
        """Delete a key and return the value it had, or None."""
        existing = self.get(key)
        self.put(key, None)
        return existing

    def set_flush_listener(self, listener: FlushListener[K, V], *, send_old_values: bool) -> bool:
        """Say who hears of a cache flush; return whether the store caches."""
        deserialize_key = self._deserialize_key
        decode = self._decode

        def typed(
            key: bytes, new: bytes | None, old: bytes | None, timestamp: int, headers: Headers
        ) -> None:
            try:
                typed_key = deserialize_key(key)
                new_value = None if new is None else decode(new)
                old_value = None if old is None else decode(old)
            except Exception as error:  # noqa: BLE001 - a serde may raise anything
                self._raise_undecodable(error, key)
            listener(typed_key, new_value, old_value, timestamp, headers)

        return self._buffer.set_flush_listener(typed, send_old_values=send_old_values)

    def _decoder(self, deserialize: Callable[[bytes], V]) -> Callable[[bytes], V]:
        return deserialize
