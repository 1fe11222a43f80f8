"""The input: numbers with drawn times, some late, written while the application dies."""

from __future__ import annotations

import random
import threading
from types import TracebackType
from typing import Self

from confluent_kafka import Producer

from tests.broker.killed.windows_model import Fed
from tests.broker.waiting import DEADLINE_S

KEYS = 20
PARTITIONS = 2
STEP_MS = 20
"""How far each record moves the time on, but for its lateness."""
_BATCH_EVERY_S = 0.02
END_KEY = "end"


class TimedFeed:
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
        self._producer = Producer({"bootstrap.servers": servers, "enable.idempotence": True})
        self._per_batch = max(1, round(records_per_s * _BATCH_EVERY_S))
        self._time = first_ms
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._write, name="feed", daemon=True)

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
        self.flush()

    def end(self, after_ms: int) -> None:
        """Close all windows; once the block has ended, and as often as one likes."""
        for partition in range(PARTITIONS):
            self._produce(partition, (END_KEY, 0, self._time + after_ms))
        self.flush()

    def flush(self) -> None:
        assert self._producer.flush(DEADLINE_S) == 0

    def _write(self) -> None:
        while not self._stop.wait(_BATCH_EVERY_S):
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
            self._producer.poll(0)

    def _produce(self, partition: int, record: Fed) -> None:
        self.fed[partition].append(record)
        key, number, time = record
        value = number.to_bytes(8, "big")
        self._producer.produce(self._topic, value, key.encode(), partition, timestamp=time)
