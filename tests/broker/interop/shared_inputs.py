"""The records that both sides read: drawn, one after the other, with late ones among them."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field

from pystreams.kernel import partitioner
from tests.broker.interop.topologies import GLOBAL, INPUTS
from tests.broker.writing import Writer

PARTITIONS = 2
_KEYS = {
    "left": ("a", "b", "ab", "d"),
    "right": ("a", "b", "ab", "d"),
    "rows": ("a", "b", "ab", "d"),
    "named": ("k0", "k1", "k2"),
    GLOBAL: ("k0", "k1", "a", "b"),
}
_WEIGHTS = (5, 3, 4, 2)
_NEVER_DELETED = "left"
_LONG_MS = 30_000


@dataclass
class SharedInputs:
    """Draws records and writes them.

    Args:
        servers: The broker.
        name: Begins the topics' names.
        seed: Draws everything.
        first_ms: The time of the first record.
    """

    servers: str
    name: str
    seed: int
    time_ms: int
    _draw: random.Random = field(init=False)

    def __post_init__(self) -> None:
        self._draw = random.Random(self.seed)
        self._number = 0
        self._writer = Writer(self.servers, {"linger.ms": 0})

    def change_places(self) -> int:
        """Write a row of each key of the global table; return how many those are."""
        for key in _KEYS[GLOBAL]:
            self.time_ms += 1
            self._write(GLOBAL, key, self.time_ms)
        return len(_KEYS[GLOBAL])

    def steps(self, count: int) -> Iterator[None]:
        """Write a record a step.

        The first ones bring each partition of each topic forward: what comes first after a restart
        must not be late, since Kafka Streams forgets the time its windows had. The last ones let
        go of whatever waits for a match.
        """
        for topic in INPUTS:
            for key in {partition_of(key): key for key in _KEYS[topic]}.values():
                self.time_ms += 1_000
                self._write(topic, key, self.time_ms)
                yield
        for _ in range(count):
            topic = self._draw.choices(INPUTS, _WEIGHTS)[0]
            self.time_ms += self._draw.randrange(2_000)
            late_ms = self._draw.choices([0, 3_000, 9_000], [70, 20, 10])[0]
            key = self._draw.choice(_KEYS[topic])
            self._write(topic, key, self.time_ms - late_ms, may_delete=True)
            yield
        self.time_ms += _LONG_MS
        for topic in ("left", "right"):
            for key in {partition_of(key): key for key in _KEYS[topic]}.values():
                self._write(topic, key, self.time_ms)
                yield

    def _write(self, topic: str, key: str, time_ms: int, *, may_delete: bool = False) -> None:
        self._number += 1
        value: str | None = f"{topic[0]}{self._number}"
        headers: list[tuple[str, bytes | None]] = []
        if may_delete and topic != _NEVER_DELETED and self._draw.random() < 0.2:
            value = None
        if self._draw.random() < 0.3:
            headers.append(("trace", str(self._number).encode()))
        self._writer.write(f"{self.name}-{topic}", value, key, partition_of(key), time_ms, headers)
        self._writer.flush()


def partition_of(key: str) -> int:
    """Return the partition that Kafka's clients choose."""
    return partitioner.partition_of(key.encode(), PARTITIONS)
