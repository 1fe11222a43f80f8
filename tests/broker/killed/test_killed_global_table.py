"""SIGKILL at seeded random moments over a global table that changes: each order answered once.

An answer has a row that the table has had; in the end it is the row that the topic has.

`pytest -m sweep tests/broker/killed` kills 20 times, at moments of a new seed each time. The seed
is printed; `KILL_SEED=... pytest ...` draws the same moments again.
"""

from __future__ import annotations

import itertools
import random
import time
from pathlib import Path
from typing import ClassVar

import pytest
from confluent_kafka.admin import AdminClient

from pystreams.broker import DevelopmentBroker
from tests.broker.application import Running
from tests.broker.exactly_once.killing import moments, seeded_draws
from tests.broker.killed import global_app
from tests.broker.killed.arena import Arena
from tests.broker.killed.global_app import NOBODY
from tests.broker.reading import (
    read_all,
    values_by_key,
)
from tests.broker.writing import Feed, Writer

KILLS = 2
KEYS = 50
CHANGES_PER_S = 500
BATCH_EVERY_S = 0.02
CI_SEED = 37
ALL_READ_S = 300.0


class Customers(Feed):
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
        super().__init__(Writer(servers), batch_every_s=BATCH_EVERY_S)

    def order_each(self) -> None:
        """Order once with each key."""
        for key in self.orders:
            self._order(key)
        self.flush()

    def write_batch(self) -> None:
        keys = list(self.orders)
        for _ in range(round(CHANGES_PER_S * BATCH_EVERY_S)):
            self._change(self._draw.choice(keys))
            self._order(self._draw.choice(keys))

    def _change(self, key: bytes) -> None:
        row = None if self._draw.random() < 0.2 else self._draw.randrange(NOBODY)
        self.rows.pop(key, None)
        if row is not None:
            self.rows[key] = row
            self.had[key].add(row)
        value = None if row is None else row.to_bytes(8, "big")
        self._writer.write(f"{self._name}-rows", value, key)

    def _order(self, key: bytes) -> None:
        number = next(self._numbers)
        self.orders[key].append(number)
        self._writer.write(f"{self._name}-orders", number.to_bytes(8, "big"), key)


class OrdersArena(Arena):
    """An application with a global table with topics and a directory of its own."""

    app: ClassVar = global_app
    topics: ClassVar = {"rows": 3, "orders": 2, "answers": 2}
    output: ClassVar = "answers"

    def answers(self) -> dict[bytes, list[tuple[int, int]]]:
        """Return order and row of each key's answers, in order, for a read_committed reader."""
        found = values_by_key(read_all(self.servers, f"{self.name}-answers"))
        return {key: [divmod(answer, 1000) for answer in answers] for key, answers in found.items()}


@pytest.fixture
def arena(
    broker: DevelopmentBroker, admin: AdminClient, unique_name: str, tmp_path: Path
) -> OrdersArena:
    return OrdersArena.made(admin, broker.bootstrap_servers, unique_name, tmp_path)


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
    arena: OrdersArena, guarantee: str, kills: int
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


def wait_for_the_last_rows(arena: OrdersArena, last: Running, customers: Customers) -> None:
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
