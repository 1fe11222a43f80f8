"""The versioned key-value store: typed keys and values over the bytes-level store of versions.

A versioned store is never cached: the record cache keeps one value a key, a history has many.
Spec: KIP-889; Kafka MeteredVersionedKeyValueStore, VersionedKeyValueStoreBuilder.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Generator, Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from pystreams.stores.contracts.versioned import VersionedRecord
from pystreams.stores.typed_stores.typed_state_store import TypedParts, TypedStateStore, TypedView
from pystreams.stores.typed_stores.wrong_arguments import refuse_times

if TYPE_CHECKING:
    from pystreams.config.guarantee import IsolationLevel
    from pystreams.record import ProducedRecord
    from pystreams.serdes import Serde
    from pystreams.stores.contracts.key_value import FlushListener
    from pystreams.stores.kinds.versioned.buffered import BufferedVersionedStore
    from pystreams.stores.kinds.versioned.reader import Version, VersionReader

K = TypeVar("K")
V = TypeVar("V")


class VersionReads(TypedParts[K, V]):
    """Typed reads over the bytes-level reader `_reader`."""

    __slots__ = ()

    _reader: VersionReader

    def get(self, key: K, as_of: int | None = None) -> VersionedRecord[V] | None:
        """Return the version of a key that is valid at a time (ms), or the latest, or None."""
        raw_key = self._key_bytes(key)
        versions = self._reader
        try:
            found = versions.latest(raw_key) if as_of is None else versions.as_of(raw_key, as_of)
        except (TypeError, struct.error) as error:
            refuse_times(self._name, error, as_of=as_of)
        return None if found is None else self._record_of(found)

    def get_range(
        self,
        key: K,
        from_time: int | None = None,
        to_time: int | None = None,
        *,
        descending: bool = False,
    ) -> Generator[VersionedRecord[V], None, None]:
        """Iterate over the versions of a key that are valid somewhere in a range of time (ms).

        Raises:
            ValueError: The range ends before it begins.
        """
        raw_key = self._key_bytes(key)
        try:
            ends_before = from_time is not None and to_time is not None and from_time > to_time
            found = [] if ends_before else self._reader.between(raw_key, from_time, to_time)
        except (TypeError, struct.error) as error:
            times = {"from_time": from_time, "to_time": to_time}
            given = {name: time for name, time in times.items() if time is not None}
            refuse_times(self._name, error, **given)
        if ends_before:
            raise ValueError(
                f"from_time {from_time} is after to_time {to_time}: the range ends before it begins"
            )
        return self._records_of(found if descending else found[::-1])

    def _records_of(self, versions: list[Version]) -> Generator[VersionedRecord[V], None, None]:
        for version in versions:
            yield self._record_of(version)

    def _record_of(self, version: Version) -> VersionedRecord[V]:
        value, timestamp, valid_to = version
        try:
            return VersionedRecord(self._decode(value), timestamp, valid_to)
        except Exception as error:  # noqa: BLE001 - a serde may raise anything
            self._raise_undecodable(error, value)


class TypedVersionsView(VersionReads[K, V], TypedView[K, V]):
    """Typed reads for threads that do not own the store."""

    __slots__ = ()


class TypedVersionedKeyValueStore(TypedStateStore[K, V], VersionReads[K, V]):
    """`VersionedKeyValueStore` (see the contracts) with serdes.

    `get_with_timestamp`, `get_as_of` and `put_with_timestamp` are `get` and `put` without an
    object, in the form that tables use.

    Threads: belongs to the task's thread; others use `read_only`.
    """

    __slots__ = ("_put_bytes", "_reader", "_versioned")

    metered_methods: ClassVar[Mapping[str, str]] = {
        "delete": "delete",
        "get": "get",
        "get_as_of": "get",
        "get_range": "range",
        "get_with_timestamp": "get",
        "put": "put",
        "put_with_timestamp": "put",
    }

    def __init__(
        self,
        buffer: BufferedVersionedStore,
        key_serde: Serde[Any] | None,
        value_serde: Serde[Any] | None,
    ) -> None:
        self._versioned = buffer
        super().__init__(buffer, key_serde, value_serde)

    def put(self, key: K, value: V | None, timestamp: int) -> int:
        """Write a version; return its end (ms) or a return code."""
        raw = None if value is None else self._value_bytes(value)
        raw_key = self._key_bytes(key)
        try:
            return self._put_bytes(raw_key, raw, timestamp)
        except (TypeError, OverflowError) as error:
            refuse_times(self._name, error, timestamp=timestamp)

    put_with_timestamp = put

    def delete(self, key: K, timestamp: int) -> VersionedRecord[V] | None:
        """End the version that is valid at a time (ms); return it as it was, or None."""
        if not self.is_open:
            raise self._unavailable()
        raw_key = self._key_bytes(key)
        try:
            found = self._versioned.delete(raw_key, timestamp)
        except (TypeError, OverflowError, struct.error) as error:
            refuse_times(self._name, error, timestamp=timestamp)
        return None if found is None else self._record_of(found)

    def get_with_timestamp(self, key: K) -> tuple[V | None, int]:
        """Return (latest value, its timestamp in ms); (None, -1) when there is none."""
        found = self.get(key)
        return (None, -1) if found is None else (found.value, found.timestamp)

    def sent_bytes(self, key: K) -> bytes | None:
        """Return the bytes of the latest value, or None."""
        found = self._reader.latest(self._key_bytes(key))
        return None if found is None else found[0]

    def get_as_of(self, key: K, timestamp: int) -> tuple[V | None, int]:
        """Return (value, its timestamp) of the version valid at a time (ms); else (None, -1)."""
        found = self.get(key, timestamp)
        return (None, -1) if found is None else (found.value, found.timestamp)

    def set_flush_listener(self, listener: FlushListener[K, V], *, send_old_values: bool) -> bool:
        """Return False: a versioned store has no record cache."""
        return False

    def changelog_records(self) -> Iterator[ProducedRecord]:
        """Return changelog records that restore all committed versions."""
        return self._versioned.changelog_records()

    def stored_versions(self) -> Iterator[tuple[bytes, bytes, int, int | None]]:
        """Return (key, value, timestamp, end; None for the latest) of all committed versions.

        Key by key, and in order of time.
        """
        return self._versioned.stored_versions()

    def read_only(self, isolation_level: IsolationLevel) -> TypedVersionsView[K, V]:
        """Return a view that other threads may read; its serde functions are its own.

        Raises:
            StoreNotAvailableError: The store is not open.
        """
        parts = self._view_parts()
        return TypedVersionsView(self._versioned.versions_view(isolation_level), **parts)

    def _bind_buffer(self) -> None:
        self._put_bytes: Callable[[bytes, bytes | None, int], int] = self._versioned.put
        self._reader = self._versioned.reader

    def _shut(self) -> None:
        self._put_bytes = self._refuse
        self._reader = self._versioned.reader_over(self._refuse)
