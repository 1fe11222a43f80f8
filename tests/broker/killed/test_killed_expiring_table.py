"""SIGKILL at seeded random moments over a table whose rows expire: each change once, in order.

`pytest -m sweep tests/broker/killed` kills 20 times, at moments of a new seed each time. The seed
is printed; `KILL_SEED=... pytest ...` draws the same moments again.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

import pytest
from confluent_kafka.admin import AdminClient

from pystreams.broker import DevelopmentBroker
from tests.broker.exactly_once.killing import moments, seeded_draws
from tests.broker.killed import expiring_app
from tests.broker.killed.arena import Arena
from tests.broker.killed.expiring_app import STORE, TTL_MS
from tests.broker.reading import (
    long,
    read_all,
)
from tests.broker.waiting import wait_until
from tests.broker.writing import Feed, Writer

KILLS = 2
KEYS = 400
LATE_MS = 2 * TTL_MS
BATCH_RECORDS = 20
BATCH_EVERY_S = 0.02
CI_SEED = 23
ALL_READ_S = 300.0

Change = tuple[str, int | None]


@dataclass
class Model:
    """The table, as a dict.

    Attributes:
        rows: Number and timestamp (ms) of each key.
        changes: What was sent on.
    """

    rows: dict[str, tuple[int, int]] = field(default_factory=dict)
    changes: list[Change] = field(default_factory=list)
    stream_time: int = -1

    def put(self, key: str, number: int | None, timestamp: int) -> None:
        self.stream_time = max(self.stream_time, timestamp)
        self.expire()
        self.changes.append((key, number))
        self.rows.pop(key, None)
        if number is not None:
            self.rows[key] = number, timestamp
        self.expire()

    def expire(self) -> None:
        over = [
            (timestamp, key)
            for key, (_, timestamp) in self.rows.items()
            if timestamp < self.stream_time - TTL_MS
        ]
        for _, key in sorted(over):
            del self.rows[key]
            self.changes.append((key, None))


class LateRows(Feed):
    """Writes records, some of them late, until the block ends."""

    def __init__(self, servers: str, topic: str, seed: int) -> None:
        self.model = Model()
        self._topic = topic
        self._draw = random.Random(seed)
        self._time = 1_000_000
        super().__init__(Writer(servers), batch_every_s=BATCH_EVERY_S)

    def write_batch(self) -> None:
        for _ in range(BATCH_RECORDS):
            self._write()

    def _write(self) -> None:
        draw = self._draw
        self._time += draw.randrange(10) if draw.random() < 0.99 else 3 * TTL_MS
        late = draw.randrange(LATE_MS) if draw.random() < 0.1 else 0
        key, timestamp = f"key {draw.randrange(KEYS)}", self._time - late
        number = None if draw.random() < 0.1 else draw.randrange(1000)
        value = None if number is None else number.to_bytes(8, "big")
        self._writer.write(self._topic, value, key.encode(), timestamp=timestamp)
        self.model.put(key, number, timestamp)


class TableArena(Arena):
    """A table whose rows expire with topics and a directory of its own."""

    app: ClassVar = expiring_app
    topics: ClassVar = {"in": 1, "out": 1}
    output: ClassVar = "out"

    def changes(self) -> list[Change]:
        """Return what a read_committed reader gets."""
        return [
            ((message.key() or b"").decode(), None if (v := message.value()) is None else long(v))
            for message in read_all(self.servers, f"{self.name}-out")
        ]

    def logged_rows(self) -> dict[str, int]:
        """Return what the changelog restores: what a Java application would have."""
        rows: dict[str, int] = {}
        for message in read_all(self.servers, f"{self.name}-{STORE}-changelog"):
            key, value = (message.key() or b"").decode(), message.value()
            rows.pop(key, None)
            if value is not None:
                rows[key] = long(value)
        return rows


@pytest.fixture
def arena(
    broker: DevelopmentBroker, admin: AdminClient, unique_name: str, tmp_path: Path
) -> TableArena:
    return TableArena.made(admin, broker.bootstrap_servers, unique_name, tmp_path)


many = [pytest.mark.sweep, pytest.mark.timeout(900)]


@pytest.mark.parametrize(
    ("guarantee", "kills"),
    [
        pytest.param("exactly_once_v2", KILLS, id="v2-few"),
        pytest.param("exactly_once", 20, id="v1", marks=many),
        pytest.param("exactly_once_v2", 20, id="v2", marks=many),
    ],
)
def test_killed_application_tells_each_row_to_be_gone_once(
    arena: TableArena, guarantee: str, kills: int
) -> None:
    draw = seeded_draws(CI_SEED if kills == KILLS else None)
    with arena.application(guarantee) as application:
        with LateRows(arena.servers, f"{arena.name}-in", draw.getrandbits(32)) as feed:
            for moment in moments(kills, draw):
                print(moment)
                running = application.start()
                moment.wait(running, arena.written)
                running.kill()
        last = application.start()
        wanted = feed.model.changes
        wait_until(
            lambda: len(arena.changes()) >= len(wanted),
            f"{len(wanted)} changes",
            deadline_s=ALL_READ_S,
            told=last.tail,
        )
        last.stop()

        assert arena.changes() == wanted
        assert arena.logged_rows() == {key: n for key, (n, _) in feed.model.rows.items()}
    expired = sum(number is None for _, number in wanted)
    print(f"{kills} kills, {len(wanted)} changes, {expired} of them deletions")
