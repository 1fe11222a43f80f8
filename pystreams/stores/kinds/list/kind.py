"""What list stores can do: hold back what an outer join of two streams has found no match for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pystreams.stores.contracts.key_layout import KeyFlag, KeyLayout, KeyPart, KeyTime
from pystreams.stores.contracts.spec import Reader, Retention, StoreKind, StoreSpec
from pystreams.stores.dirty_map.of_spec import dirty_map
from pystreams.stores.kinds.list.store import ListValueStore, values_of

if TYPE_CHECKING:
    from pystreams.serdes import Serde
    from pystreams.stores.contracts.key_value import KeyValueEngine


class ListKind(StoreKind):
    """A list of values under each key, which here is a time (int64), a side (one byte), a key."""

    name = "list-value"
    key_layout = KeyLayout(head_bytes=9)
    how_to_ask = "it is what a join keeps for itself, ask a table made of its output"

    def build(self, spec: StoreSpec, engine: KeyValueEngine) -> ListValueStore[Any, Any]:
        """Return a new store; it has no record cache, whatever the spec."""
        return ListValueStore(dirty_map(spec, engine), spec.key_serde, spec.value_serde)

    def key_columns(self, retention: Retention | None) -> Mapping[str, KeyPart]:
        """Return where the time is, and whether it is of the left stream."""
        return {"time": KeyTime(0), "left": KeyFlag(8)}

    def entry_readers(self, read_key: Reader, read_value: Reader) -> tuple[Reader, Reader]:
        """Return what shows a key with its time and side, and all values."""
        return read_key, lambda stored: [read_value(value) for value in values_of(stored)]

    def record_key_serde(self, key_serde: Serde[Any] | None) -> Serde[Any] | None:
        """Return the serde inside that of keys."""
        return getattr(key_serde, "inner", None)


LIST = ListKind()
