"""Entries by which a store finds others of its keys: written with them, neither logged nor told."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pystreams.stores.dirty_map.buffered import ABSENT

if TYPE_CHECKING:
    from pystreams.stores.dirty_map.buffered import BufferedKeyValueStore

_ENTRY = b""


def write_entry(buffer: BufferedKeyValueStore, entry: bytes, *, present: bool) -> None:
    """Write an entry, or delete it; call it before the write of the key it leads to.

    One that was written since the last commit costs a look. What writes through empties its dirty
    map with a key's own write, so that the two stay together.
    """
    dirty = buffer.dirty
    before = dirty.get(entry, ABSENT)
    value = _ENTRY if present else None
    if before == value and before is not ABSENT:
        return
    if before is ABSENT:
        if buffer.transactional:
            buffer.uncommitted_bytes += len(entry)
    elif present:
        buffer.gap.fill(entry)
    dirty[entry] = value
