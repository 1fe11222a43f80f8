"""The bytes of a store whose rows expire, and what becomes of those of another layout."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pystreams import IsolationLevel, StateStoreCorruptedError, StoreEngine, ValueAndTimestamp
from pystreams.stores.kinds.expiring.kind import expiring
from tests.stores.support import CHANGELOG, Home, spec_of

TTL_MS = 100
LONG_5 = bytes(7) + b"\x05"


def spec(*, timestamped: bool = True, ttl_ms: int | None = TTL_MS, **changes: Any) -> Any:
    return expiring(spec_of(timestamped=timestamped, **changes), ttl_ms)


@pytest.mark.parametrize("timestamped", [True, False])
def test_rows_and_their_index_have_these_bytes(tmp_path: Path, *, timestamped: bool) -> None:
    home = Home(tmp_path)
    store = home.open(spec(timestamped=timestamped))
    home.record.timestamp = 50
    store.put("a", ValueAndTimestamp(5, 50) if timestamped else 5)
    store.commit({CHANGELOG: 0})

    assert dict(store._buffer.engine_range(None, None)) == {
        b"\x00" + bytes(7) + b"\x32" + b"a": b"",
        b"\x01" + b"a": bytes(7) + b"\x32" + LONG_5,
    }
    assert home.logged() == [(b"a", LONG_5, 50)]
    assert list(store.changelog_records()) == [(b"a", LONG_5, 50, ())]
    store.close()


@pytest.mark.parametrize("engine", StoreEngine)
def test_readers_see_no_row_that_is_over_by_what_they_see(
    engine: StoreEngine, tmp_path: Path
) -> None:
    home = Home(tmp_path)
    store = home.open(expiring(spec_of(engine, timestamped=True), TTL_MS))
    store.rows.on_expiry = lambda _: None  # Nothing leaves: only reads hide what is over.
    store.put_with_timestamp("a", 1, 0)
    store.commit({CHANGELOG: 0})
    store.put_with_timestamp("b", 2, 101)

    seen = {level: [key for key, _ in store.read_only(level).all()] for level in IsolationLevel}
    assert seen == {
        IsolationLevel.READ_COMMITTED: ["a"],
        IsolationLevel.READ_UNCOMMITTED: ["b"],
    }
    assert store.get("a") is None
    store.commit({CHANGELOG: 1})
    committed = store.read_only(IsolationLevel.READ_COMMITTED)
    assert committed.get("a") is None
    assert [key for key, _ in committed.all()] == ["b"]
    store.close()


@pytest.mark.parametrize(("before", "after"), [(None, TTL_MS), (TTL_MS, None)])
def test_a_store_of_the_other_layout_is_refused_with_the_cure(
    before: int | None, after: int | None, tmp_path: Path
) -> None:
    """The runtime makes it anew from its changelog, if there is one."""
    home = Home(tmp_path)
    store = home.open(spec(ttl_ms=before))
    store.put_with_timestamp("a", 5, 50)
    store.commit({CHANGELOG: 0})
    store.close()

    with pytest.raises(StateStoreCorruptedError, match="delete its directory, or give the store"):
        home.open(spec(ttl_ms=after))


def test_an_empty_store_may_be_either(tmp_path: Path) -> None:
    home = Home(tmp_path)
    home.open(spec(ttl_ms=None)).close()

    store = home.open(spec())
    store.put_with_timestamp("a", 5, 50)
    assert store.get("a") == ValueAndTimestamp(5, 50)
    store.close()
