"""What a store knows about its data: the content of the `offsets` column family.

Keys are text, values are bytes: `<topic>-<partition>` holds an int64 (big-endian), the offset of
the last changelog record in the data, or -4 when that is not known; `status` and `position` have
names of their own. Example: after the changelog record 41 of partition 3 the key
`app-counts-changelog-3` holds 00 00 00 00 00 00 00 29.

Spec: KIP-1035 "Proposed Changes"; Kafka RocksDBStore, ColumnFamilyAccessor.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pystreams.ids import TopicPartition

pack_long = struct.Struct(">q").pack
unpack_long = struct.Struct(">q").unpack_from

POSITION = b"position"
STATUS = b"status"
OFFSET_UNKNOWN = -4
_RESERVED = frozenset((STATUS, POSITION))


class StoreMetadata:
    """The committed metadata of one store, as its engine has it.

    Invariant: equals what `engine.metadata()` would return, so that a commit writes only what
    differs. Belongs to the store's thread; other threads may read an offset.
    """

    __slots__ = ("_committed",)

    def __init__(self) -> None:
        self._committed: dict[bytes, bytes] = {}

    def load(self, committed: dict[bytes, bytes]) -> None:
        """Take over what an engine holds, after it was opened."""
        self._committed = committed

    def offset(self, partition: TopicPartition) -> int | None:
        """Return the offset of the last changelog record in the engine; None if not known."""
        packed = self._committed.get(str(partition).encode())
        if packed is None:
            return None
        offset: int = unpack_long(packed)[0]
        return None if offset == OFFSET_UNKNOWN else offset

    def changes(self, offsets: Mapping[TopicPartition, int]) -> dict[bytes, bytes | None]:
        """Return what a commit with these offsets has to write; none given clears them all."""
        if not offsets:
            return {name: None for name in self._committed if name not in _RESERVED}
        packed = {
            str(partition).encode(): pack_long(offset) for partition, offset in offsets.items()
        }
        committed = self._committed
        return {name: value for name, value in packed.items() if committed.get(name) != value}

    def remember(self, written: Mapping[bytes, bytes | None]) -> None:
        """Note what was written."""
        for name, value in written.items():
            if value is None:
                self._committed.pop(name, None)
            else:
                self._committed[name] = value
