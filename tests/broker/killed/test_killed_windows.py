"""SIGKILL at seeded random moments over windows, sessions, final results and a suppression.

In the end each final result is there once for a read_committed reader, equal to a plain model, and
the last change of each window and session is what the model has.

`pytest -m sweep tests/broker/killed` kills 20 times, at moments of a new seed each time. The seed
is printed; `KILL_SEED=... pytest ...` draws the same moments again.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import ClassVar

import pytest
from confluent_kafka.admin import AdminClient

from pystreams.broker import DevelopmentBroker
from pystreams.kernel.clock import SystemClock
from tests.broker.application import Running
from tests.broker.exactly_once.killing import moments, seeded_draws
from tests.broker.killed import windowed_app
from tests.broker.killed.arena import Arena
from tests.broker.killed.timed_feed import END_KEY, PARTITIONS, TimedFeed
from tests.broker.killed.windowed_app import ADVANCE_MS, FINAL, UPDATED
from tests.broker.killed.windows_model import Row, WindowsModel
from tests.broker.reading import (
    long,
    read_all,
)

KILLS = 2
RECORDS_PER_S = 500
CI_SEED = 16
BEFORE_NOW_MS = 3_600_000
"""The broker deletes what it finds too old, and refuses what is too far ahead of its clock."""
END_AFTER_MS = 60_000
"""How long after the last record's time the end comes, which closes all windows."""
_ALL_READ_S = 300.0
"""The results of many kills are some hundred thousand, and are read again and again."""

Settings = dict[str, object]
CACHED: Settings = {}
"""Record caches, and final results once a second, as by default."""
AT_ONCE: Settings = {"statestore.cache.max.bytes": 0, "window.emit.interval.ms": 0}


class WindowsArena(Arena):
    """One windowed application with topics and a directory of its own."""

    app: ClassVar = windowed_app
    topics: ClassVar = {"in": PARTITIONS, **dict.fromkeys(UPDATED + FINAL, 1)}
    output: ClassVar = "hopping"

    def results(self, result: str) -> list[tuple[Row, int | None]]:
        """Return what a read_committed reader finds, but for what only ends the windows."""
        found = []
        for message in read_all(self.servers, f"{self.name}-{result}"):
            key, start, end = (message.key() or b"").decode().rsplit(" ", 2)
            if key != END_KEY:
                value = message.value()
                row = (key, int(start), int(end))
                found.append((row, None if value is None else long(value)))
        return found


@pytest.fixture
def arena(
    broker: DevelopmentBroker, admin: AdminClient, unique_name: str, tmp_path: Path
) -> WindowsArena:
    return WindowsArena.made(admin, broker.bootstrap_servers, unique_name, tmp_path)


many = [pytest.mark.sweep, pytest.mark.timeout(900)]


@pytest.mark.parametrize(
    ("guarantee", "settings", "kills"),
    [
        pytest.param("exactly_once_v2", CACHED, KILLS, id="v2-cached-few"),
        pytest.param("exactly_once_v2", CACHED, 20, id="v2-cached", marks=many),
        pytest.param("exactly_once", AT_ONCE, 20, id="v1-at-once", marks=many),
    ],
)
def test_killed_application_sends_each_final_result_once_and_ends_with_each_window_of_a_model(
    arena: WindowsArena, guarantee: str, settings: Settings, kills: int
) -> None:
    began = time.monotonic()
    draw = seeded_draws(CI_SEED if kills == KILLS else None)
    first_ms = (SystemClock().now_ms() - BEFORE_NOW_MS) // ADVANCE_MS * ADVANCE_MS
    feed = TimedFeed(
        arena.servers,
        f"{arena.name}-in",
        first_ms,
        draw.getrandbits(32),
        records_per_s=RECORDS_PER_S,
    )
    with arena.application(guarantee, settings) as application:
        with feed:
            for moment in moments(kills, draw):
                print(moment)
                running = application.start()
                moment.wait(running, arena.written)
                running.kill()
        last = application.start()
        feed.end(END_AFTER_MS)
        models = [WindowsModel.of(records) for records in feed.fed.values()]
        wanted = final_results(models)
        wait_for_final_results(arena, feed, wanted, last)
        last.stop()

    finals = check_final_results(arena, wanted)
    updates = check_updates(arena, models, cached=settings is CACHED)
    print(
        f"{kills} kills, {sum(map(len, feed.fed.values()))} records, {finals} final results, "
        f"{updates} updates, {sum(model.merges for model in models)} merges, "
        f"{sum(model.late for model in models)} late: {time.monotonic() - began:.1f} s"
    )


def wait_for_final_results(
    arena: WindowsArena, feed: TimedFeed, wanted: Mapping[str, Mapping[Row, int]], running: Running
) -> None:
    """Wait until as many came as there are; each end lets go of what waits for the clock."""

    def complete() -> bool:
        feed.end(END_AFTER_MS)
        return all(len(arena.results(result)) >= len(wanted[result]) for result in FINAL)

    running.wait_until(complete, "all final results", deadline_s=_ALL_READ_S)


def final_results(models: Sequence[WindowsModel]) -> dict[str, dict[Row, int]]:
    """Return what each output of final results must hold."""
    windows = merged(model.closed_windows() for model in models)
    return {
        "final": windows,
        "suppressed": windows,
        "final-sliding": merged(model.closed_sliding() for model in models),
        "final-sessions": merged(model.closed_sessions() for model in models),
    }


def check_final_results(arena: WindowsArena, wanted: Mapping[str, Mapping[Row, int]]) -> int:
    """See that each is there once, as in the model; return how many there are."""
    for result in FINAL:
        found = arena.results(result)
        assert Counter(row for row, _ in found) == Counter(wanted[result].keys()), result
        assert dict(found) == wanted[result], result
    return sum(map(len, wanted.values()))


def check_updates(arena: WindowsArena, models: Sequence[WindowsModel], *, cached: bool) -> int:
    """See that the last of each window is the model's; return how many there are."""
    counts = merged(model.counts for model in models)
    wanted = {
        "hopping": counts,
        "sliding": merged(model.sliding() for model in models),
        "sessions": merged(model.sessions for model in models),
    }
    found = {result: arena.results(result) for result in UPDATED}
    for result in UPDATED:
        assert last_of(found[result]) == wanted[result], result
    if not cached:
        assert Counter(found["hopping"]) == Counter(
            (row, number) for row, n in counts.items() for number in range(1, n + 1)
        )
    return sum(map(len, found.values()))


def merged(parts: Iterable[Mapping[Row, int]]) -> dict[Row, int]:
    """Return the rows of all partitions, but for what only ends the windows."""
    return {row: n for part in parts for row, n in part.items() if row[0] != END_KEY}


def last_of(changes: Iterable[tuple[Row, int | None]]) -> dict[Row, int]:
    """Return the last value of each row that was not deleted."""
    return {row: value for row, value in dict(changes).items() if value is not None}
