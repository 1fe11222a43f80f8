"""Stores of lists: order, deletions under an open iterator, transactions, bytes, restore.

The cases of Kafka's ListValueStoreTest are among them, on disk and in memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pystreams import SerializationError, StoreEngine, StoreNotAvailableError, TopologyError, serdes
from pystreams.stores.kinds.list.kind import LIST
from pystreams.stores.kinds.list.store import ListValueStore, values_of, with_value
from tests.stores.support import CHANGELOG, Home, Message, built, spec_of

Store = ListValueStore[str, str]


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


@pytest.fixture(params=list(StoreEngine), ids=[engine.value for engine in StoreEngine])
def engine(request: pytest.FixtureRequest) -> StoreEngine:
    chosen: StoreEngine = request.param
    return chosen


def opened(
    home: Home,
    engine: StoreEngine = StoreEngine.ROCKSDB,
    *,
    at_stream_time: int = -1,
    **changes: Any,
) -> Store:
    spec = spec_of(engine, kind=LIST, value_serde=serdes.STRING, **changes)
    store: Store = built(spec)
    store.init(home.context(stream_time=lambda: at_stream_time))
    return store


@pytest.fixture
def store(home: Home, engine: StoreEngine) -> Iterator[Store]:
    opened_store = opened(home, engine)
    yield opened_store
    opened_store.close()


def content(store: Store) -> dict[str, list[str]]:
    return {key: list(values) for key, values in store.all()}


def test_values_of_a_key_come_in_the_order_they_were_put(store: Store) -> None:
    for key, value in (("b", "1"), ("a", "2"), ("b", "3"), ("b", "3")):
        store.put(key, value)

    assert list(content(store).items()) == [("a", ["2"]), ("b", ["1", "3", "3"])]


def test_deleted_keys_are_gone_with_all_their_values(store: Store) -> None:
    for key in "aabc":
        store.put(key, "x")
    store.delete("a")
    store.discard("c")
    store.discard("never there")

    assert content(store) == {"b": ["x"]}


def test_a_key_that_was_deleted_begins_anew(store: Store) -> None:
    store.put("a", "old")
    store.delete("a")
    store.put("a", "new")

    assert content(store) == {"a": ["new"]}


@pytest.mark.parametrize("committed", [False, True])
def test_keys_are_deleted_while_an_iterator_runs_over_them(store: Store, committed: bool) -> None:
    """KAFKA-20749: what a left or outer join does in one transaction."""
    for number in range(100):
        store.put(f"k{number:02}", f"v{number}")
    if committed:
        store.commit({CHANGELOG: 99})
    for number in range(0, 100, 3):
        store.put(f"k{number:02}", "again")

    seen = {}
    for key, values in store.all():
        seen[key] = list(values)
        if key < "k60":
            store.delete(key)

    assert len(seen) == 100
    assert seen["k03"] == ["v3", "again"]
    assert list(content(store)) == [f"k{number}" for number in range(60, 100)]
    store.commit({CHANGELOG: 300})
    assert list(content(store)) == [f"k{number}" for number in range(60, 100)]


def test_offsets_never_show_among_the_lists(store: Store) -> None:
    """KAFKA-20749: an iterator gave out the key of an offset, which the join could not read."""
    store.put("a", "x")
    store.commit({CHANGELOG: 7})
    store.put("b", "y")

    assert content(store) == {"a": ["x"], "b": ["y"]}
    assert store.committed_offset(CHANGELOG) == 7


def test_a_closed_iterator_gives_nothing_more(store: Store) -> None:
    store.put("a", "x")
    store.put("b", "y")
    entries = store.all()
    next(entries)
    entries.close()

    assert list(entries) == []


def test_rollback_takes_lists_back_to_the_last_commit(store: Store) -> None:
    store.put("a", "kept")
    store.put("b", "kept")
    store.commit({CHANGELOG: 1})
    store.put("a", "lost")
    store.delete("b")
    store.put("c", "lost")
    store.rollback()

    assert content(store) == {"a": ["kept"], "b": ["kept"]}


def test_the_whole_list_is_logged_at_the_time_of_the_record(home: Home) -> None:
    store = opened(home)
    home.record.timestamp = 5
    store.put("k", "a")
    home.record.timestamp = 7
    store.put("k", "bc")
    home.record.timestamp = 9
    store.discard("k")
    store.discard("k")
    store.delete("k")
    store.close()

    assert [(key, value and value.hex(), timestamp) for key, value, timestamp in home.logged()] == [
        (b"k", "01000000010000000161", 5),
        (b"k", "01000000020000000161000000026263", 7),
        (b"k", None, 9),
        (b"k", None, 9),
    ]


def test_empty_values_are_values() -> None:
    stored = with_value(with_value(with_value(None, b""), b"x"), b"")

    assert list(values_of(stored)) == [b"", b"x", b""]


def test_restored_lists_are_those_that_were_logged(home: Home) -> None:
    store = opened(home)
    for key, value in (("a", "1"), ("b", "2"), ("a", "3")):
        store.put(key, value)
    store.delete("b")
    store.destroy()
    records = home.logged()
    store.init(home.context())
    store.restore([Message(key, value, number) for number, (key, value, _) in enumerate(records)])

    assert content(store) == {"a": ["1", "3"]}
    assert store.committed_offset(CHANGELOG) == 3
    store.close()


def test_changelog_records_of_a_dump_restore_the_lists(home: Home) -> None:
    store = opened(home, at_stream_time=50)
    store.put("a", "1")
    store.put("a", "2")
    store.commit({CHANGELOG: 1})

    assert list(store.changelog_records()) == [
        (b"a", with_value(with_value(None, b"1"), b"2"), 50, ())
    ]
    store.close()


def test_a_store_that_writes_through_keeps_lists_too(home: Home) -> None:
    store = opened(home, transactional=False)
    for number in range(250):
        store.put("k", str(number))
        store.put(f"k{number}", "x")
    for key, _ in store.all():
        if key != "k":
            store.delete(key)

    assert content(store) == {"k": [str(number) for number in range(250)]}
    assert not store.transactional
    store.close()


def test_a_closed_store_refuses_writes_and_reads(home: Home) -> None:
    store = opened(home)
    store.close()

    with pytest.raises(StoreNotAvailableError):
        store.put("a", "x")
    with pytest.raises(StoreNotAvailableError):
        list(store.all())


def test_values_that_do_not_fit_are_refused_by_name(store: Store) -> None:
    wrong: Any = 7

    with pytest.raises(SerializationError, match="can't serialize the value"):
        store.put("a", wrong)


def test_bytes_that_are_no_value_are_refused_by_the_stores_name(home: Home) -> None:
    store = opened(home)
    store.restore([Message(b"k", with_value(None, b"\xff"))])

    with pytest.raises(SerializationError, match="state store 's' holds bytes"):
        content(store)
    store.close()


def test_a_store_without_serdes_is_refused(home: Home) -> None:
    with pytest.raises(TopologyError, match="state store 's' has no key serde"):
        opened(home, key_serde=None)
