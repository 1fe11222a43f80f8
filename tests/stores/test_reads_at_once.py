"""What aggregations of sessions and sliding windows read at once is what an iterator gives."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pystreams import StoreEngine, Window, Windowed
from pystreams.stores.contracts.spec import Retention
from pystreams.stores.kinds.session.kind import SESSION
from pystreams.stores.kinds.window.kind import WINDOW
from tests.stores.support import CHANGELOG, Home, spec_of
from tests.variants import first_of

SPAN_MS = 400
"""Longer than the retention, and many segments."""


@pytest.fixture(params=[StoreEngine.ROCKSDB, StoreEngine.IN_MEMORY])
def engine(request: pytest.FixtureRequest) -> StoreEngine:
    return StoreEngine(request.param)


@pytest.fixture(params=[False, True], ids=["by key", "by time"])
def retention(request: pytest.FixtureRequest) -> Retention:
    return Retention(200, 60, window_size_ms=10, time_ordered=request.param)


@pytest.fixture(params=[True, False], ids=["transactional", "written through"])
def transactional(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


def end_of_step(store: Any, chooser: random.Random) -> None:
    """Commit or roll back now and then."""
    if chooser.random() < 0.05:
        store.flush_cache()
        store.commit({CHANGELOG: 0})
    elif chooser.random() < 0.02:
        store.rollback()


@pytest.mark.parametrize("seed", first_of(*range(3)))
def test_sessions_near_a_time_are_those_that_a_search_iterates_over(
    engine: StoreEngine, retention: Retention, transactional: bool, seed: int, tmp_path: Path
) -> None:
    """Keys begin with each other, and deletions lie between what is there."""
    chooser = random.Random(seed)
    spec = spec_of(engine, kind=SESSION, retention=retention, transactional=transactional)
    store: Any = Home(tmp_path).open(spec)
    met = 0
    for step in range(400):
        key, start = (
            chooser.choice(["a", "ab", "a\0", ""]),
            chooser.randrange(SPAN_MS * step // 400 + 1),
        )
        session = Windowed(key, Window(start, start + chooser.randrange(30)))
        if chooser.random() < 0.7:
            store.put(session, step)
        else:
            store.remove(session)
        low, high = sorted(chooser.randrange(-20, SPAN_MS + 50) for _ in range(2))
        found = list(store.find_sessions(key, low, high))

        assert store.sessions_near(key, low, high) == found
        met += len(found)
        end_of_step(store, chooser)
    store.close()
    assert met > 1000


@pytest.mark.parametrize("seed", first_of(*range(3)))
def test_rows_latest_first_are_those_that_a_backward_fetch_iterates_over(
    engine: StoreEngine, retention: Retention, transactional: bool, seed: int, tmp_path: Path
) -> None:
    """Likewise; and what is written meanwhile does not disturb it."""
    chooser = random.Random(seed)
    spec = spec_of(
        engine, kind=WINDOW, retention=retention, transactional=transactional, timestamped=True
    )
    store: Any = Home(tmp_path).open(spec)
    met = 0
    for step in range(400):
        key, start = (
            chooser.choice(["a", "ab", "a\0", ""]),
            chooser.randrange(SPAN_MS * step // 400 + 1),
        )
        store.put_with_timestamp(key, step if chooser.random() < 0.7 else None, step, start)
        low, high = sorted(chooser.randrange(-20, SPAN_MS + 50) for _ in range(2))
        expected = list(store.backward_fetch(key, low, high))

        found = []
        for row in store.rows_latest_first(store.row_key(key), low, high):
            store.put_with_timestamp(key, step, step, row[0])
            found.append(row)
        assert found == expected
        met += len(found)
        end_of_step(store, chooser)
    store.close()
    assert met > 1000


@pytest.mark.parametrize("seed", first_of(*range(3)))
@pytest.mark.parametrize("duplicates", [False, True])
def test_values_near_a_time_are_those_that_a_fetch_iterates_over(
    engine: StoreEngine,
    retention: Retention,
    transactional: bool,
    seed: int,
    duplicates: bool,
    tmp_path: Path,
) -> None:
    """Of a store for joins, too, which keeps many values of one key and time."""
    chooser = random.Random(seed)
    kept = replace(retention, retain_duplicates=duplicates)
    spec = spec_of(engine, kind=WINDOW, retention=kept, transactional=transactional)
    store: Any = Home(tmp_path).open(spec)
    met = 0
    for step in range(600):
        now = SPAN_MS * step // 600
        for key in chooser.choices(["a", "ab", "a\0", ""], k=3):
            start = chooser.choice([now, chooser.randrange(now + 1)])
            store.put(key, step if chooser.random() < 0.8 else None, start)
        low = chooser.choice([now - 10, chooser.randrange(-20, SPAN_MS)])
        high = low + chooser.choice([5, 100])

        found = store.values_near("a", low, high)

        assert found == list(store.fetch("a", low, high))
        met += len(found)
        end_of_step(store, chooser)
    store.close()
    assert met > 1000


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("entries", [0, 1, 7, 8, 9, 30])
def test_a_stretch_of_a_segment_is_read_whole_however_much_it_holds(
    entries: int, reverse: bool, tmp_path: Path
) -> None:
    spec = spec_of(
        StoreEngine.ROCKSDB, kind=WINDOW, retention=Retention(10_000, 5_000, window_size_ms=10)
    )
    store: Any = Home(tmp_path).open(spec)
    for start in range(entries):
        store.put("k", start, start)
    store.put("l", 0, 0)
    store.flush_cache()
    store.commit({CHANGELOG: 0})

    found = store.backward_fetch("k", 0, 100) if reverse else store.fetch("k", 0, 100)

    expected = [(start, start) for start in range(entries)]
    assert list(found) == (expected[::-1] if reverse else expected)
    store.close()
