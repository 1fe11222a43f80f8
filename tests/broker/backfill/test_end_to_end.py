"""`pystreams backfill` from Kafka on Spark, killed and started again, then `pystreams run`.

Some of the history was written in transactions that were aborted, and records arrive while the
backfill is under way. In the end each output holds 1, 2, ..., n a key.
"""

from __future__ import annotations

import os
import random
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from pystreams.broker import DevelopmentBroker
from tests.broker.application import Running
from tests.broker.backfill.spark_processes import OPTIONS_FOR_FEW_ROWS
from tests.broker.exactly_once import counting
from tests.broker.exactly_once.arena import GROUPS, PARTITIONS, SUBTOPOLOGY_OF_STORE, Arena, one_to
from tests.broker.exactly_once.feed import KEYS
from tests.broker.reading import committed_offsets, produce
from tests.broker.transactions import TransactionalWriter
from tests.broker.waiting import wait_until

ROUNDS = 20
SPARK_DEADLINE_S = 300.0
SEED = 11
ALL_KEYS = {f"key {number:02}".encode() for number in range(KEYS)}
ALL_GROUPS = {f"group {number}".encode() for number in range(GROUPS)}
NO_CACHE: dict[str, object] = {"statestore_cache_max_bytes": 0}

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]


@dataclass
class Backfills:
    """Starts backfills of one arena, each a process of its own."""

    arena: Arena
    started: list[Running] = field(default_factory=list)

    def start(self, *options: str) -> Running:
        command = [sys.executable, "-m", "pystreams", "backfill", str(counting.__file__)]
        for setting in (
            f"bootstrap.servers={self.arena.servers}",
            f"application.id={self.arena.name}",
            "statestore.cache.max.bytes=0",
        ):
            command += ["-c", setting]
        command += ["--master", "local[2]", *OPTIONS_FOR_FEW_ROWS, *options]
        environment = os.environ | {"COUNTING_NAME": self.arena.name}
        log = self.arena.directory / f"backfill-{len(self.started)}.log"
        self.started.append(Running(command, environment, log))
        return self.started[-1]

    def done(self, *options: str) -> str:
        """Run one to its end; return what it printed."""
        running = self.start(*options)
        assert running.ended(deadline_s=SPARK_DEADLINE_S) == 0, running.tail()
        return running.told()


@pytest.fixture
def backfills(arena: Arena) -> Iterator[Backfills]:
    made = Backfills(arena)
    yield made
    for running in made.started:
        running.kill()


@pytest.fixture
def arena(broker: DevelopmentBroker, admin: AdminClient, unique_name: str, tmp_path: Path) -> Arena:
    made = Arena.make(broker, admin, unique_name, tmp_path)
    write_history(made)
    return made


def write_history(arena: Arena) -> None:
    """Write rounds in transactions; between two that are committed stands an aborted one."""
    writer = TransactionalWriter(arena.servers, f"{arena.name}-history")
    for number in range(1, ROUNDS + 1):
        for commit in (True, False):
            writer.begin()
            for key in sorted(ALL_KEYS):
                writer.write(f"{arena.name}-in", number.to_bytes(8, "big"), key)
            if commit:
                writer.commit()
            else:
                writer.abort()


def write_rounds(arena: Arena, first: int, last: int) -> None:
    """Write more rounds, while the backfill runs or is down."""
    rounds = range(first, last + 1)
    records = [(key, number.to_bytes(8, "big")) for number in rounds for key in sorted(ALL_KEYS)]
    produce(arena.servers, f"{arena.name}-in", records)


def kill_in_second_stage(running: Running, draw: random.Random) -> None:
    wait_until(
        lambda: "Stage 2 of 2" in running.told() or not running.alive(),
        "the second stage",
        deadline_s=SPARK_DEADLINE_S,
        told=running.tail,
    )
    # The moment itself: a delay drawn from the seed, not a wait for anything.
    threading.Event().wait(draw.uniform(0.0, 1.5))
    running.kill()


@pytest.mark.sweep
@pytest.mark.parametrize("is_killed", [False, True])
def test_live_application_takes_over_from_a_backfill_killed_or_not(
    arena: Arena,
    backfills: Backfills,
    admin: AdminClient,
    is_killed: bool,
) -> None:
    draw = random.Random(SEED)
    staging = ["--output", str(arena.directory / "staged"), "--publish-outputs"]
    if not is_killed:
        staging += ["--seed-state", "-c", f"state.dir={arena.directory / 'state'}"]
    with arena.application("exactly_once", **NO_CACHE) as application:
        if is_killed:
            kill_in_second_stage(backfills.start(*staging), draw)
        write_rounds(arena, ROUNDS + 1, 2 * ROUNDS)
        told = backfills.done(*staging)
        write_rounds(arena, 2 * ROUNDS + 1, 3 * ROUNDS)
        assert ("staged before" in told) == is_killed
        assert "Published" in told
        assert ("Seeded 4 stores" in told) == (not is_killed)
        offsets = committed_offsets(admin, arena.name)
        running = application.start()
        arena.wait_for_outputs(3 * ROUNDS, running)
        running.wait_for_tasks(2 * PARTITIONS)
        assert "Published before" in backfills.done(*staging), "as a task that is tried again"
        running.stop()
        assert bool(running.lines("restoring")) == is_killed

    # Both rounds of a pair are behind the group, with their markers. What was written after the
    # backfill had begun is not, and that is the first beginning.
    of_input = [offset for (topic, _), offset in offsets.items() if topic == f"{arena.name}-in"]
    begun_with = 2 if is_killed else 3
    assert begun_with * ROUNDS * KEYS < sum(of_input) < (begun_with + 1) * ROUNDS * KEYS
    outputs = arena.outputs()
    assert outputs.echo == one_to(3 * ROUNDS, ALL_KEYS)
    assert outputs.by_key == one_to(3 * ROUNDS, ALL_KEYS)
    assert outputs.by_group == one_to(3 * ROUNDS * KEYS // GROUPS, ALL_GROUPS)
    for store in SUBTOPOLOGY_OF_STORE:
        assert arena.stored(store) == arena.changelog(store)


def test_a_backfill_that_was_published_and_removed_says_so_when_it_is_run_again(
    arena: Arena, backfills: Backfills, admin: AdminClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(arena.directory)
    first = backfills.done()
    offsets = committed_offsets(admin, arena.name)
    write_rounds(arena, ROUNDS + 1, ROUNDS + 1)

    again = backfills.done()
    elsewhere = backfills.start("--output", str(arena.directory / "kept"))

    assert "removed: they are published" in first
    assert f"Published before: group '{arena.name}' was handed over" in again
    assert "Spark starts" not in again
    assert elsewhere.ended() == 1, "a data set is wanted that this can't give"
    assert "published to this group already" in elsewhere.told()
    assert committed_offsets(admin, arena.name) == offsets


def test_dry_run_shows_the_stages_and_leaves_nothing(
    arena: Arena, backfills: Backfills, admin: AdminClient
) -> None:
    told = backfills.done("--dry-run", "--output", str(arena.directory / "staged"))

    assert "2 stages; nothing was run" in told
    assert f"{arena.name}-by-group-repartition (from an earlier stage)" in told
    assert not (arena.directory / "staged").exists()
    assert committed_offsets(admin, arena.name) == {}
