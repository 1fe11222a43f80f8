"""SIGKILL at seeded random moments: every record has its effect exactly once.

The application counts a stream that goes on being written while it is killed and started again.
In the end each output holds 1, 2, ..., n a key, without gap or repeat, for a read_committed
reader, and each store holds what its compacted changelog says.

`pytest -m sweep tests/broker/exactly_once` kills 20 times, at moments of a new seed each time. The
seed is printed; `KILL_SEED=... pytest ...` draws the same moments again.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from pystreams.broker import DevelopmentBroker
from tests.broker.application import Application, Running
from tests.broker.exactly_once.arena import (
    GROUPS,
    PARTITIONS,
    SUBTOPOLOGY_OF_STORE,
    Arena,
    Outputs,
    one_to,
)
from tests.broker.exactly_once.feed import KEYS
from tests.broker.exactly_once.killing import kill_one_process, moments, seeded_draws
from tests.variants import first_of

KILLS = 5
RECORDS_PER_S = 3000
CI_SEED = 892
ALL_KEYS = {f"key {number:02}".encode() for number in range(KEYS)}
ALL_GROUPS = {f"group {number}".encode() for number in range(GROUPS)}
PER_GROUP = KEYS // GROUPS

each_guarantee = pytest.mark.parametrize("guarantee", first_of("exactly_once_v2", "exactly_once"))
each_count = pytest.mark.parametrize(
    "kills", [KILLS, pytest.param(20, marks=[pytest.mark.sweep, pytest.mark.timeout(600)])]
)


@pytest.fixture
def arena(broker: DevelopmentBroker, admin: AdminClient, unique_name: str, tmp_path: Path) -> Arena:
    return Arena.make(broker, admin, unique_name, tmp_path)


def kill_all(running: Running, _draw: random.Random) -> None:
    assert running.alive(), running.tail()
    running.kill()


def killed_and_started(
    arena: Arena,
    application: Application,
    kills: int,
    *options: str,
    kill: Callable[[Running, random.Random], None] = kill_all,
) -> int:
    """Feed and kill, then let the application finish and stop it; return the rounds fed."""
    draw = seeded_draws(CI_SEED if kills == KILLS else None)
    started: list[Running] = []
    with application:
        with arena.feed(RECORDS_PER_S) as feed:
            for moment in moments(kills, draw):
                print(moment)
                started.append(running := application.start(*options))
                moment.wait(running, arena.written)
                kill(running, draw)
        started.append(running := application.start(*options))
        arena.wait_for_outputs(feed.rounds, running)
        running.wait_for_tasks(2 * PARTITIONS)  # All may have come out before.
        running.stop()
        application.wait_until_all_gone()
    told = [line["message"] for running in started for line in running.lines()]
    assert not [message for message in told if message.startswith("state store is ")], "wiped none"
    return feed.rounds


def check_exactly_once(outputs: Outputs, rounds: int) -> None:
    assert outputs.echo == one_to(rounds, ALL_KEYS)
    assert outputs.by_key == one_to(rounds, ALL_KEYS)
    assert outputs.by_group == one_to(rounds * PER_GROUP, ALL_GROUPS)


def check_at_least_once(outputs: Outputs, rounds: int) -> None:
    """Every record is there; counts may jump, where the changelog was ahead of the output."""
    assert {key: set(numbers) for key, numbers in outputs.echo.items()} == {
        key: set(range(1, rounds + 1)) for key in ALL_KEYS
    }
    for numbers, keys, least in (
        (outputs.by_key, ALL_KEYS, rounds),
        (outputs.by_group, ALL_GROUPS, rounds * PER_GROUP),
    ):
        assert numbers.keys() == keys
        assert all(counted[-1] >= least for counted in numbers.values())
        assert all(len(counted) >= least for counted in numbers.values())


def check_stores(arena: Arena) -> None:
    for store in SUBTOPOLOGY_OF_STORE:
        assert arena.stored(store) == arena.changelog(store)


@each_count
@each_guarantee
def test_killed_application_counts_every_record_exactly_once(
    arena: Arena, guarantee: str, kills: int
) -> None:
    application = arena.application(guarantee, statestore_cache_max_bytes=0)

    rounds = killed_and_started(arena, application, kills)

    check_exactly_once(arena.outputs(), rounds)
    check_stores(arena)


@each_count
def test_killed_application_at_least_once_loses_nothing(arena: Arena, kills: int) -> None:
    application = arena.application("at_least_once", statestore_cache_max_bytes=0)

    rounds = killed_and_started(arena, application, kills)

    check_at_least_once(arena.outputs(), rounds)
    check_stores(arena)


@each_count
def test_killed_application_with_record_caches_ends_at_the_exact_counts(
    arena: Arena, kills: int
) -> None:
    """A cache forwards only the last count of a key in a commit: some are left out, none twice."""
    application = arena.application("exactly_once_v2")

    rounds = killed_and_started(arena, application, kills)

    outputs = arena.outputs()
    assert outputs.echo == one_to(rounds, ALL_KEYS)
    for numbers, keys, last in (
        (outputs.by_key, ALL_KEYS, rounds),
        (outputs.by_group, ALL_GROUPS, rounds * PER_GROUP),
    ):
        assert numbers.keys() == keys
        for counted in numbers.values():
            assert counted == sorted(set(counted))
            assert counted[-1] == last
    check_stores(arena)


@each_count
def test_one_of_two_processes_is_killed_and_every_record_counts_exactly_once(
    arena: Arena, kills: int
) -> None:
    """The parent or a child dies; the rest ends by itself while the next ones start.

    The next ones then find the first identities taken and join as new members; the old ones, which
    are static, keep their partitions until their sessions end.
    """
    application = arena.application(
        "exactly_once", statestore_cache_max_bytes=0, consumer_session_timeout_ms=3000
    )

    rounds = killed_and_started(
        arena, application, kills, "--processes", "2", kill=kill_one_process
    )

    check_exactly_once(arena.outputs(), rounds)
    check_stores(arena)
