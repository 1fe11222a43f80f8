"""A versioned store given as changelog records: restored from them it goes on as the original."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pystreams import StoreEngine
from tests.stores.kinds.versioned_support import VersionedHome, versioned_spec

RETENTION_MS = 20
SEGMENT_INTERVAL_MS = 7
LAST_MS = 4 * RETENTION_MS
KEYS = ["", "k", "kk"]
Put = tuple[str, str | None, int]
"""(key, value, timestamp in ms)."""

puts = st.lists(
    st.tuples(
        st.sampled_from(KEYS),
        st.none() | st.sampled_from(["", "x", "yy"]),
        st.integers(0, LAST_MS),
    ),
    max_size=20,
)


def opened(directory: Path, engine: StoreEngine) -> VersionedHome:
    return VersionedHome(directory, versioned_spec(engine, RETENTION_MS, SEGMENT_INTERVAL_MS))


def dumped(shop: VersionedHome) -> list[Put]:
    return [
        (key.decode(), None if value is None else value.decode(), timestamp)
        for key, value, timestamp, _ in shop.store.changelog_records()
    ]


def answers(shop: VersionedHome) -> dict[tuple[Any, ...], Any]:
    """Return what a store answers to every question about every time."""
    found: dict[tuple[Any, ...], Any] = {}
    for key in KEYS:
        found[key, "latest"] = shop.get(key)
        for time in range(LAST_MS + 2):
            found[key, "as of", time] = shop.get(key, time)
            found[key, "from", time] = shop.versions(key, time, None)
            found[key, "to", time] = shop.versions(key, None, time)
    return found


@pytest.mark.property
@pytest.mark.parametrize("engine", list(StoreEngine))
@settings(deadline=None, max_examples=60)
@given(before=puts)
@example(before=[("k", "x", 1), ("k", None, 2), ("k", None, 9), ("k", "yy", 5)])
def test_its_versions_are_those_that_reads_find(engine: StoreEngine, before: list[Put]) -> None:
    with tempfile.TemporaryDirectory() as home:
        shop = opened(Path(home), engine)
        for put in before:
            shop.put(*put)
        shop.commit()

        read = [
            (key.encode(), found.value.encode(), found.timestamp, found.valid_to)
            for key in KEYS
            for found in shop.versions(key)
        ]
        assert list(shop.store.stored_versions()) == read
        shop.store.close()


@pytest.mark.property
@pytest.mark.parametrize("engine", list(StoreEngine))
@settings(deadline=None, max_examples=60)
@given(before=puts, later=puts, batch=st.integers(1, 7))
@example(before=[("k", None, 5)], later=[("k", "x", 3)], batch=1)
@example(before=[("k", "x", 1), ("k", None, 2), ("k", None, 9)], later=[("k", "yy", 5)], batch=9)
def test_a_restored_dump_takes_late_puts_and_answers_as_the_original(
    engine: StoreEngine, before: list[Put], later: list[Put], batch: int
) -> None:
    with tempfile.TemporaryDirectory() as home:
        original = opened(Path(home, "original"), engine)
        for put in before:
            original.put(*put)
        original.commit()
        copy = opened(Path(home, "copy"), engine)
        records = dumped(original)
        for first in range(0, len(records), batch):
            copy.restore(*records[first : first + batch])

        assert answers(copy) == answers(original)
        assert [copy.put(*put) for put in later] == [original.put(*put) for put in later]
        assert answers(copy) == answers(original)
        original.store.close()
        copy.store.close()


@pytest.mark.parametrize("engine", list(StoreEngine))
def test_a_key_of_which_there_is_only_a_deletion_is_dumped(
    engine: StoreEngine, tmp_path: Path
) -> None:
    shop = opened(tmp_path, engine)
    shop.put("k", "x", 5)
    shop.put("kk", None, 6)
    shop.commit()

    assert dumped(shop) == [("k", "x", 5), ("kk", None, 6)]
    shop.store.close()


@pytest.mark.parametrize("engine", list(StoreEngine))
def test_deletions_of_what_is_deleted_are_dumped(engine: StoreEngine, tmp_path: Path) -> None:
    """They end what a late put brings: without them it would be there for ever."""
    shop = opened(tmp_path, engine)
    history: list[Put] = [("k", "x", 1), ("k", None, 2), ("k", None, 3), ("k", None, 15)]
    for put in history:
        shop.put(*put)
    shop.commit()

    assert dumped(shop) == history
    shop.store.close()
