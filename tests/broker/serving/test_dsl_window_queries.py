"""Stores that the DSL makes for windows, sessions and joins, read and queried while it runs."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pystreams import (
    IsolationLevel,
    KafkaStreams,
    KeyQuery,
    KTable,
    Query,
    SessionWindows,
    SlidingWindows,
    StoreNotAvailableError,
    StreamsBuilder,
    TimeWindows,
    Topology,
    ValueAndTimestamp,
    Window,
    Windowed,
    WindowKeyQuery,
    WindowRangeQuery,
)
from pystreams.broker import DevelopmentBroker
from pystreams.serdes import STRING
from tests.broker.conftest import CreateTopic
from tests.broker.waiting import DEADLINE_S, wait_until
from tests.broker.writing import writer_of

FIRST_MS = 1_000_000
SIZE_MS = 10
COMMITTED = IsolationLevel.READ_COMMITTED
KEPT: Any = {"retention_ms": 60_000}
TEXT: Any = {"key_serde": STRING, "value_serde": STRING}


def topology(events: str, people: str, places: str) -> Topology:
    builder = StreamsBuilder()
    grouped = builder.stream(events, **TEXT).group_by_key()
    grouped.windowed_by(TimeWindows.of_size_with_no_grace(SIZE_MS)).count(name="windows", **KEPT)
    grouped.windowed_by(SlidingWindows.of_time_difference_with_no_grace(SIZE_MS)).count(
        name="sliding", **KEPT
    )
    grouped.windowed_by(SessionWindows.of_inactivity_gap_with_no_grace(SIZE_MS)).count(
        name="sessions", **KEPT
    )
    left: KTable[str, str] = builder.table(people, **TEXT)
    right: KTable[str, str] = builder.table(places, **TEXT)

    def both(value: str, other: str) -> str:
        return f"{value}+{other}"

    left.join(right, both, name="by-key", **TEXT)
    left.join(right, both, foreign_key=lambda value: value, name="by-foreign-key", **TEXT)
    return builder.build()


@pytest.fixture
def running(
    broker: DevelopmentBroker, create_topic: CreateTopic, unique_name: str, tmp_path: Path
) -> Iterator[KafkaStreams]:
    """An application that has met some records and commits when it is stopped."""
    events, people, places = (create_topic(stem) for stem in ("events", "people", "places"))
    settings = {
        "application.id": unique_name,
        "bootstrap.servers": broker.bootstrap_servers,
        "state.dir": str(tmp_path),
        "processing.guarantee": "exactly_once_v2",
        "commit.interval.ms": 100,
    }
    writer = writer_of(broker.bootstrap_servers, events, people, places)
    for time in (0, 3, 12, 40):
        writer.write(events, "x", "a", timestamp=FIRST_MS + time)
    writer.write(people, "p", "a", timestamp=FIRST_MS)
    writer.write(places, "here", "a", timestamp=FIRST_MS)
    writer.write(places, "there", "p", timestamp=FIRST_MS + 1)
    writer.flush()
    streams = KafkaStreams(topology(events, people, places), settings)
    streams.start()
    try:
        yield streams
    finally:
        streams.close(DEADLINE_S)


def answer(streams: KafkaStreams, store: str, query: Query[Any]) -> list[Any]:
    """Return what is committed, as soon as the store answers."""
    return list(streams.query(query, store=store, isolation_level=COMMITTED).only_value() or ())


def counted(*counts: tuple[int, int, int]) -> list[tuple[int, ValueAndTimestamp[int]]]:
    """Return what a key's windows hold: start, count and time of the last record."""
    return [(FIRST_MS + start, ValueAndTimestamp(n, FIRST_MS + time)) for start, n, time in counts]


def test_stores_of_windows_sessions_and_joins_answer_reads_and_queries(
    running: KafkaStreams,
) -> None:
    """All at one level of isolation: what is committed is there for a reader of either."""
    of_a = WindowKeyQuery("a", 0, FIRST_MS + 100)
    # The stores of a task are committed one after the other.
    expected = {"windows": 3, "sliding": 6, "by-key": 1, "by-foreign-key": 1}

    def found() -> dict[str, int]:
        return {store: rows(running, store) for store in expected}

    wait_until(lambda: found() == expected, "all rows", told=lambda: f"{running.error} {found()}")
    of_session = WindowRangeQuery(key="a")
    wait_until(lambda: len(answer(running, "sessions", of_session)) == 2, "both sessions")

    windows = counted((0, 2, 3), (10, 1, 12), (40, 1, 40))
    assert answer(running, "windows", of_a) == windows
    for level in IsolationLevel:
        store = running.store("windows", level)
        assert list(store.fetch("a", 0, FIRST_MS + 100)) == windows
    in_time = WindowRangeQuery(time_from=FIRST_MS + 10, time_to=FIRST_MS + 20)
    start = FIRST_MS + 10
    assert answer(running, "windows", in_time) == [
        (Windowed("a", Window(start, start + SIZE_MS)), ValueAndTimestamp(1, FIRST_MS + 12))
    ]
    sliding = dict(answer(running, "sliding", of_a))
    assert sliding[FIRST_MS - 7] == ValueAndTimestamp(2, FIRST_MS + 3)
    sessions = [(0, 12, 3), (40, 40, 1)]
    assert answer(running, "sessions", of_session) == [
        (Windowed("a", Window(FIRST_MS + start, FIRST_MS + end)), n) for start, end, n in sessions
    ]
    assert running.store("sessions").fetch_session("a", FIRST_MS, FIRST_MS + 12) == 3
    for store, row in {"by-key": "p+here", "by-foreign-key": "p+there"}.items():
        by_key = running.query(KeyQuery("a"), store=store, isolation_level=COMMITTED)
        assert by_key.only_value() == row


def rows(streams: KafkaStreams, store: str) -> int:
    """Return how many rows of a store are committed; none before it is available."""
    with contextlib.suppress(StoreNotAvailableError):
        return sum(1 for _ in streams.store(store, COMMITTED).all())
    return 0
