"""What the buffer of a suppression can do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pystreams.stores.contracts.key_layout import KeyLayout, KeyTime
from pystreams.stores.contracts.spec import Retention, StoreKind, StoreSpec
from pystreams.stores.dirty_map.buffered import BufferedKeyValueStore
from pystreams.stores.kinds.suppress.restoring import BufferTotals, RestoredChanges
from pystreams.stores.kinds.suppress.store import SuppressionBuffer

if TYPE_CHECKING:
    from pystreams.stores.contracts.key_value import KeyValueEngine
    from pystreams.stores.files.metadata import StoreMetadata


_TIME_BYTES = 8


class SuppressKind(StoreKind):
    """The last change of each key of a table, by key and in order of time.

    Args:
        window_bytes: What a logged key has of the window behind the key: its start, or of a session
            end and start; 0 of a table without windows.
    """

    name = "suppression-buffer"
    caches = False
    has_serdes = False
    keeps_timestamps = True
    how_to_ask = "it is what a suppression keeps for itself, ask the table that is suppressed"

    def __init__(self, window_bytes: int = 0) -> None:
        self.key_layout = KeyLayout(tail_bytes=window_bytes)

    def metrics_scope(self, spec: StoreSpec) -> str:
        """Return the store's type in the tags of its metrics."""
        return f"{super().metrics_scope(spec)}-suppression"

    def key_times(self, retention: Retention | None) -> Mapping[str, KeyTime]:
        """Return where a window starts and, of a session, where it ends."""
        starts = {"window_start": KeyTime(-_TIME_BYTES)} if self.key_layout.tail_bytes else {}
        ends = self.key_layout.tail_bytes == 2 * _TIME_BYTES
        return starts | ({"window_end": KeyTime(-2 * _TIME_BYTES)} if ends else {})

    def samples(self, store: Any) -> Mapping[str, float]:
        """Return how many changes are held back, and how many bytes."""
        totals: BufferTotals = store.totals
        return {
            "suppression-buffer-count": totals.records,
            "suppression-buffer-size": totals.counted_bytes,
        }

    def build(self, spec: StoreSpec, engine: KeyValueEngine) -> SuppressionBuffer[Any, Any]:
        """Return a new store; it is transactional, whatever the spec."""
        totals = BufferTotals()

        def committed() -> StoreMetadata:
            return buffer.metadata

        restored = RestoredChanges(spec.name, engine, totals, committed)
        buffer = BufferedKeyValueStore(spec.name, engine, restored=restored)
        return SuppressionBuffer(buffer, totals, spec.key_serde, spec.value_serde)


SUPPRESS = SuppressKind()
