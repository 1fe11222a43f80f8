"""The bytes of a store whose rows expire, and what becomes of those of another layout."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pystreams import IsolationLevel, StateStoreCorruptedError, StoreEngine, ValueAndTimestamp
from pystreams.stores.kinds.expiring.kind import expiring
from pystreams.stores.kinds.expiring.layout import INDEX, ROW, indexed_key, indexed_time
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
    assert store.changelog_record(b"a") == (b"a", LONG_5, 50, ())
    assert store.changelog_record(b"b") is None
    store.close()


@pytest.mark.parametrize("engine", StoreEngine)
def test_a_row_that_is_written_over_keeps_its_entry_until_that_is_due(
    engine: StoreEngine, tmp_path: Path
) -> None:
    """However often a row is read and written, the index does not grow."""
    store = Home(tmp_path).open(expiring(spec_of(engine, timestamped=True), TTL_MS))

    def entries() -> list[tuple[int, bytes]]:
        stored = store._buffer.range(INDEX, ROW)
        return [(indexed_time(entry), indexed_key(entry)) for entry, _ in stored]

    for offset, timestamp in enumerate(range(50, 151, 10)):
        store.get("a")
        store.put_with_timestamp("a", 1, timestamp)
        store.commit({CHANGELOG: offset})
    assert entries() == [(50, b"a")]

    store.put_with_timestamp("b", 2, 151)
    assert entries() == [(150, b"a"), (151, b"b")]
    store.close()


@pytest.mark.parametrize("engine", StoreEngine)
def test_rows_leave_in_the_order_of_their_last_timestamps(
    engine: StoreEngine, tmp_path: Path
) -> None:
    """Wherever their entries are: a's is before b's and c's until it is due."""
    store = Home(tmp_path).open(expiring(spec_of(engine, timestamped=True), TTL_MS))
    left: list[str] = []
    store.rows.on_expiry = lambda _: left.extend(key for key, _ in store.leave())
    for key, timestamp in [("a", 0), ("b", 10), ("c", 20), ("a", 15), ("b", 5)]:
        store.get(key)
        store.put_with_timestamp(key, 1, timestamp)
    store.commit({CHANGELOG: 0})

    store.put_with_timestamp("late", 1, 1000)
    assert left == ["b", "a", "c"]
    assert [key for key, _ in store.all()] == ["late"]
    assert [indexed_key(entry) for entry, _ in store._buffer.range(INDEX, ROW)] == [b"late"]
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

    with pytest.raises(StateStoreCorruptedError, match="made anew, or give the store another"):
        home.open(spec(ttl_ms=after))


def test_an_empty_store_may_be_either(tmp_path: Path) -> None:
    home = Home(tmp_path)
    home.open(spec(ttl_ms=None)).close()

    store = home.open(spec())
    store.put_with_timestamp("a", 5, 50)
    assert store.get("a") == ValueAndTimestamp(5, 50)
    store.close()
