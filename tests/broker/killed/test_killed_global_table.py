"""SIGKILL at seeded random moments over a global table that changes: each order answered once.

An answer has a row that the table has had; in the end it is the row that the topic has.

`pytest -m sweep tests/broker/killed` kills 20 times, at moments of a new seed each time. The seed
is printed; `KILL_SEED=... pytest ...` draws the same moments again.
"""

from __future__ import annotations

import itertools
import random
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from pystreams.broker import DevelopmentBroker
from tests.broker.application import Application, Running
from tests.broker.exactly_once.killing import moments, seeded_draws
from tests.broker.killed import global_app
from tests.broker.killed.global_app import NOBODY
from tests.broker.reading import (
    create_topics,
    delete_topics,
    high_watermarks,
    read_all,
    reader_of,
    values_by_key,
)
from tests.broker.waiting import DEADLINE_S

KILLS = 2
TOPICS = {"rows": 3, "orders": 2, "answers": 2}
KEYS = 50
CHANGES_PER_S = 500
BATCH_EVERY_S = 0.02
CI_SEED = 37
ALL_READ_S = 300.0


class Customers:
    """Change rows and order until the block ends.

    Attributes:
        rows: The rows that the table ends with.
        had: Each row that a key has had, `NOBODY` for none.
        orders: The numbers of each key's orders.
    """

    def __init__(self, servers: str, name: str, seed: int) -> None:
        self.rows: dict[bytes, int] = {}
        self.had: dict[bytes, set[int]] = {b"key %d" % key: {NOBODY} for key in range(KEYS)}
        self.orders: dict[bytes, list[int]] = {key: [] for key in self.had}
        self._numbers = itertools.count()
        self._name = name
        self._draw = random.Random(seed)
        self._producer = Producer({"bootstrap.servers": servers, "enable.idempotence": True})
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._write, name="customers", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop.set()
        self._thread.join()
        assert self._producer.flush(DEADLINE_S) == 0

    def order_each(self) -> None:
        """Order once with each key."""
        for key in self.orders:
            self._order(key)
        assert self._producer.flush(DEADLINE_S) == 0

    def _write(self) -> None:
        keys = list(self.orders)
        while not self._stop.wait(BATCH_EVERY_S):
            for _ in range(round(CHANGES_PER_S * BATCH_EVERY_S)):
                self._change(self._draw.choice(keys))
                self._order(self._draw.choice(keys))
            self._producer.poll(0)

    def _change(self, key: bytes) -> None:
        row = None if self._draw.random() < 0.2 else self._draw.randrange(NOBODY)
        self.rows.pop(key, None)
        if row is not None:
            self.rows[key] = row
            self.had[key].add(row)
        value = None if row is None else row.to_bytes(8, "big")
        self._producer.produce(f"{self._name}-rows", value, key)

    def _order(self, key: bytes) -> None:
        number = next(self._numbers)
        self.orders[key].append(number)
        self._producer.produce(f"{self._name}-orders", number.to_bytes(8, "big"), key)


@dataclass(frozen=True)
class Arena:
    """One application with topics and a directory of its own."""

    name: str
    servers: str
    directory: Path

    def application(self, guarantee: str) -> Application:
        settings: dict[str, object] = {
            "bootstrap.servers": self.servers,
            "commit.interval.ms": 100,
            "processing.guarantee": guarantee,
        }
        environment = {"KILLED_NAME": self.name}
        file = Path(f"{global_app.__file__}")
        return Application(self.name, self.directory, file, settings, environment)

    def written(self) -> int:
        """Return how many answers there are, committed or not."""
        with reader_of(self.servers) as consumer:
            return sum(high_watermarks(consumer, f"{self.name}-answers").values())

    def answers(self) -> dict[bytes, list[tuple[int, int]]]:
        """Return order and row of each key's answers, in order, for a read_committed reader."""
        found = values_by_key(read_all(self.servers, f"{self.name}-answers"))
        return {key: [divmod(answer, 1000) for answer in answers] for key, answers in found.items()}


@pytest.fixture
def arena(
    broker: DevelopmentBroker, admin: AdminClient, unique_name: str, tmp_path: Path
) -> Iterator[Arena]:
    topics = [
        NewTopic(f"{unique_name}-{topic}", num_partitions=partitions)
        for topic, partitions in TOPICS.items()
    ]
    create_topics(admin, topics)
    yield Arena(unique_name, broker.bootstrap_servers, tmp_path)
    delete_topics(admin, f"{unique_name}-")


many = [pytest.mark.sweep, pytest.mark.timeout(1800)]


@pytest.mark.parametrize(
    ("guarantee", "kills"),
    [
        pytest.param("exactly_once_v2", KILLS, id="v2-few"),
        pytest.param("exactly_once", 20, id="v1", marks=many),
        pytest.param("exactly_once_v2", 20, id="v2", marks=many),
    ],
)
def test_each_order_is_answered_once_with_a_row_that_there_was(
    arena: Arena, guarantee: str, kills: int
) -> None:
    began = time.monotonic()
    draw = seeded_draws(CI_SEED if kills == KILLS else None)
    with arena.application(guarantee) as application:
        with Customers(arena.servers, arena.name, draw.getrandbits(32)) as customers:
            for moment in moments(kills, draw):
                print(moment)
                running = application.start()
                moment.wait(running, arena.written)
                running.kill()
        last = application.start()
        wait_for_the_last_rows(arena, last, customers)
        last.stop()

    answers = arena.answers()
    assert {key: [order for order, _ in of] for key, of in answers.items()} == customers.orders
    for key, of in answers.items():
        assert {row for _, row in of} <= customers.had[key]
    print(
        f"{kills} kills, {sum(map(len, customers.orders.values()))} orders answered, "
        f"{len(customers.rows)} rows: {time.monotonic() - began:.1f} s"
    )


def wait_for_the_last_rows(arena: Arena, last: Running, customers: Customers) -> None:
    """Order again and again until each order has been answered, with the row of the topic's end."""

    def answered() -> bool:
        answers = arena.answers()
        orders = {key: [order for order, _ in of] for key, of in answers.items()}
        if orders != customers.orders:
            return False
        rows = {key: of[-1][1] for key, of in answers.items()}
        if rows == {key: customers.rows.get(key, NOBODY) for key in customers.orders}:
            return True
        customers.order_each()
        return False

    customers.order_each()
    last.wait_until(answered, "each order answered with the last row", deadline_s=ALL_READ_S)
