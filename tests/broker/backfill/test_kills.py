"""A backfill that is killed again and again, whoever of it dies, and a live run that takes over.

Records keep arriving all the time. In the end each output holds 1, 2, ..., n a key for a
read_committed reader, and each store what its compacted changelog says.

`pytest -m sweep tests/broker/backfill/test_kills.py` kills 20 times; `KILL_SEED=...` draws the same
moments again. A kill comes too late when the process it was for has ended by itself, or has no such
victim any more: a machine's speed decides that. It is drawn again, in another backfill.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from pystreams.broker import DevelopmentBroker
from tests.broker.application import Application
from tests.broker.backfill.moments import SPARK_DEADLINE_S, Life, Moment, moments
from tests.broker.backfill.test_end_to_end import Backfills
from tests.broker.backfill.test_publishing import ALL_GROUPS, ALL_KEYS, NO_CACHE, draws
from tests.broker.exactly_once import killing
from tests.broker.exactly_once.arena import (
    GROUPS,
    OUTPUTS,
    PARTITIONS,
    SUBTOPOLOGY_OF_STORE,
    Arena,
    one_to,
)
from tests.broker.exactly_once.feed import KEYS, CountedFeed
from tests.broker.reading import high_watermarks, produce, reader_of

ROUNDS = 500
"""Enough records for ten transactions, and for stages that last."""
ARRIVING_PER_S = 80
KILLS = 1
BACKFILLS_MAX = 5
"""In so many backfills all kills must have come in time."""

pytestmark = pytest.mark.spark

# A task whose worker was killed is tried again.
SPARK_OPTIONS = ("--master=local[2,3]",)


@pytest.fixture
def arenas(
    broker: DevelopmentBroker, admin: AdminClient, unique_name: str, tmp_path: Path
) -> Iterator[Arena]:
    keys = sorted(ALL_KEYS)
    rounds = [(key, number.to_bytes(8, "big")) for number in range(1, ROUNDS + 1) for key in keys]

    def make(name: str) -> Arena:
        home = tmp_path / name
        home.mkdir()
        made = Arena.make(broker, admin, name, home)
        produce(made.servers, f"{name}-in", rounds)
        return made

    return (make(f"{unique_name}-{number}") for number in range(BACKFILLS_MAX))


@contextmanager
def backfills_of(arena: Arena) -> Iterator[Backfills]:
    made = Backfills(arena)
    try:
        yield made
    finally:
        for running in made.started:
            running.kill()


def killed_until_published(
    arena: Arena, backfills: Backfills, kills: int, draw: random.Random
) -> list[Moment]:
    """Start and kill a backfill until it is through; return the kills that came in time."""
    staging = arena.directory / "staged"
    options = ("--output", str(staging), "--publish-outputs", *SPARK_OPTIONS)
    killed: list[Moment] = []
    with reader_of(arena.servers) as consumer:

        def written() -> int:
            topics = [f"{arena.name}-{output}" for output in OUTPUTS]
            return sum(sum(high_watermarks(consumer, topic).values()) for topic in topics)

        running = backfills.start(*options)
        for moment in moments(kills, draw):
            if not running.alive():
                running = backfills.start(*options)
            life = Life(running, staging, written, len(OUTPUTS) * ROUNDS * KEYS)
            in_time = life.wait(moment)
            # Through, or ended by what it says: a task that was killed in each of its attempts.
            assert in_time or running.process.returncode in {0, 1}, running.tail()
            hit = in_time and life.kill(moment)
            print(moment, "" if hit else f"came too late: {running.process.returncode}")
            if hit:
                killed.append(moment)
            elif running.process.poll() == 0:
                break
        if running.alive():
            running.ended(deadline_s=SPARK_DEADLINE_S)
    told = backfills.done(*options)
    assert "Published" in told
    return killed


def run_and_kill(arena: Arena, application: Application, draw: random.Random, rounds: int) -> None:
    """Run live, killed once, until all that was written has come out; then stop."""
    running = application.start()
    moment = killing.Moment("output", draw.uniform(0, 0.2), records=draw.randint(1, rounds))
    moment.wait(running, arena.written)
    running.kill()
    running = application.start()
    arena.wait_for_outputs(rounds, running)
    running.wait_for_tasks(2 * PARTITIONS)  # All may have come out before.
    running.stop()


@pytest.mark.parametrize(
    "kills",
    [
        pytest.param(KILLS, marks=pytest.mark.timeout(900)),
        pytest.param(20, marks=[pytest.mark.sweep, pytest.mark.timeout(2400)]),
    ],
)
def test_killed_backfill_and_killed_application_count_every_record_once(
    arenas: Iterator[Arena], kills: int
) -> None:
    draw = draws(same=kills == KILLS)
    killed: list[Moment] = []
    while len(killed) < kills:
        arena = next(arenas, None)
        assert arena, f"{BACKFILLS_MAX} backfills, and {len(killed)} kills in time: {killed}"
        killed += killed_and_counted(arena, kills - len(killed), draw)

    assert len(killed) == kills


def killed_and_counted(arena: Arena, kills: int, draw: random.Random) -> list[Moment]:
    """Kill a backfill and the application that takes over; see that all is counted once.

    Returns:
        The kills of the backfill that came in time.
    """
    # Slow: what arrives before the history is bounded is part of it, however long that takes.
    feed = CountedFeed(
        arena.servers, f"{arena.name}-in", records_per_s=ARRIVING_PER_S, batch_every_s=0.5
    )
    feed.rounds = ROUNDS
    with arena.application("exactly_once", **NO_CACHE) as application:
        with feed, backfills_of(arena) as backfills:
            killed = killed_until_published(arena, backfills, kills, draw)
        run_and_kill(arena, application, draw, feed.rounds)

    outputs = arena.outputs()
    assert outputs.echo == one_to(feed.rounds, ALL_KEYS)
    assert outputs.by_key == one_to(feed.rounds, ALL_KEYS)
    assert outputs.by_group == one_to(feed.rounds * KEYS // GROUPS, ALL_GROUPS)
    for store in SUBTOPOLOGY_OF_STORE:
        assert arena.stored(store) == arena.changelog(store)
    return killed
