"""What session stores can do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from pystreams.stores.contracts.key_layout import KeyLayout, KeyTime
from pystreams.stores.contracts.queries import Query, WindowRangeQuery
from pystreams.stores.contracts.spec import Answer, Retention, RowLookup, StoreSpec
from pystreams.stores.contracts.window import Windowed
from pystreams.stores.dirty_map.of_spec import dirty_map
from pystreams.stores.dirty_map.restoring import plain_changes
from pystreams.stores.kinds.session.keys import SUFFIX_BYTES
from pystreams.stores.kinds.session.local import LocalSessionStore
from pystreams.stores.kinds.session.store import TypedSessionStore
from pystreams.stores.time_segments.segmented import (
    SegmentedChanges,
    SegmentedKind,
    segments_of,
)
from pystreams.stores.time_segments.segments import SEGMENT_ID_BYTES
from pystreams.stores.time_segments.time_order import TimeOrder

if TYPE_CHECKING:
    from pystreams.stores.contracts.key_value import KeyValueEngine

_START_FROM_END = 8
_END_ORDER = TimeOrder(SUFFIX_BYTES, SUFFIX_BYTES)


def _fetch(view: Any, query: WindowRangeQuery) -> Any:
    return view.fetch(query.key)


class SessionKind(SegmentedKind):
    """An aggregate for each key and session."""

    name = "session"
    factory = "persistent_session_store"
    contract = "SessionStoreContract"
    holds_sessions = True
    key_layout = KeyLayout(tail_bytes=SUFFIX_BYTES)
    answers: ClassVar = {WindowRangeQuery: _fetch}
    how_to_ask = "ask it with WindowRangeQuery with key"
    local_store = LocalSessionStore

    def build(self, spec: StoreSpec, engine: KeyValueEngine) -> TypedSessionStore[Any, Any]:
        """Return a new store."""
        retention = spec.retention
        assert retention is not None, f"store {spec.name}: a session store has a retention"
        order = _END_ORDER if retention.time_ordered else None
        segments = segments_of(retention, order)
        buffer = dirty_map(
            spec,
            engine,
            caching=spec.caching,
            key_prefix_bytes=SEGMENT_ID_BYTES if order is None else order.prefix_bytes,
            restored=SegmentedChanges(segments, plain_changes, SUFFIX_BYTES, order),
        )
        return TypedSessionStore(buffer, segments, spec.key_serde, spec.value_serde, order)

    def row_lookup(self, store: Any) -> RowLookup:
        """Return the function that looks up the row of a session; its time is its end."""
        fetch_session = store.fetch_session

        def lookup(session: Windowed[Any]) -> tuple[Any, int]:
            key, (start, end) = session
            value = fetch_session(key, start, end)
            return (None, -1) if value is None else (value, end)

        return lookup

    def key_times(self, retention: Retention | None) -> Mapping[str, KeyTime]:
        """Return where a session starts and ends."""
        return {"window_start": KeyTime(-_START_FROM_END), "window_end": KeyTime(-SUFFIX_BYTES)}

    def form(self, spec: StoreSpec) -> str:
        """Return what stores are for the test driver."""
        return "session_store"

    def answer(self, query: Query[Any], spec: StoreSpec) -> Answer | None:
        """Return what answers a query; windows of all keys are asked of window stores."""
        if isinstance(query, WindowRangeQuery) and query.key is None:
            return None
        return super().answer(query, spec)


SESSION = SessionKind()
