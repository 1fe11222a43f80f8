"""Typed reads of key-value stores, and the store that owns its buffer.

`KeyValueReads` turns bytes-level reads into typed ones; `TypedReader` has them for the views of
other threads, `TypedStore` for the owner. `key_value` and `timestamped` add `get` and `put`, where
every nanosecond counts.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, TypeVar

from pystreams.errors import StateStoreCorruptedError
from pystreams.stores.files.metadata import EXPIRING, unpack_long
from pystreams.stores.typed_stores.typed_state_store import TypedParts, TypedStateStore, TypedView
from pystreams.stores.typed_stores.views import BytesReader, view_of
from pystreams.stores.typed_stores.wrong_arguments import refuse_entry, refuse_prefix

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable

    from pystreams.config.guarantee import IsolationLevel
    from pystreams.record import ProducedRecord
    from pystreams.serdes import Serde
    from pystreams.stores.contracts.key_value import KeyValueIterator
    from pystreams.stores.contracts.state_store import StateStoreContext
    from pystreams.stores.dirty_map.buffered import BufferedKeyValueStore

K = TypeVar("K")
R = TypeVar("R")


class KeyValueReads(TypedParts[K, R]):
    """Typed reads over the bytes-level reader `_reader`.

    Ranges are inclusive on both ends and in order of key bytes, which for built-in number serdes
    is the numbers' order only among non-negative ones.
    """

    __slots__ = ()

    _reader: BytesReader

    def get(self, key: K) -> R | None:
        """Return the value of a key, or None."""
        stored = self._reader.get(self._key_bytes(key))
        if stored is None:
            return None
        try:
            return self._decode(stored)
        except Exception as error:  # noqa: BLE001 - a serde may raise anything
            self._raise_undecodable(error, stored)

    def range(self, start: K | None, end: K | None) -> KeyValueIterator[K, R]:
        """Iterate over keys from `start` to `end`, both inclusive; None leaves an end open."""
        return self._range(start, end, reverse=False)

    def reverse_range(self, start: K | None, end: K | None) -> KeyValueIterator[K, R]:
        """Iterate over the same keys as `range`, highest first."""
        return self._range(start, end, reverse=True)

    def all(self) -> KeyValueIterator[K, R]:
        """Iterate over all keys."""
        return self._entries(None, None, reverse=False)

    def reverse_all(self) -> KeyValueIterator[K, R]:
        """Iterate over all keys, highest first."""
        return self._entries(None, None, reverse=True)

    def prefix_scan(self, prefix: bytes) -> KeyValueIterator[K, R]:
        """Iterate over keys whose bytes start with `prefix`."""
        try:
            end = _after_prefix(prefix)
        except (AttributeError, TypeError) as error:
            refuse_prefix(self._name, error, prefix)
        return self._entries(prefix, end, reverse=False)

    def approximate_num_entries(self) -> int:
        """Return about how many keys there are; cheap, not exact."""
        return self._reader.approximate_num_entries()

    def _range(self, start: K | None, end: K | None, *, reverse: bool) -> KeyValueIterator[K, R]:
        low = None if start is None else self._key_bytes(start)
        high = None if end is None else self._key_bytes(end)
        if low is not None and high is not None and low > high:
            return self._nothing_between(start, end)
        return self._entries(low, None if high is None else high + b"\x00", reverse=reverse)

    def _entries(
        self, start: bytes | None, end: bytes | None, *, reverse: bool
    ) -> Generator[tuple[K, R], None, None]:
        deserialize_key = self._deserialize_key
        decode = self._decode
        for key, stored in self._reader.range(start, end, reverse=reverse):
            try:
                entry = deserialize_key(key), decode(stored)
            except Exception as error:  # noqa: BLE001 - a serde may raise anything
                self._raise_undecodable(error, key)
            yield entry


class TypedReader(KeyValueReads[K, R], TypedView[K, R]):
    """What other threads read a key-value store with."""

    __slots__ = ()


class TypedStore(KeyValueReads[K, R], TypedStateStore[K, R]):
    """A key-value store as the runtime and its reads see it."""

    __slots__ = ("_committed_get", "_dirty_get", "_reader", "_sent_get")

    metered_methods: ClassVar[Mapping[str, str]] = {
        "all": "all",
        "delete": "delete",
        "get": "get",
        "prefix_scan": "prefix-scan",
        "put": "put",
        "put_all": "put-all",
        "put_if_absent": "put-if-absent",
        "range": "range",
        "reverse_all": "all",
        "reverse_range": "range",
    }

    def __init__(
        self,
        buffer: BufferedKeyValueStore,
        key_serde: Serde[Any] | None,
        value_serde: Serde[Any] | None,
    ) -> None:
        self._reader = buffer
        self._dirty_get: Callable[[bytes, Any], Any]
        self._committed_get: Callable[[bytes], bytes | None]
        self._sent_get: Callable[[bytes], bytes | None]
        super().__init__(buffer, key_serde, value_serde)

    def init(self, context: StateStoreContext) -> None:
        """Open the store; raises as `TypedStateStore.init`.

        Raises:
            StateStoreCorruptedError: What it holds was written with a time to live, or without,
                and it is to be the other.
        """
        super().init(context)
        self._check_layout()

    def put(self, key: K, value: R | None) -> None:
        """Write a value; None deletes the key."""
        raise NotImplementedError

    def put_if_absent(self, key: K, value: R) -> R | None:
        """Write a value unless the key has one; return the one it had, or None."""
        existing = self.get(key)
        if existing is None:
            self.put(key, value)
        return existing

    def put_all(self, entries: Iterable[tuple[K, R | None]]) -> None:
        """Write several values."""
        put = self.put
        if isinstance(entries, Mapping):  # Its keys might look like pairs.
            refuse_entry(self._name, TypeError("a mapping"), entries)
        for entry in entries:
            try:
                key, value = entry
            except (TypeError, ValueError) as error:
                refuse_entry(self._name, error, entry)
            put(key, value)

    def delete(self, key: K) -> R | None:
        """Delete a key and return the value it had, or None."""
        existing = self.get(key)
        self.put(key, None)
        return existing

    def changelog_record(self, key: bytes) -> ProducedRecord | None:
        """Return what `changelog_records` has of a key, or None."""
        stored = self._buffer.engine_get(key)
        if stored is None:
            return None
        prefix = self._buffer.value_prefix_bytes
        time = unpack_long(stored)[0] if prefix else max(0, self._stream_time())
        return key, stored[prefix:], time, ()

    def read_only(self, isolation_level: IsolationLevel) -> TypedReader[K, R]:
        """Return a view that other threads may read; its serde functions are its own.

        Raises:
            StoreNotAvailableError: The store is not open.
        """
        parts = self._view_parts()
        return TypedReader(view_of(self._buffer, isolation_level), **parts)

    def _check_layout(self) -> None:
        """Refuse what a store with another layout has written."""
        if self._buffer.metadata.committed_total(EXPIRING):
            self._refuse_layout("it was written with ttl_ms, and has an index by time")

    def _refuse_layout(self, why: str) -> NoReturn:
        self.close()
        raise StateStoreCorruptedError(
            self.name, f"{why}: it is to be made anew, or give the store another name"
        )

    def _bind_buffer(self) -> None:
        super()._bind_buffer()
        self._dirty_get = self._buffer.dirty_get
        self._committed_get = self._buffer.committed_get
        self._sent_get = self._buffer.get_sent

    def _shut(self) -> None:
        super()._shut()
        self._dirty_get = self._refuse
        self._committed_get = self._refuse
        self._sent_get = self._refuse


def _after_prefix(prefix: bytes) -> bytes | None:
    """Return the first bytes above all that start with `prefix`; None when there are none."""
    stem = prefix.rstrip(b"\xff")
    return stem[:-1] + bytes((stem[-1] + 1,)) if stem else None
