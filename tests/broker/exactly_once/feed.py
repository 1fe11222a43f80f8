"""The input: for each of many keys the numbers 1, 2, 3, ..., written while the application dies."""

from __future__ import annotations

from tests.broker.writing import Feed, Writer

KEYS = 40
_BATCH_EVERY_S = 0.02


class CountedFeed(Feed):
    """Writes round after round, each key's next number in each, until the block ends.

    Args:
        servers: The broker.
        topic: The input topic.
        records_per_s: How fast.
        batch_every_s: How long from one batch to the next, each of a round or more (s); None for
            short.

    Attributes:
        rounds: The last number written for every key; final once the block has ended.
    """

    def __init__(
        self,
        servers: str,
        topic: str,
        *,
        records_per_s: int,
        batch_every_s: float | None = None,
    ) -> None:
        self.rounds = 0
        if batch_every_s is None:
            batch_every_s = max(_BATCH_EVERY_S, KEYS / records_per_s)
        self._topic = topic
        super().__init__(Writer(servers), batch_every_s=batch_every_s)
        self._rounds_per_batch = max(1, round(records_per_s * batch_every_s / KEYS))

    def write_batch(self) -> None:
        for _ in range(self._rounds_per_batch):
            self.rounds += 1
            number = self.rounds.to_bytes(8, "big")
            for key in range(KEYS):
                self._writer.write(self._topic, number, f"key {key:02}")
