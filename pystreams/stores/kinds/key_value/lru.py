"""A key-value store in memory that keeps the keys that were used last. Was: MemoryLRUCache.

    put of a new key --full?--> the key whose use is longest ago is deleted, and logged as deleted
                                     |
                                     v
                              dirty map, changelog, engine as in every key-value store

A use is a put, or a read of the one key by the store's owner; reading a range is none.

Invariants:
- `_uses` holds the keys of the store, uncommitted ones too, the one used longest ago first.
- It never holds more than `max_entries`.

What a rollback brings back, evicted and deleted keys, counts as used longest ago.

Spec: Kafka MemoryNavigableLRUCache, ChangeLoggingKeyValueBytesStore.init. Differs from Kafka:
evictions wait for the commit like all writes, so that a rollback undoes them; they are logged under
a timestamped store too; reads of other threads are no use; and there is no record cache, so that
an eviction is never forwarded.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Any

from pystreams.stores.dirty_map.buffered import BufferedKeyValueStore
from pystreams.stores.dirty_map.restoring import Changes, RestoredChanges, plain_changes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pystreams.record import ConsumedMessage, PresentRecord
    from pystreams.stores.contracts.key_value import KeyValueEngine, StateStoreContext


class BufferedLruStore(BufferedKeyValueStore):
    """A `BufferedKeyValueStore` of limited size.

    Args:
        engine: Holds what is committed, in memory; owned by this object from now on.
        max_entries: How many keys are kept; 1 or more.
        value_prefix_bytes: Bytes that precede the plain value in what is stored.
    """

    __slots__ = ("_max_entries", "_restored_changes", "_uses")

    def __init__(
        self,
        name: str,
        engine: KeyValueEngine,
        max_entries: int,
        *,
        value_prefix_bytes: int,
        restored: RestoredChanges = plain_changes,
    ) -> None:
        super().__init__(
            name,
            engine,
            value_prefix_bytes=value_prefix_bytes,
            restored=self._restored_within_size,
        )
        self._max_entries = max_entries
        self._restored_changes = restored
        self._uses: OrderedDict[bytes, None] = OrderedDict()
        self.dirty_get = self._used_get

    def init(self, context: StateStoreContext) -> None:
        """Open the engine, which is empty."""
        super().init(context)
        self._uses.clear()

    def get(self, key: bytes) -> bytes | None:
        """Return the stored bytes of a key, or None; a use."""
        if key in self._uses:
            self._uses.move_to_end(key)
        return super().get(key)

    def approximate_num_entries(self) -> int:
        """Return how many keys there are."""
        return len(self._uses)

    def rollback(self) -> None:
        """Drop the dirty map; what it had deleted is back, as used longest ago.

        Costs a walk through the store, unless there is nothing to drop.
        """
        as_committed = self.is_open and not self.dirty
        super().rollback()
        if as_committed:
            return
        uses = self._uses
        if not self.is_open:
            uses.clear()
            return
        committed = dict.fromkeys(key for key, _ in self.engine_range(None, None))
        for key in [key for key in uses if key not in committed]:
            del uses[key]
        for key in [key for key in committed if key not in uses]:
            uses[key] = None
            uses.move_to_end(key, last=False)

    def _used_get(self, key: bytes, default: Any) -> Any:
        """Return the uncommitted bytes of a key, or a default; a use."""
        if key in self._uses:
            self._uses.move_to_end(key)
        return self.dirty.get(key, default)

    def _write_logged(
        self,
        key: bytes,
        stored: bytes | None,
        plain: bytes | None,
        timestamp: int,
        record: PresentRecord,
    ) -> None:
        """Write one key and log it at once, after the one that has to make place for it."""
        uses = self._uses
        if stored is None:
            uses.pop(key, None)
        elif key in uses:
            uses.move_to_end(key)
        else:
            if len(uses) >= self._max_entries:
                eldest, _ = uses.popitem(last=False)
                super()._write_logged(eldest, None, None, record.timestamp, record)
            uses[key] = None
        super()._write_logged(key, stored, plain, timestamp, record)

    def _restored_within_size(self, messages: Sequence[ConsumedMessage]) -> Changes:
        """Return the changes of a batch, with the evictions that its puts cause one by one."""
        uses = self._uses
        evicted = []
        for message in messages:
            key = message.key()
            if key is None:
                continue
            uses.pop(key, None)
            if message.value() is not None:
                uses[key] = None
                if len(uses) > self._max_entries:
                    evicted.append(uses.popitem(last=False)[0])
        changes = self._restored_changes(messages)
        changes.update((key, None) for key in evicted if key not in uses)
        return changes
