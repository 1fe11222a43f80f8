"""Whether an output is right. No number of a run counts before this has passed.

An output topic holds counts: each record's value is how often its key had come by then. Values
are big-endian integers (Kafka's long, Quix's int). Readers are read_committed.

- Always: the last count of each key is the number of its records in the input.
- Without a record cache: the counts of each key are 1, 2, ..., n, no gap and no repeat. Demanded
  under exactly-once; under at-least-once too, because nothing crashed.
- With a cache: the counts of each key rise.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from confluent_kafka import Consumer, KafkaError, TopicPartition

from benchmarks.harness.cluster import Cluster

_PROBLEMS_SHOWN = 5
_SILENCE_S = 20.0


class WrongOutputError(Exception):
    """An output is not what the input demands; the run does not count."""


@dataclass(slots=True)
class OutputCheck:
    """Checks one output, record by record.

    Args:
        truth: How many records each key has in the input.
        every_count: Whether every count must be there, or only rising ones.

    Attributes:
        records: Records seen.
        problems: What is wrong, the first few.
    """

    truth: Mapping[bytes, int]
    every_count: bool
    records: int = 0
    problems: list[str] = field(default_factory=list)
    _last: dict[bytes, int] = field(default_factory=dict)

    def see(self, key: bytes, value: bytes) -> None:
        """Take the next record of the output."""
        self.records += 1
        count = int.from_bytes(value, "big", signed=True)
        before = self._last.get(key, 0)
        if count != before + 1 and (self.every_count or count <= before):
            self._note(f"{key!r} goes from {before} to {count} (output record {self.records})")
        self._last[key] = count

    def finish(self) -> None:
        """Compare the last counts with the truth.

        Raises:
            WrongOutputError: Something is wrong.
        """
        for key, expected in self.truth.items():
            found = self._last.get(key)
            if found != expected:
                self._note(f"{key!r} ends at {found}, the input has {expected}")
        for key in self._last.keys() - self.truth.keys():
            self._note(f"{key!r} is not in the input")
        if self.problems:
            raise WrongOutputError("; ".join(self.problems))

    def _note(self, problem: str) -> None:
        if len(self.problems) < _PROBLEMS_SHOWN:
            self.problems.append(problem)


def check_output(
    cluster: Cluster, topic: str, truth: Mapping[bytes, int], *, every_count: bool
) -> int:
    """Read an output topic to its end and check it.

    Args:
        cluster: Where it is.
        topic: The output topic.
        truth: How many records each key has in the input.
        every_count: Whether every count must be there (no record cache).

    Returns:
        How many records the output has.

    Raises:
        WrongOutputError: The output is wrong.
    """
    check = OutputCheck(truth, every_count)
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "group.id": "output-check",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
            "auto.offset.reset": "earliest",
            "queued.min.messages": 200_000,
        }
    )
    try:
        _read_to_end(consumer, topic, len(cluster.end_offsets(topic)), check)
    finally:
        consumer.close()
    check.finish()
    return check.records


def _read_to_end(consumer: Consumer, topic: str, partitions: int, check: OutputCheck) -> None:
    consumer.assign([TopicPartition(topic, number, 0) for number in range(partitions)])
    reading = set(range(partitions))
    see = check.see
    while reading:
        messages = consumer.consume(10_000, 0.2) or consumer.consume(1, _SILENCE_S)
        if not messages:
            raise WrongOutputError(f"{topic} can't be read to its end: an open transaction?")
        for message in messages:
            error = message.error()
            if error is None:
                key, value = message.key(), message.value()
                assert key is not None
                assert value is not None
                see(key, value)
            elif error.code() == KafkaError._PARTITION_EOF:
                reading.discard(message.partition() or 0)
            else:
                raise WrongOutputError(f"{topic}: {error.str()}")
