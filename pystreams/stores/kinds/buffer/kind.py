"""What the buffer of a join with grace can do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from pystreams.stores.contracts.key_layout import KeyLayout, KeyNumber, KeyPart
from pystreams.stores.contracts.spec import Retention, StoreKind, StoreSpec
from pystreams.stores.dirty_map.buffered import BufferedKeyValueStore
from pystreams.stores.kinds.buffer.store import TimeOrderedBuffer
from pystreams.stores.kinds.buffer.waiting_record import restored_records

if TYPE_CHECKING:
    from pystreams.stores.contracts.key_value import KeyValueEngine


class BufferKind(StoreKind):
    """Records by 0 (one byte), time (int64), key and sequence number (int32)."""

    name = "buffer"
    has_serdes = False
    keeps_timestamps = True
    key_layout = KeyLayout(head_bytes=9, tail_bytes=4)
    how_to_ask = "it is what an operation keeps for itself, ask a table made of its output"

    def key_columns(self, retention: Retention | None) -> Mapping[str, KeyPart]:
        """Return what tells records of one key and time apart."""
        return {"sequence": KeyNumber(-4)}

    def build(self, spec: StoreSpec, engine: KeyValueEngine) -> TimeOrderedBuffer:
        """Return a new store; it is transactional, whatever the spec."""
        return TimeOrderedBuffer(
            BufferedKeyValueStore(spec.name, engine, restored=restored_records)
        )


BUFFER = BufferKind()
