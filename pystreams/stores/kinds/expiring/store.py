"""Key-value stores whose rows expire, plain and timestamped: serdes over `ExpiringRows`.

Both keep the timestamp of each row, which of a plain store is that of the record that wrote it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from pystreams.stores.dirty_map.opening import first_entry
from pystreams.stores.dirty_map.restoring import TIMESTAMP_BYTES
from pystreams.stores.files.metadata import EXPIRING
from pystreams.stores.kinds.expiring.layout import ROW, ROWS_END, timestamp_of
from pystreams.stores.kinds.expiring.rows import ExpiringRows, LiveRows
from pystreams.stores.kinds.key_value.plain import TypedKeyValueStore
from pystreams.stores.kinds.key_value.reads import TypedReader, TypedStore
from pystreams.stores.kinds.key_value.timestamped import TypedTimestampedKeyValueStore
from pystreams.stores.typed_stores.views import sees_commits_only, view_of

if TYPE_CHECKING:
    from pystreams.config.guarantee import IsolationLevel
    from pystreams.record import ConsumedMessage, ProducedRecord
    from pystreams.serdes import Serde
    from pystreams.stores.contracts.state_store import StateStoreContext
    from pystreams.stores.dirty_map.buffered import BufferedKeyValueStore

K = TypeVar("K")
V = TypeVar("V")
R = TypeVar("R")


class ExpiringStore(TypedStore[K, R]):
    """What both have in common.

    Args:
        buffer: The bytes-level store, restored by `row_changes`; owned by this object from now on.
        ttl_ms: How long a row lives, in stream time.

    Attributes:
        rows: The rows, for the operator of a table.
    """

    __slots__ = ()

    rows: ExpiringRows
    _ttl_ms: int

    def __init__(
        self,
        buffer: BufferedKeyValueStore,
        rows: ExpiringRows,
        ttl_ms: int,
        key_serde: Serde[Any] | None,
        value_serde: Serde[Any] | None,
    ) -> None:
        self.rows, self._ttl_ms = rows, ttl_ms
        super().__init__(buffer, key_serde, value_serde)
        self._reader = rows

    def init(self, context: StateStoreContext) -> None:
        """Open the store.

        Raises:
            StateStoreCorruptedError: It holds rows that were written without a time to live.
        """
        super().init(context)
        metadata = self._buffer.metadata
        metadata.totals = lambda: {EXPIRING: 1}
        metadata.stream_time = lambda: self.rows.stream_time
        self._forget()

    def restore(self, messages: Sequence[ConsumedMessage]) -> None:
        """Apply a batch of changelog records and remember the last one's offset, atomically."""
        super().restore(messages)
        self._forget()

    def rollback(self) -> None:
        """Drop everything written since the last commit."""
        # Where there is nothing to drop, what was read ahead stays: this is a commit of others.
        was_written = bool(self._buffer.dirty)
        super().rollback()
        if was_written or not self.is_open:
            self._forget()

    def holds_data(self) -> bool:
        """Return whether there is anything committed in the store; reads one entry."""
        return first_entry(self._buffer.engine_range(ROW, ROWS_END)) is not None

    def changelog_records(self) -> Iterator[ProducedRecord]:
        """Return changelog records that restore what is committed and not over."""
        over = self._committed_time() - self._ttl_ms
        for key, stored in self._buffer.engine_range(ROW, ROWS_END):
            if timestamp_of(stored) >= over:
                yield _logged(key[1:], stored)

    def changelog_record(self, key: bytes) -> ProducedRecord | None:
        """Return what `changelog_records` has of a key, or None."""
        stored = self._buffer.engine_get(ROW + key)
        if stored is None or timestamp_of(stored) < self._committed_time() - self._ttl_ms:
            return None
        return _logged(key, stored)

    def read_only(self, isolation_level: IsolationLevel) -> TypedReader[K, R]:
        """Return a view that other threads may read; its serde functions are its own."""
        parts = self._view_parts()
        committed = sees_commits_only(self._buffer, isolation_level)
        time = self._committed_time if committed else (lambda: self.rows.stream_time)
        return TypedReader(
            LiveRows(view_of(self._buffer, isolation_level), self._ttl_ms, time), **parts
        )

    def leave(self) -> Iterator[tuple[K, Any]]:
        """Delete a portion of the rows that are over, earliest first; yield key and bare value."""
        for key, stored in self.rows.leave():
            yield self._typed(key, stored)

    def leave_as_read(self) -> Any:
        """Delete the row that was read last, if it is over; return its bare value, else None."""
        left = self.rows.leave_as_read()
        return None if left is None else self._typed(*left)[1]

    def _typed(self, key: bytes, stored: bytes) -> tuple[K, Any]:
        try:
            return self._deserialize_key(key), self._deserialize_value(stored[TIMESTAMP_BYTES:])
        except Exception as error:  # noqa: BLE001 - a serde may raise anything
            self._raise_undecodable(error, stored)

    def _committed_time(self) -> int:
        return self._buffer.metadata.committed_stream_time()

    def _check_layout(self) -> None:
        if self._buffer.metadata.committed_total(EXPIRING):
            return
        if first_entry(self._buffer.engine_range(None, None)) is not None:
            self._refuse_layout("it was written without ttl_ms, and has no index by time")

    def _logged_keys(self) -> Callable[[bytes], Any]:
        deserialize_key = self._deserialize_key
        return lambda stored_key: deserialize_key(stored_key[1:])

    def _bind_buffer(self) -> None:
        super()._bind_buffer()
        self._write = self.rows.write
        self._dirty_get = self.rows.read
        self._sent_get = self.rows.sent

    def _shut(self) -> None:
        super()._shut()
        self.rows.forget(-1)

    def _forget(self) -> None:
        self.rows.forget(self._committed_time())


class ExpiringKeyValueStore(ExpiringStore[K, V], TypedKeyValueStore[K, V]):
    """`KeyValueStore` (see the contracts) whose rows expire.

    Threads: belongs to the task's thread; others use `read_only`.
    """

    __slots__ = ("_ttl_ms", "rows")

    def _decoder(self, deserialize: Callable[[bytes], V]) -> Callable[[bytes], V]:
        return lambda stored: deserialize(stored[TIMESTAMP_BYTES:])


class ExpiringTimestampedKeyValueStore(ExpiringStore[K, Any], TypedTimestampedKeyValueStore[K, V]):
    """`TimestampedKeyValueStore` (see the contracts) whose rows expire.

    Threads: belongs to the task's thread; others use `read_only`.
    """

    __slots__ = ("_ttl_ms", "rows")

    metered_methods: ClassVar[Mapping[str, str]] = TypedTimestampedKeyValueStore.metered_methods


def _logged(key: bytes, stored: bytes) -> ProducedRecord:
    return key, stored[TIMESTAMP_BYTES:], timestamp_of(stored), ()
