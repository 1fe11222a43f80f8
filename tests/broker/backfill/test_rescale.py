"""`pystreams rescale`: an application goes on with its state in more partitions.

An application with a store of every kind is stopped, its topic gets more partitions, its state is
moved, and it goes on under another id. In the end each key was counted 1, 2, ..., n, and the stores
hold what those of an application hold that had so many partitions from its start.
"""

from __future__ import annotations

import random
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient

from pystreams.broker import DevelopmentBroker
from tests.broker.backfill.every_store_arena import SPARK_DEADLINE_S, EveryStoreArena, one_to
from tests.broker.reading import committed_offsets, topics_of
from tests.broker.waiting import wait_until
from tests.every_store import BUILDERS

OLD, NEW = 4, 8
ROUNDS = 10
SEED = 3

pytestmark = pytest.mark.timeout(600)


@pytest.fixture
def arena(
    spark: Any, broker: DevelopmentBroker, admin: AdminClient, unique_name: str, tmp_path: Path
) -> Iterator[EveryStoreArena]:
    made = EveryStoreArena.make(broker, admin, unique_name, tmp_path, OLD)
    yield made
    made.kill_commands()


def without_numbers(store: str, content: dict[bytes, bytes]) -> list[tuple[bytes, bytes]]:
    """Duplicates are numbered by when they were put; all else is the same."""
    if store != "duplicates":
        return sorted(content.items())
    return [(key[:-4], value) for key, value in sorted(content.items())]


@pytest.mark.parametrize("kills", [0, pytest.param(4, marks=pytest.mark.sweep)])
def test_counts_go_on_in_more_partitions(
    arena: EveryStoreArena,
    broker: DevelopmentBroker,
    admin: AdminClient,
    tmp_path: Path,
    kills: int,
) -> None:
    draw = random.Random(SEED)
    old, new, fresh = f"{arena.name}-old", f"{arena.name}-new", f"{arena.name}-fresh"
    other = EveryStoreArena.make(broker, admin, fresh, tmp_path, NEW)
    other.first_ms = arena.first_ms
    other.feed(1, 2 * ROUNDS, NEW)
    arena.feed(1, ROUNDS, OLD)
    with (
        other.application(fresh) as from_start,
        arena.application(old) as before,
        arena.application(new) as after,
    ):
        running_from_start = from_start.start()
        running = before.start()
        arena.wait_for_rounds(ROUNDS, running)
        arena.stop(old, running)
        offsets = committed_offsets(admin, old)
        arena.raise_partitions(NEW)
        arena.feed(ROUNDS + 1, 2 * ROUNDS, NEW)
        staging = ("--to-application-id", new, "--output", str(tmp_path / "staged"))
        codes = []
        for _ in range(kills):
            killed = arena.command("rescale", old, *staging)
            # The moment itself: a delay drawn from the seed, not a wait for anything.
            threading.Event().wait(draw.uniform(2, 12))
            killed.kill()
            codes.append(killed.process.returncode)
        # A fast machine may be through before the later ones.
        assert set(codes) <= {-signal.SIGKILL, 0}
        assert codes.count(-signal.SIGKILL) >= kills / 2
        told = arena.told_by("rescale", old, *staging)
        assert f"application.id={new}" in told or "Moved before" in told
        elsewhere = ("--to-application-id", new, "--output", str(tmp_path / "elsewhere"))
        assert "Moved before" in arena.told_by("rescale", old, *elsewhere)
        third = ("--to-application-id", fresh, "--output", str(tmp_path / "third"))
        assert "has members" in arena.told_by("rescale", old, *third, code=1)
        assert not (tmp_path / "third" / "begun.json").exists(), "refused before it is staged"
        running = after.start()
        arena.wait_for_rounds(2 * ROUNDS, running)
        # The new application has committed since, and goes on running.
        assert "Moved before" in arena.told_by("rescale", old, *staging)
        arena.stop(new, running)
        other.wait_for_rounds(2 * ROUNDS, running_from_start)
        other.stop(fresh, running_from_start)

    assert arena.counts() == one_to(2 * ROUNDS)
    assert committed_offsets(admin, old) == offsets
    for store in BUILDERS:
        moved, expected = arena.content(new, store), other.content(fresh, store)
        assert moved.keys() == expected.keys()
        for number, has in expected.items():
            assert without_numbers(store, moved[number]) == without_numbers(store, has)


@pytest.mark.sweep
def test_rehearsal_and_refusals_leave_nothing(
    arena: EveryStoreArena, admin: AdminClient, tmp_path: Path
) -> None:
    old, new = f"{arena.name}-old", f"{arena.name}-new"
    options = ("--to-application-id", new, "--output", str(tmp_path / "staged"))
    topic = f"{arena.name}-in"
    arena.feed(1, ROUNDS, OLD)
    with arena.application(old) as before:
        running = before.start()
        arena.wait_for_rounds(ROUNDS, running)
        rehearsal = ("--partitions", f"{topic}={NEW}", "--dry-run")
        assert "has members" in arena.told_by("rescale", old, *options, *rehearsal, code=1)
        arena.stop(old, running)

    shown = arena.told_by("rescale", old, *options, *rehearsal)
    assert "nothing was moved" in shown
    assert "has 4 partitions, and is to have 8" in arena.told_by(
        "rescale", old, *options, "--partitions", f"{topic}={NEW}", code=1
    )
    assert "another number of partitions first" in arena.told_by("rescale", old, *options, code=1)
    arena.feed(ROUNDS + 1, ROUNDS + 1, OLD)
    arena.raise_partitions(NEW)
    assert "has to run, without producers, until its lag is 0" in arena.told_by(
        "rescale", old, *options, code=1
    )

    assert not (tmp_path / "staged").exists()
    assert committed_offsets(admin, new) == {}
    topics = topics_of(admin)
    assert not [name for name in topics if name.startswith(f"{new}-")]


@pytest.mark.sweep
def test_killed_in_the_middle_of_publishing_it_goes_on(
    arena: EveryStoreArena, tmp_path: Path
) -> None:
    old, new = f"{arena.name}-old", f"{arena.name}-new"
    options = ("--to-application-id", new, "--output", str(tmp_path / "staged"))
    arena.feed(1, ROUNDS, OLD)
    with arena.application(old) as before, arena.application(new) as after:
        running = before.start()
        arena.wait_for_rounds(ROUNDS, running)
        arena.stop(old, running)
        arena.raise_partitions(NEW)
        killed = arena.command("rescale", old, *options, "--log-format", "json")
        wait_until(
            lambda: killed.lines("group claimed") or not killed.alive(),
            "the claim",
            deadline_s=SPARK_DEADLINE_S,
            told=killed.tail,
        )
        killed.kill()
        # They come while it is down, in the new partitions.
        arena.feed(ROUNDS + 1, 2 * ROUNDS, NEW)
        arena.told_by("rescale", old, *options)
        running = after.start()
        arena.wait_for_rounds(2 * ROUNDS, running)
        arena.stop(new, running)

    assert arena.counts() == one_to(2 * ROUNDS)
