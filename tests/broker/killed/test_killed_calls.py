"""SIGKILL at seeded random moments over batches and calls with retries and drawn latencies.

In the end a read_committed reader finds the answer to each record once, those of a key in the order
of their records, and the store has counted each once.

`pytest -m sweep tests/broker/killed` kills 20 times, at moments of a new seed each time. The seed
is printed; `KILL_SEED=... pytest ...` draws the same moments again.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

import pytest
from confluent_kafka.admin import AdminClient

from pystreams.broker import DevelopmentBroker
from pystreams.kernel.clock import SystemClock
from tests.broker.exactly_once.killing import moments, seeded_draws
from tests.broker.killed import called_app
from tests.broker.killed.arena import Arena
from tests.broker.killed.called_app import answer_to
from tests.broker.killed.timed_feed import PARTITIONS, TimedFeed
from tests.broker.reading import (
    long,
    read_all,
)

KILLS = 2
RECORDS_PER_S = 300
CI_SEED = 18
RETRIES_LEFT_S = 300.0

Numbers = dict[str, list[int]]


class CallsArena(Arena):
    """One calling application with topics and a directory of its own."""

    app: ClassVar = called_app
    topics: ClassVar = {"in": PARTITIONS, "out": PARTITIONS, "count": PARTITIONS}
    output: ClassVar = "out"

    def results(self, topic: str) -> Numbers:
        """Return what a read_committed reader finds for each key, in order."""
        found: Numbers = defaultdict(list)
        for message in read_all(self.servers, f"{self.name}-{topic}"):
            found[(message.key() or b"").decode()].append(long(message.value() or b""))
        return found


@pytest.fixture
def arena(
    broker: DevelopmentBroker, admin: AdminClient, unique_name: str, tmp_path: Path
) -> CallsArena:
    return CallsArena.made(admin, broker.bootstrap_servers, unique_name, tmp_path)


many = [pytest.mark.sweep, pytest.mark.timeout(900)]


@pytest.mark.parametrize(
    ("guarantee", "kills"),
    [
        pytest.param("exactly_once_v2", KILLS, id="v2-few"),
        pytest.param("exactly_once_v2", 20, id="v2", marks=many),
        pytest.param("exactly_once", 20, id="v1", marks=many),
    ],
)
def test_killed_application_answers_each_record_once_in_the_order_of_its_key(
    arena: CallsArena, guarantee: str, kills: int
) -> None:
    began = time.monotonic()
    draw = seeded_draws(CI_SEED if kills == KILLS else None)
    feed = TimedFeed(
        arena.servers,
        f"{arena.name}-in",
        SystemClock().now_ms() - 3_600_000,
        draw.getrandbits(32),
        records_per_s=RECORDS_PER_S,
    )
    with arena.application(guarantee, {"statestore.cache.max.bytes": 0}) as application:
        with feed:
            for moment in moments(kills, draw):
                print(moment)
                running = application.start()
                moment.wait(running, arena.written)
                running.kill()
        wanted = fed_numbers(feed)
        total = sum(map(len, wanted.values()))
        last = application.start()
        last.wait_until(
            lambda: sum(map(len, arena.results("count").values())) >= total,
            "all answers",
            deadline_s=RETRIES_LEFT_S,
        )
        last.stop()

    answers = {key: list(map(answer_to, numbers)) for key, numbers in wanted.items()}
    assert arena.results("out") == answers
    assert arena.results("count") == {
        key: list(range(1, len(numbers) + 1)) for key, numbers in wanted.items()
    }
    print(f"{kills} kills, {total} records: {time.monotonic() - began:.1f} s")


def fed_numbers(feed: TimedFeed) -> Mapping[str, list[int]]:
    """Return the numbers of each key in the order in which they were written."""
    numbers: Numbers = defaultdict(list)
    for records in feed.fed.values():
        for key, number, _ in records:
            numbers[key].append(number)
    return numbers
