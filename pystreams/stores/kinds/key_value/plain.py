"""The plain key-value store: typed keys and values over the dirty map and its engine."""

from __future__ import annotations

from typing import TypeVar

from pystreams.serdes import serialize_or_raise
from pystreams.stores.dirty_map.buffered import ABSENT
from pystreams.stores.kinds.key_value.reads import TypedStore

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
        record = self._record
        if value is None:
            self._write(raw_key, None, None, record.timestamp, record)
            return
        try:
            raw = self._serialize_value(value)
        except Exception:  # noqa: BLE001 - a serde may raise anything
            raw = serialize_or_raise(self._serialize_value, value, self._topic, "value")
        self._write(raw_key, raw, raw, record.timestamp, record)
