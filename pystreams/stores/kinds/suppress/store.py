"""The buffer of a suppression: the last change of each key, let go in the order of its times.

    put --> dirty map: the change by key, the key in order of time     (one batch at the commit)
             |    ^
             |    +-- leave_while: the earliest first, from `_upcoming`
             +--> changelog, at flush_cache: the last change of each key since the last commit

A key keeps the time it came with for as long as it is buffered; later changes of it take the place
of the former one. So an update is one read and one write by key, and what is buffered for when is
written once.

Nothing is kept in memory of what is committed, but for the next keys in order (`UpcomingKeys`).

Invariants:
- `earliest_time` is not above the time of any buffered change.
- `_changed` has each key that was written since the last flush.
- `totals` are those of data and dirty map together.

Differs from Kafka, whose buffer is on the heap alone, forgets the stream time at a restart, and
logs without a timestamp: here a change is logged with that of its record.
Rejected: all keys in order in memory (10 million open windows take a gigabyte); the change under
its time (an update would read twice); totals counted at the start (a walk over all).
Spec: KIP-328; Kafka InMemoryTimeOrderedKeyValueChangeBuffer.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from pystreams.record import (
    NO_RECORD,
    ConsumedMessage,
    PresentRecord,
    ProducedRecord,
)
from pystreams.serdes import Serde
from pystreams.stores.dirty_map.changelog import log_to
from pystreams.stores.dirty_map.upcoming_keys import KEPT_KEYS, UpcomingKeys
from pystreams.stores.kinds.suppress.buffered_change import (
    FIRST_BY_KEY,
    FIRST_IN_ORDER,
    NO_ORIGIN,
    VERSION_3,
    BufferedChange,
    counted_bytes,
    key_of,
    keyed,
    ordered,
    packed,
    stored_timestamp,
    time_of,
    unpacked,
)
from pystreams.stores.typed_stores.typed_state_store import TypedStateStore

if TYPE_CHECKING:
    from pystreams.ids import TopicPartition
    from pystreams.stores.contracts.state_store import StateStoreContext
    from pystreams.stores.dirty_map.buffered import BufferedKeyValueStore
    from pystreams.stores.kinds.suppress.restoring import BufferTotals

K = TypeVar("K")
V = TypeVar("V")

PORTION_BYTES = 1 << 20
"""How much leaves at once."""
_LEAST_BYTES = 1 << 10
"""What each change counts in that, at least; many small ones take room as well."""
NEVER = 1 << 63
"""The earliest time (ms) of an empty buffer: later than any that a record can have."""
_NOT_KNOWN = -sys.maxsize

_Known = tuple[bytes | None, int, int]
"""Prior value, buffer time (ms), counted bytes: what a next change of a buffered key needs."""


class SuppressionBuffer(TypedStateStore[K, V]):
    """The buffer as operators and the runtime see it.

    Threads: belongs to the task's thread.

    Args:
        buffer: Holds the bytes, restored by `RestoredChanges`; owned by this object from now on.
        totals: What that counts in.
        kept_keys: See `UpcomingKeys`.

    Attributes:
        totals: How much is buffered, and the stream time.
        earliest_time: No change is buffered for a time (ms) before it; `NEVER` without any. It may
            be lower than that of the first one, until that is asked for.
    """

    __slots__ = (
        "_changed",
        "_log",
        "_upcoming",
        "earliest_time",
        "totals",
    )

    def __init__(
        self,
        buffer: BufferedKeyValueStore,
        totals: BufferTotals,
        key_serde: Serde[Any] | None,
        value_serde: Serde[Any] | None,
        kept_keys: int = KEPT_KEYS,
    ) -> None:
        self.totals = totals
        self.earliest_time = _NOT_KNOWN
        self._upcoming = UpcomingKeys(buffer, FIRST_IN_ORDER, FIRST_BY_KEY, kept_keys)
        # None for a key that has left, with the timestamp to log that with.
        self._changed: dict[bytes, tuple[_Known | None, int]] = {}
        self._log = log_to(None)
        super().__init__(buffer, key_serde, value_serde)

    def init(self, context: StateStoreContext) -> None:
        """Open the store; raises as `TypedStateStore.init`."""
        # Changes are logged at `flush_cache`, and here, with the header of their version.
        self._log = log_to(context.changelog)
        super().init(replace(context, changelog=None))
        metadata = self._buffer.metadata
        metadata.totals = self.totals.entries
        metadata.stream_time = self._observed_time
        self._forget()

    def put(
        self, time: int, key: K, change: tuple[V | None, V | None], record: PresentRecord
    ) -> None:
        """Buffer a change for a time, or in place of the one that its key has already.

        Args:
            time: When it is to leave (ms); not looked at if the key is buffered already.
            change: Its new and its old value.
            record: The record that led to it, with the timestamp and headers it is to leave with.

        Raises:
            SerializationError: Key or values do not fit their serdes; nothing is changed.
        """
        new, old = change
        raw_key = self._key_bytes(key)
        raw_old = None if old is None else self._value_bytes(old)
        raw_new = None if new is None else self._value_bytes(new)
        timestamp, headers = record.timestamp, record.headers
        known = self._changed.get(raw_key)
        buffered = self._look_up(raw_key) if known is None else known[0]
        totals, write = self.totals, self._write
        if buffered is None:
            in_order = ordered(time, raw_key)
            write(in_order, b"", None, timestamp, NO_RECORD)
            if self._upcoming.came(in_order):
                self.earliest_time = min(self.earliest_time, time)
            totals.records += 1
            prior = raw_old
        else:
            prior, time, former_bytes = buffered
            totals.counted_bytes -= former_bytes
        origin = record.metadata() or NO_ORIGIN
        stored = packed(timestamp, headers, origin, prior, raw_old, raw_new, time)
        write(keyed(raw_key), stored, None, timestamp, NO_RECORD)
        size_bytes = counted_bytes(raw_key, stored)
        totals.counted_bytes += size_bytes
        if timestamp > totals.stream_time:
            totals.stream_time = timestamp
        self._changed[raw_key] = (prior, time, size_bytes), timestamp

    def leave_while(self, is_due: Callable[[int], bool]) -> Iterator[tuple[bytes, BufferedChange]]:
        """Let a portion of changes go, earliest first and those of one time in order of key bytes.

        Afterwards `earliest_time` is that of the first one that is left.

        Args:
            is_due: Called with the time (ms) of the first one that is left, before it goes.

        Yields:
            The key's bytes and the change. It is still buffered until the next one is asked for, so
            that who looks into the table meanwhile sees what it was.
        """
        upcoming, room_bytes = self._upcoming, PORTION_BYTES
        while (in_order := upcoming.first()) is not None:
            if room_bytes <= 0 or not is_due(time_of(in_order)):
                break
            key = key_of(in_order)
            stored = self._buffer.get(keyed(key))
            assert stored is not None, f"store {self.name}: a key in order has a change"
            change = unpacked(stored)
            yield key, change
            upcoming.leave()
            self._write(in_order, None, None, change.timestamp, NO_RECORD)
            self._write(keyed(key), None, None, change.timestamp, NO_RECORD)
            self.totals.records -= 1
            self.totals.counted_bytes -= counted_bytes(key, stored)
            self._changed[key] = None, change.timestamp
            room_bytes -= max(len(stored), _LEAST_BYTES)
        self.earliest_time = NEVER if in_order is None else time_of(in_order)

    def typed(self, key: bytes, change: BufferedChange) -> tuple[K, tuple[V | None, V | None]]:
        """Return the key, and the newest and the prior value, of what has left.

        Raises:
            SerializationError: The serdes can't read them.
        """
        try:
            typed_key = self._deserialize_key(key)
            new = None if change.newest is None else self._deserialize_value(change.newest)
            prior = None if change.prior is None else self._deserialize_value(change.prior)
        except Exception as error:  # noqa: BLE001 - a serde may raise anything
            self._raise_undecodable(error, key)
        return typed_key, (new, prior)

    def prior_value(self, key: K) -> tuple[V | None] | None:
        """Return the value that the table had before a key came here, alone in a tuple.

        None if the key is not buffered.

        Raises:
            SerializationError: The key does not fit its serde, or the value can't be read.
        """
        raw_key = self._key_bytes(key)
        known = self._changed.get(raw_key)
        buffered = self._look_up(raw_key) if known is None else known[0]
        if buffered is None:
            return None
        prior = buffered[0]
        if prior is None:
            return (None,)
        try:
            return (self._deserialize_value(prior),)
        except Exception as error:  # noqa: BLE001 - a serde may raise anything
            self._raise_undecodable(error, prior)

    def latest_time(self) -> int:
        """Return the highest time (ms) that a change is buffered for; for a look, not a record.

        There must be one.
        """
        entries = self._buffer.range(FIRST_IN_ORDER, FIRST_BY_KEY, reverse=True)
        in_order, _ = next(entries)
        entries.close()
        return time_of(in_order)

    def restore(self, messages: Sequence[ConsumedMessage]) -> None:
        """Apply a batch of changelog records and remember the last one's offset, atomically."""
        self._buffer.restore(messages)
        self._forget()

    def flush_cache(self) -> None:
        """Log the last change of each key since the last flush, a deletion if it has left."""
        changed, dirty, log = self._changed, self._buffer.dirty, self._log
        for key, (known, timestamp) in changed.items():
            if known is None:
                log((key, None, max(timestamp, 0), ()))
            else:
                log((key, dirty[keyed(key)], max(timestamp, 0), VERSION_3))
        changed.clear()

    def needs_flush(self) -> bool:
        """Return whether a key has changed since the last flush."""
        return bool(self._changed)

    def commit(self, changelog_offsets: Mapping[TopicPartition, int]) -> None:
        """Make everything written since the last commit durable, with the offsets, atomically."""
        assert not self._changed, f"store {self.name}: commit before flush_cache"
        self._buffer.commit(changelog_offsets)

    def rollback(self) -> None:
        """Drop everything written since the last commit."""
        # Where there is nothing to drop, what was read ahead stays: this is a commit of others.
        was_written = bool(self._changed or self._buffer.dirty)
        self._buffer.rollback()
        if was_written:
            self._forget()

    def changelog_records(self) -> Iterator[ProducedRecord]:
        """Return changelog records that restore what is committed."""
        for key, stored in self._buffer.engine_range(FIRST_BY_KEY, None):
            yield key[1:], stored, max(stored_timestamp(stored), 0), VERSION_3

    def _look_up(self, key: bytes) -> _Known | None:
        """Return what is known of a key that was not changed since the last flush."""
        stored = self._buffer.get(keyed(key))
        if stored is None:
            return None
        change = unpacked(stored)
        return change.prior, change.time, counted_bytes(key, stored)

    def _observed_time(self) -> int:
        return self.totals.stream_time

    def _shut(self) -> None:
        super()._shut()
        self._upcoming.forget()
        self._changed.clear()

    def _forget(self) -> None:
        """Know nothing but what is committed."""
        self._upcoming.forget()
        self.earliest_time = _NOT_KNOWN
        self._changed.clear()
        self.totals.go_back_to(self._buffer.metadata)
