"""No store has a key None, whatever its serde would make of it. KIP-889: NullPointerException."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pystreams import (
    IsolationLevel,
    SerializationError,
    StoreEngine,
    ValueAndTimestamp,
    Window,
    Windowed,
)
from pystreams.serdes import JSON
from pystreams.stores.spec_builder import StoreSpecBuilder
from tests.contract.every_kind import KINDS
from tests.stores.support import Home

pytestmark = pytest.mark.contract

NO_SESSION = Windowed(None, Window(1, 2))
CALLS: dict[str, dict[str, Callable[[Any], object]]] = {
    "plain": {
        "put": lambda store: store.put(None, 1),
        "delete": lambda store: store.delete(None),
        "put_if_absent": lambda store: store.put_if_absent(None, 1),
        "put_all": lambda store: store.put_all([(None, 1)]),
        "get": lambda store: store.get(None),
    },
    "timestamped": {
        "put": lambda store: store.put(None, ValueAndTimestamp(1, 2)),
        "put_with_timestamp": lambda store: store.put_with_timestamp(None, 1, 2),
        "get": lambda store: store.get(None),
        "get_with_timestamp": lambda store: store.get_with_timestamp(None),
    },
    "window": {
        "put": lambda store: store.put(None, 1, 2),
        "fetch": lambda store: store.fetch(None, 2),
        "fetch many": lambda store: list(store.fetch(None, 0, 9)),
    },
    "timestamped window": {
        "put_with_timestamp": lambda store: store.put_with_timestamp(None, 1, 2, 2),
        "fetch_with_timestamp": lambda store: store.fetch_with_timestamp(None, 2),
    },
    "session": {
        "put": lambda store: store.put(NO_SESSION, 1),
        "remove": lambda store: store.remove(NO_SESSION),
        "fetch_session": lambda store: store.fetch_session(None, 1, 2),
        "find_sessions": lambda store: list(store.find_sessions(None, 0, 9)),
    },
    "versioned": {
        "put": lambda store: store.put(None, 1, 2),
        "delete": lambda store: store.delete(None, 2),
        "get": lambda store: store.get(None),
        "get as of": lambda store: store.get(None, 2),
        "get_range": lambda store: list(store.get_range(None, 1, 2)),
    },
}
READS = ("get", "fetch", "find")


@pytest.mark.parametrize(
    ("kind", "call"), [(kind, call) for kind, calls in CALLS.items() for call in calls]
)
def test_a_key_that_is_none_is_refused_though_its_serde_takes_it(
    kind: str, call: str, tmp_path: Path
) -> None:
    home = Home(tmp_path)
    spec = replace(KINDS[kind].builder.spec, engine=StoreEngine.IN_MEMORY, key_serde=JSON)
    store: Any = home.open_builder(StoreSpecBuilder(spec))

    with pytest.raises(SerializationError, match="state store 's' has no key None"):
        CALLS[kind][call](store)

    assert home.logged() == []
    assert store.approximate_num_uncommitted_bytes() == 0
    if call.startswith(READS) and "with_timestamp" not in call:
        with pytest.raises(SerializationError, match="has no key None"):
            CALLS[kind][call](store.read_only(IsolationLevel.READ_COMMITTED))
    store.close()


@pytest.mark.parametrize("kind", KINDS)
def test_flush_does_nothing_and_says_what_to_do_instead(kind: str, tmp_path: Path) -> None:
    """KIP-892: `StateStore.flush` is deprecated."""
    home = Home(tmp_path)
    spec = replace(KINDS[kind].builder.spec, engine=StoreEngine.IN_MEMORY)
    store: Any = home.open_builder(StoreSpecBuilder(spec))
    KINDS[kind].put(store, 1, 1)
    waiting = store.approximate_num_uncommitted_bytes()

    with pytest.deprecated_call(match=r"'s': flush\(\) does nothing; ask for a commit with"):
        store.flush()

    assert store.approximate_num_uncommitted_bytes() == waiting > 0
    store.close()
