"""Windows later than all that is committed are read without the engine, and none is missed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pystreams import Stores, Window, Windowed, serdes
from pystreams.stores.kinds.window.keys import window_key
from pystreams.stores.time_segments.segments import segment_prefix
from tests.stores.counting import UncompactedEngine, Walked, walked
from tests.stores.support import CHANGELOG, Home

__all__ = ["walked"]

RETENTION_MS = 100_000
MANY = 250


class Windows:
    """A window store over an engine that outlives it."""

    def __init__(self, directory: Path, walked: Walked, *, transactional: bool = True) -> None:
        self.engine = UncompactedEngine(walked)
        self._home = Home(directory)
        supplier = Stores.persistent_window_store("s", RETENTION_MS, window_size_ms=10)
        builder: Any = Stores.window_store_builder(supplier, serdes.STRING, serdes.STRING)
        if not transactional:
            builder = builder.with_transactional_disabled()
        self._builder = replace(
            builder, spec=replace(builder.spec, engine_factory=lambda _: self.engine)
        )
        self.reopen()

    def reopen(self) -> None:
        self.store: Any = self._home.open_builder(self._builder)

    def put(self, *starts: int) -> None:
        for start in starts:
            self.store.put("k", str(start), start)

    def commit(self) -> None:
        self.store.flush_cache()
        self.store.commit({CHANGELOG: 0})

    def starts(self, first: int, last: int) -> list[int]:
        return [start for start, _ in self.store.fetch("k", first, last)]


def test_the_engine_is_asked_only_for_times_that_are_committed(
    walked: Walked, tmp_path: Path
) -> None:
    windows = Windows(tmp_path, walked)
    windows.put(100)
    windows.commit()
    windows.put(200)
    walked.forget()

    assert windows.starts(150, 250) == [200]
    assert walked.iterators == 0
    assert windows.starts(100, 250) == [100, 200]
    assert walked.iterators == 1


def test_what_is_committed_while_it_is_read_is_found(walked: Walked, tmp_path: Path) -> None:
    windows = Windows(tmp_path, walked)
    windows.put(200, 250)
    reading = windows.store.fetch("k", 150, 300)
    first = next(reading)
    windows.commit()
    windows.put(300)

    assert [first, *reading] == [(200, "200"), (250, "250"), (300, "300")]
    assert windows.starts(150, 300) == [200, 250, 300]


def test_a_rollback_leaves_what_is_committed(walked: Walked, tmp_path: Path) -> None:
    windows = Windows(tmp_path, walked)
    windows.put(100, 200)
    windows.commit()
    windows.put(900)
    windows.store.rollback()

    assert windows.starts(150, 950) == [200]


@pytest.mark.parametrize("committed_before", [True, False])
def test_a_restarted_store_finds_windows_later_than_the_time_it_knows(
    committed_before: bool, walked: Walked, tmp_path: Path
) -> None:
    """As an earlier version left them, which had no time beside the data."""
    windows = Windows(tmp_path, walked)
    if committed_before:
        windows.put(100)
        windows.commit()
    windows.store.close()
    windows.engine.write({segment_prefix(0) + window_key(b"k", 900): b"900"}, {})
    windows.reopen()

    assert windows.starts(800, 1000) == [900]
    windows.put(300)
    windows.commit()
    assert windows.starts(800, 1000) == [900]


@pytest.mark.parametrize("first", [0, 100])
def test_a_read_that_finds_nothing_later_hides_nothing_that_is_committed(
    first: int, walked: Walked, tmp_path: Path
) -> None:
    """Of the same segment, which more windows have left than a read walks over twice."""
    windows = Windows(tmp_path, walked)
    windows.put(first)
    windows.commit()
    for value in ("v", None):
        for number in range(MANY):
            windows.store.put(f"k{number:03}", value, 200)

    assert list(windows.store.fetch_all(150, 250)) == []
    assert [value for _, value in windows.store.all()] == [str(first)]
    assert windows.starts(0, 250) == [first]
    windows.commit()
    assert [value for _, value in windows.store.all()] == [str(first)]


def test_sessions_that_went_hide_no_earlier_one_that_is_committed(tmp_path: Path) -> None:
    supplier = Stores.persistent_session_store("s", RETENTION_MS)
    builder: Any = Stores.session_store_builder(supplier, serdes.STRING, serdes.STRING)
    sessions: Any = Home(tmp_path).open_builder(builder)
    sessions.put(Windowed("k", Window(100, 110)), "v")
    sessions.commit({CHANGELOG: 0})
    later = [Windowed(f"k{number:03}", Window(200, 200)) for number in range(MANY)]
    for session in later:
        sessions.put(session, "w")
    for session in later:
        sessions.remove(session)

    assert list(sessions.find_sessions_range(None, None, 150, 250)) == []
    assert [value for _, value in sessions.fetch("k")] == ["v"]
    sessions.close()


def test_what_is_written_through_is_found_before_the_commit(walked: Walked, tmp_path: Path) -> None:
    windows = Windows(tmp_path, walked, transactional=False)
    windows.put(*range(MANY))

    assert windows.starts(0, MANY) == list(range(MANY))
