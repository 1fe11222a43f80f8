"""The input: records for all topics, written while everything goes wrong around them.

What counts as fed is what lies in the topics in the end: the model reads them. Of the tables that
streams are joined with, the rows of keys with an even number are there from the beginning and never
change, so that each result of theirs has one right answer.
"""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Iterator

from confluent_kafka import Message

from pystreams.kernel.clock import SystemClock
from tests.broker.writing import Feed, Writer
from tests.chaos.application import INPUTS

USERS = 120
PAGES = 40
ORDERS = 150
PRODUCTS = 30
_BATCH_EVERY_S = 0.02
_ALL_WRITTEN_S = 600.0
_OUT_OF_ORDER_MS = 300
"""How much earlier than it is written a record may be; rows that stay are earlier than any."""
_WEIGHTS = {"clicks": 5, "views": 5, "users": 1, "tariffs": 1, "orders": 2, "products": 1}
_BEFORE_NOW_MS = 3_600_000
"""The broker refuses what is too far ahead of its clock, and that may stand still."""

Fed = tuple[str, str, str]
"""Topic, key and value."""


class ChaosFeed(Feed):
    """Writes records until the block ends.

    Args:
        servers: The brokers.
        name: Begins the names of the topics.
        seed: Draws keys, values and times.
        records_per_s: How fast.

    Attributes:
        acknowledged: How many records of each topic the brokers have taken.
    """

    def __init__(self, servers: str, name: str, seed: int, records_per_s: int) -> None:
        self.acknowledged: Counter[str] = Counter()
        self._name = name
        self._draw = random.Random(seed)
        self._numbers = itertools.count(1)
        self._fed = drawn(self._draw, self._numbers)
        self._per_batch = max(1, round(records_per_s * _BATCH_EVERY_S))
        settings = {
            "partitioner": "murmur2_random",
            "queue.buffering.max.messages": 10_000_000,
            "log_level": 0,
        }
        writer = Writer(servers, settings, delivered=self._acknowledge)
        super().__init__(writer, batch_every_s=_BATCH_EVERY_S, deadline_s=_ALL_WRITTEN_S)

    def rows_that_stay(self) -> int:
        """Write the rows that never change; return how many there are."""
        count = 0
        for topic in ("users", "tariffs"):
            for user in range(0, USERS, 2):
                self._produce((topic, f"user {user}", f"{next(self._numbers)}"), out_of_order=False)
                count += 1
        self.flush()
        return count

    def write_batch(self) -> None:
        for fed in itertools.islice(self._fed, self._per_batch):
            self._produce(fed)

    def _acknowledge(self, message: Message) -> None:
        self.acknowledged[(message.topic() or "").removeprefix(f"{self._name}-")] += 1

    def _produce(self, fed: Fed, *, out_of_order: bool = True) -> None:
        topic, key, value = fed
        time = SystemClock().now_ms() - _BEFORE_NOW_MS
        time -= self._draw.randrange(_OUT_OF_ORDER_MS) if out_of_order else _OUT_OF_ORDER_MS
        self._writer.write(f"{self._name}-{topic}", value, key, timestamp=time)


def drawn(draw: random.Random, numbers: Iterator[int] | None = None) -> Iterator[Fed]:
    """Draw records without an end; each has a number that no other has."""
    numbers = itertools.count(1) if numbers is None else numbers
    while True:
        topic = draw.choices(INPUTS, [_WEIGHTS[topic] for topic in INPUTS])[0]
        number = next(numbers)
        user, product = draw.randrange(USERS), draw.randrange(PRODUCTS)
        if topic in {"clicks", "views"}:
            yield topic, f"user {user}", f"{number} page-{draw.randrange(PAGES)}"
        elif topic in {"users", "tariffs"}:
            yield topic, f"user {user | 1}", f"{number}"
        elif topic == "orders":
            yield topic, f"order {draw.randrange(ORDERS)}", f"{number} product-{product}"
        else:
            yield topic, f"product-{product}", f"{number}"
