"""`pystreams backfill` from Kafka on Spark, killed and started again, then `pystreams run`.

Records arrive all the time, some of them in transactions that are aborted. In the end each output
holds 1, 2, ..., n a key.
"""

from __future__ import annotations

import os
import random
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from pystreams.broker import DevelopmentBroker
from tests.broker.application import Running
from tests.broker.exactly_once import counting
from tests.broker.exactly_once.arena import GROUPS, SUBTOPOLOGY_OF_STORE, Arena, one_to
from tests.broker.exactly_once.feed import KEYS
from tests.broker.reading import committed_offsets, delete_topics
from tests.broker.waiting import DEADLINE_S, wait_until

ROUNDS = 20
ARRIVING_PER_S = 500
SPARK_DEADLINE_S = 180.0
SEED = 11
ALL_KEYS = {f"key {number:02}".encode() for number in range(KEYS)}
ALL_GROUPS = {f"group {number}".encode() for number in range(GROUPS)}
NO_CACHE: dict[str, object] = {"statestore_cache_max_bytes": 0}

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]


@dataclass
class Backfills:
    """Starts backfills of one arena, each a process of its own."""

    arena: Arena
    started: int = 0

    def start(self, *options: str) -> Running:
        self.started += 1
        command = [sys.executable, "-m", "pystreams", "backfill", str(counting.__file__)]
        for setting in (
            f"bootstrap.servers={self.arena.servers}",
            f"application.id={self.arena.name}",
            "statestore.cache.max.bytes=0",
        ):
            command += ["-c", setting]
        command += ["--master", "local[2]", *options]
        environment = os.environ | {"COUNTING_NAME": self.arena.name}
        log = self.arena.directory / f"backfill-{self.started}.log"
        return Running(command, environment, log)

    def done(self, *options: str) -> str:
        """Run one to its end; return what it printed."""
        running = self.start(*options)
        assert running.ended(deadline_s=SPARK_DEADLINE_S) == 0, running.tail()
        return running.tail()


@pytest.fixture
def arena(
    broker: DevelopmentBroker, admin: AdminClient, unique_name: str, tmp_path: Path
) -> Iterator[Arena]:
    made = Arena.make(broker, admin, unique_name, tmp_path)
    write_history(made)
    yield made
    delete_topics(admin, f"{unique_name}-")


def write_history(arena: Arena) -> None:
    """Write rounds in transactions; between two that are committed stands an aborted one."""
    producer = Producer(
        {"bootstrap.servers": arena.servers, "transactional.id": f"{arena.name}-history"}
    )
    producer.init_transactions(DEADLINE_S)
    for number in range(1, ROUNDS + 1):
        for commit in (True, False):
            producer.begin_transaction()
            for key in sorted(ALL_KEYS):
                producer.produce(f"{arena.name}-in", number.to_bytes(8, "big"), key)
            if commit:
                producer.commit_transaction(DEADLINE_S)
            else:
                producer.flush(DEADLINE_S)
                producer.abort_transaction(DEADLINE_S)


def test_killed_backfill_goes_on_and_the_live_application_takes_over(
    arena: Arena, admin: AdminClient
) -> None:
    draw = random.Random(SEED)
    backfills = Backfills(arena)
    staging = ("--output", str(arena.directory / "staged"), "--publish-outputs")
    feed = arena.feed(ARRIVING_PER_S)
    feed.rounds = ROUNDS
    with arena.application("exactly_once", **NO_CACHE) as application:
        with feed:
            killed = backfills.start(*staging)
            wait_until(
                lambda: "Stage 2 of 2" in killed.tail() or not killed.alive(),
                "the second stage",
                deadline_s=SPARK_DEADLINE_S,
                told=killed.tail,
            )
            # The moment itself: a delay drawn from the seed, not a wait for anything.
            threading.Event().wait(draw.uniform(0.0, 1.5))
            killed.kill()
            told = backfills.done(*staging)
        assert "Published" in told
        offsets = committed_offsets(admin, arena.name)
        running = application.start()
        arena.wait_for_outputs(feed.rounds, running)
        running.stop()

    assert sum(offsets[f"{arena.name}-in", number] for number in range(2)) >= ROUNDS * KEYS
    outputs = arena.outputs()
    assert outputs.echo == one_to(feed.rounds, ALL_KEYS)
    assert outputs.by_key == one_to(feed.rounds, ALL_KEYS)
    assert outputs.by_group == one_to(feed.rounds * KEYS // GROUPS, ALL_GROUPS)
    for store in SUBTOPOLOGY_OF_STORE:
        assert arena.stored(store) == arena.changelog(store)


def test_dry_run_shows_the_stages_and_leaves_nothing(arena: Arena, admin: AdminClient) -> None:
    told = Backfills(arena).done("--dry-run", "--output", str(arena.directory / "staged"))

    assert "2 stages; nothing was run" in told
    assert f"{arena.name}-KSTREAM-AGGREGATE" in told
    assert not (arena.directory / "staged").exists()
    assert committed_offsets(admin, arena.name) == {}
