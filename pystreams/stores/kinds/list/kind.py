"""What list stores can do: hold back what an outer join of two streams has found no match for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pystreams.stores.contracts.spec import KeyLayout, StoreKind, StoreSpec
from pystreams.stores.dirty_map.of_spec import dirty_map
from pystreams.stores.kinds.list.store import ListValueStore

if TYPE_CHECKING:
    from pystreams.stores.contracts.key_value import KeyValueEngine


class ListKind(StoreKind):
    """A list of values under each key, which here is a time (int64), a side (one byte), a key."""

    name = "list-value"
    key_layout = KeyLayout(head_bytes=9)
    how_to_ask = "it is what a join keeps for itself, ask a table made of its output"

    def build(self, spec: StoreSpec, engine: KeyValueEngine) -> ListValueStore[Any, Any]:
        """Return a new store; it has no record cache, whatever the spec."""
        return ListValueStore(dirty_map(spec, engine), spec.key_serde, spec.value_serde)


LIST = ListKind()
