"""Keys that are counted: how often each is in the input, and whether all its results came out.

A key is a number behind a word, so that millions of them cost eight bytes each, and results are
checked as they come and not kept.
"""

from __future__ import annotations

from array import array

from confluent_kafka import Producer

from benchmarks.harness.cluster import Cluster
from benchmarks.harness.output_check import WrongOutputError

_WORD = b"key-"
_PROBLEMS_SHOWN = 5


def key_of(number: int) -> bytes:
    """Return the key with this number."""
    return b"%s%d" % (_WORD, number)


class CountedKeys:
    """What is in an input and what has come out of it; one thread may write, another one see.

    Args:
        keys: How many keys there may be; their numbers begin at 0.

    Attributes:
        written: Records of the input.
        seen: Results.
    """

    def __init__(self, keys: int) -> None:
        self.written = self.seen = 0
        self._written, self._seen = (array("I", [0]) * keys for _ in range(2))
        self._problems: list[str] = []

    def write(self, number: int) -> None:
        """Note that there is another record of a key."""
        self._written[number] += 1
        self.written += 1

    def see(self, key: bytes, value: bytes) -> None:
        """Take the next result."""
        self.seen += 1
        digits = key.removeprefix(_WORD)
        number = int(digits) if digits.isdigit() else len(self._seen)
        if number >= len(self._seen):
            self._note(f"{key!r} is not in the input")
            return
        count = int.from_bytes(value, "big", signed=True)
        before = self._seen[number]
        if count != before + 1:
            self._note(f"{key!r} goes from {before} to {count} (output record {self.seen})")
        self._seen[number] = max(count, 0)

    def check(self) -> None:
        """See that each record was counted, once and in order.

        Raises:
            WrongOutputError: It was not.
        """
        if self._seen != self._written:
            for number, (found, expected) in enumerate(zip(self._seen, self._written, strict=True)):
                if found != expected:
                    self._note(f"{key_of(number)!r} ends at {found}, the input has {expected}")
        if self._problems:
            raise WrongOutputError("; ".join(self._problems))
        if self.seen != self.written:
            raise WrongOutputError(f"{self.seen} results of {self.written} records")

    def _note(self, problem: str) -> None:
        if len(self._problems) < _PROBLEMS_SHOWN:
            self._problems.append(problem)


def load(cluster: Cluster, topic: str, keys: int, counted: CountedKeys) -> None:
    """Write one record of each key, from 0, to an empty topic; Kafka's murmur2 spreads them.

    Raises:
        RuntimeError: The broker did not take all of them.
    """
    producer = Producer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "linger.ms": 50,
            "log_level": 3,
            "batch.size": 1 << 20,
            "queue.buffering.max.messages": 1_000_000,
            "partitioner": "murmur2_random",
            "enable.idempotence": True,
        }
    )
    for number in range(keys):
        key = key_of(number)
        while True:
            try:
                producer.produce(topic, b"", key)
            except BufferError:
                producer.poll(0.1)
            else:
                break
        counted.write(number)
    producer.flush()
    taken = sum(cluster.end_offsets(topic))
    if taken != keys:
        raise RuntimeError(f"loading {topic}: the broker has {taken} of {keys} records")
