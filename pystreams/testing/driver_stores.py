"""The stores of a topology under test, each asked for as what it is.

The store of a ready aggregation is given as queries see it: with results, for reading.

Source: Kafka Streams' `TopologyTestDriver.getKeyValueStore` and its siblings. Differs from Kafka: a
store that does not exist, or is of another kind, is refused by name; there it is null.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from pystreams.config.guarantee import IsolationLevel
from pystreams.errors import TopologyError
from pystreams.stores.contracts.state_store import StateStore
from pystreams.stores.kinds.key_value.plain import TypedKeyValueStore
from pystreams.stores.kinds.key_value.timestamped import TypedTimestampedKeyValueStore
from pystreams.stores.kinds.session.store import TypedSessionStore
from pystreams.stores.kinds.versioned.store import TypedVersionedKeyValueStore
from pystreams.stores.kinds.window.store import TypedTimestampedWindowStore, TypedWindowStore
from pystreams.testing.plain_values import PlainValues, PlainWindows

S = TypeVar("S")

_KINDS: Mapping[type[Any], str] = {
    TypedKeyValueStore: "key_value_store",
    TypedTimestampedKeyValueStore: "timestamped_key_value_store",
    TypedVersionedKeyValueStore: "versioned_key_value_store",
    TypedWindowStore: "window_store",
    TypedTimestampedWindowStore: "timestamped_window_store",
    TypedSessionStore: "session_store",
}
"""The kinds of stores here; the driver's method that returns one is `get_<kind>`."""


def named(stores: Mapping[str, StateStore], name: str) -> Any:
    """Return a store.

    Raises:
        TopologyError: There is none of that name.
    """
    store = stores.get(name)
    if store is None:
        raise TopologyError(f"there is no state store {name!r}; there are: {sorted(stores)}")
    return store


def of_kind(stores: Mapping[str, StateStore], name: str, kind: type[S]) -> S:
    """Return a store of a kind.

    Raises:
        TopologyError: There is none of that name, or it is of another kind.
    """
    store = named(stores, name)
    if not isinstance(store, kind):
        raise _other_kind(name, store, _KINDS[kind])
    shown: S = _shown(store)
    return shown


def plain_values(stores: Mapping[str, StateStore], name: str) -> PlainValues:
    """Return a key-value store, plain or timestamped, ours or a user's own, as plain values.

    Raises:
        TopologyError: There is none of that name, or it is of another kind.
    """
    store = named(stores, name)
    timestamped = isinstance(store, TypedTimestampedKeyValueStore)
    if not timestamped and not isinstance(store, TypedKeyValueStore) and _kind_of(store):
        raise _other_kind(name, store, _KINDS[TypedKeyValueStore])
    return PlainValues(_shown(store), timestamped=timestamped)


def plain_windows(stores: Mapping[str, StateStore], name: str) -> PlainWindows:
    """Return a window store, plain or timestamped, as plain values.

    Raises:
        TopologyError: There is none of that name, or it is of another kind.
    """
    store = named(stores, name)
    timestamped = isinstance(store, TypedTimestampedWindowStore)
    if not timestamped and not isinstance(store, TypedWindowStore):
        raise _other_kind(name, store, _KINDS[TypedWindowStore])
    return PlainWindows(_shown(store), timestamped=timestamped)


def _shown(store: Any) -> Any:
    """Return a store as queries see it: of a ready aggregation the results, for reading only."""
    if getattr(store, "keeps_states", False):
        return store.read_only(IsolationLevel.READ_UNCOMMITTED)
    return store


def _kind_of(store: object) -> str | None:
    """Return the kind of a store of pystreams; None for a user's own."""
    return next((kind for made, kind in _KINDS.items() if isinstance(store, made)), None)


def _other_kind(name: str, store: object, wanted: str) -> TopologyError:
    kind = _kind_of(store)
    found = f"a {_words(kind)}" if kind else f"a {type(store).__name__}"
    method = f"get_{kind}" if kind else "get_state_store"
    return TopologyError(f"state store {name!r} is {found}, no {_words(wanted)}: use {method}")


def _words(kind: str) -> str:
    return kind.replace("key_value", "key-value").replace("_", " ")
