"""The input: for each of many keys the numbers 1, 2, 3, ..., written while the application dies."""

from __future__ import annotations

import threading
from types import TracebackType
from typing import Self

from confluent_kafka import Producer

from tests.broker.waiting import DEADLINE_S

KEYS = 40
_BATCH_EVERY_S = 0.02


class Feed:
    """Writes round after round, each key's next number in each, until the block ends.

    Args:
        servers: The broker.
        topic: The input topic.
        records_per_s: How fast; no slower than a round a batch.
        batch_every_s: How long from one batch to the next (s).

    Attributes:
        rounds: The last number written for every key; final once the block has ended.
    """

    def __init__(
        self,
        servers: str,
        topic: str,
        *,
        records_per_s: int,
        batch_every_s: float = _BATCH_EVERY_S,
    ) -> None:
        self.rounds = 0
        self._topic = topic
        settings = {"enable.idempotence": True, "topic.metadata.refresh.interval.ms": 5_000}
        self._producer = Producer({"bootstrap.servers": servers, **settings})
        self._rounds_per_batch = max(1, round(records_per_s * batch_every_s / KEYS))
        self._batch_every_s = batch_every_s
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
        assert self._producer.flush(DEADLINE_S) == 0

    def _write(self) -> None:
        while not self._stop.wait(self._batch_every_s):
            for _ in range(self._rounds_per_batch):
                self.rounds += 1
                number = self.rounds.to_bytes(8, "big")
                for key in range(KEYS):
                    self._produce(f"key {key:02}".encode(), number)
            self._producer.poll(0)

    def _produce(self, key: bytes, number: bytes) -> None:
        """Write one record; while the broker is away for long, there is no room to wait in."""
        while True:
            try:
                self._producer.produce(self._topic, number, key)
            except BufferError:
                self._producer.poll(0.1)
            else:
                return
