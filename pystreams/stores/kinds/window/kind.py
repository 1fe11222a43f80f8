"""What window stores can do, plain and timestamped."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from pystreams.stores.contracts.key_layout import KeyLayout, KeyNumber, KeyPart, KeyTime
from pystreams.stores.contracts.queries import Query, WindowKeyQuery, WindowRangeQuery
from pystreams.stores.contracts.spec import Answer, Retention, RowLookup, StoreSpec, ValuesNear
from pystreams.stores.contracts.window import Windowed
from pystreams.stores.dirty_map.of_spec import dirty_map
from pystreams.stores.dirty_map.restoring import TIMESTAMP_BYTES, plain_changes, timestamped_changes
from pystreams.stores.kinds.window.keys import SEQUENCE_BYTES, SUFFIX_BYTES
from pystreams.stores.kinds.window.local import LocalWindowStore
from pystreams.stores.kinds.window.store import TypedTimestampedWindowStore, TypedWindowStore
from pystreams.stores.time_segments.segmented import (
    SegmentedChanges,
    SegmentedKind,
    segments_of,
)
from pystreams.stores.time_segments.segments import SEGMENT_ID_BYTES
from pystreams.stores.time_segments.time_order import TimeOrder

if TYPE_CHECKING:
    from pystreams.stores.contracts.key_value import KeyValueEngine

_START_ORDER = TimeOrder(SUFFIX_BYTES, 8, reads_retention=True)

WindowStateStore = TypedWindowStore[Any, Any] | TypedTimestampedWindowStore[Any, Any]


def _fetch(view: Any, query: WindowKeyQuery) -> Any:
    return view.fetch(query.key, query.time_from, query.time_to)


def _fetch_all(view: Any, query: WindowRangeQuery) -> Any:
    return view.fetch_all(query.time_from, query.time_to)


class WindowKind(SegmentedKind):
    """A value for each key and window, or several in the order they were put."""

    name = "window"
    factory = "persistent_window_store"
    contract = "WindowStoreContract"
    holds_windows = True
    holds_joined_streams = True
    ordered_by_key = True
    key_layout = KeyLayout(tail_bytes=SUFFIX_BYTES)
    answers: ClassVar = {WindowKeyQuery: _fetch, WindowRangeQuery: _fetch_all}
    how_to_ask = "ask it with WindowKeyQuery, or WindowRangeQuery with time_from and time_to"
    local_store = LocalWindowStore

    def build(self, spec: StoreSpec, engine: KeyValueEngine) -> WindowStateStore:
        """Return a new store; without a record cache if it retains duplicates.

        Spec: Kafka WindowStoreBuilder.
        """
        retention = spec.retention
        assert retention is not None, f"store {spec.name}: a window store has a retention"
        order = _START_ORDER if retention.time_ordered else None
        segments = segments_of(retention, order)
        changes = timestamped_changes if spec.engine_timestamped else plain_changes
        buffer = dirty_map(
            spec,
            engine,
            value_prefix_bytes=TIMESTAMP_BYTES if spec.engine_timestamped else 0,
            key_prefix_bytes=SEGMENT_ID_BYTES if order is None else order.prefix_bytes,
            caching=spec.caching and not retention.retain_duplicates,
            restored=SegmentedChanges(segments, changes, SUFFIX_BYTES, order),
        )
        window_store = TypedTimestampedWindowStore if spec.timestamped else TypedWindowStore
        return window_store(buffer, segments, retention, spec.key_serde, spec.value_serde, order)

    def row_lookup(self, store: Any) -> RowLookup:
        """Return the function that looks up the row of a windowed key."""
        fetch = store.fetch_with_timestamp

        def lookup(windowed: Windowed[Any]) -> tuple[Any, int]:
            row: tuple[Any, int] = fetch(windowed.key, windowed.window.start)
            return row

        return lookup

    def values_near(self, store: Any) -> ValuesNear:
        """Return the function that finds the values of a key of some time."""
        near: ValuesNear = store.values_near
        return near

    def key_times(self, retention: Retention | None) -> Mapping[str, KeyTime]:
        """Return where a window starts and ends."""
        size_ms = 0 if retention is None else retention.window_size_ms or 0
        return {
            "window_start": KeyTime(-SUFFIX_BYTES),
            "window_end": KeyTime(-SUFFIX_BYTES, plus_ms=size_ms),
        }

    def key_columns(self, retention: Retention | None) -> Mapping[str, KeyPart]:
        """Return the same, and what tells values apart that a window keeps of one key."""
        if retention is None or not retention.retain_duplicates:
            return self.key_times(retention)
        return {**self.key_times(retention), "sequence": KeyNumber(-SEQUENCE_BYTES)}

    def form(self, spec: StoreSpec) -> str:
        """Return what stores are for the test driver."""
        return "timestamped_window_store" if spec.timestamped else "window_store"

    def answer(self, query: Query[Any], spec: StoreSpec) -> Answer | None:
        """Return what answers a query; sessions of a key are asked of session stores."""
        if isinstance(query, WindowRangeQuery) and query.key is not None:
            return None
        return super().answer(query, spec)


WINDOW = WindowKind()
