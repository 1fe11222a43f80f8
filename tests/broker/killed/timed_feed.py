"""The input: numbers with drawn times, some late, written while the application dies."""

from __future__ import annotations

import random

from tests.broker.killed.windows_model import Fed
from tests.broker.writing import Feed, Writer

KEYS = 20
PARTITIONS = 2
STEP_MS = 20
"""How far each record moves the time on, but for its lateness."""
_BATCH_EVERY_S = 0.02
END_KEY = "end"


class TimedFeed(Feed):
    """Writes records until the block ends, and keeps what it wrote.

    Args:
        servers: The broker.
        topic: The input topic.
        first_ms: The time of the first record.
        seed: Draws keys and times.
        records_per_s: How fast.

    Attributes:
        fed: The records of each partition, in order.
    """

    def __init__(
        self, servers: str, topic: str, first_ms: int, seed: int, *, records_per_s: int
    ) -> None:
        self.fed: dict[int, list[Fed]] = {partition: [] for partition in range(PARTITIONS)}
        self._topic = topic
        self._draw = random.Random(seed)
        self._per_batch = max(1, round(records_per_s * _BATCH_EVERY_S))
        self._time = first_ms
        super().__init__(Writer(servers), batch_every_s=_BATCH_EVERY_S)

    def end(self, after_ms: int) -> None:
        """Close all windows; once the block has ended, and as often as one likes."""
        for partition in range(PARTITIONS):
            self._produce(partition, (END_KEY, 0, self._time + after_ms))
        self.flush()

    def write_batch(self) -> None:
        for _ in range(self._per_batch):
            self._time += STEP_MS
            number = self._draw.randrange(KEYS)
            late_ms = self._draw.choices([100, 800, 5000], [75, 22, 3])[0]
            record = (
                f"key {number:02}",
                self._draw.randrange(1, 1000),
                self._time - self._draw.randrange(late_ms),
            )
            self._produce(number % PARTITIONS, record)

    def _produce(self, partition: int, record: Fed) -> None:
        self.fed[partition].append(record)
        key, number, time = record
        value = number.to_bytes(8, "big")
        self._writer.write(self._topic, value, key, partition, time)
