"""The input: records with random keys, loaded into a topic, and the truth about them."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from dataclasses import dataclass

from confluent_kafka import KafkaError, Message, Producer

_CHUNK_RECORDS = 50_000


@dataclass(frozen=True, slots=True)
class Workload:
    """What the input looks like.

    Attributes:
        records: How many records.
        keys: How many different keys; each record's is drawn at random, all alike.
        value_bytes: Length of each value.
        partitions: Partitions of the topic; keys are spread by Kafka's murmur2.
        seed: Of the random keys.
    """

    records: int
    keys: int
    value_bytes: int
    partitions: int = 1
    seed: int = 20130101

    def load(self, bootstrap_servers: str, topic: str) -> Counter[bytes]:
        """Write the records to a topic that exists.

        Returns:
            The truth: how many records each key has.
        """
        return write_records(bootstrap_servers, topic, self)


def write_records(bootstrap_servers: str, topic: str, workload: Workload) -> Counter[bytes]:
    """Write a workload's records; return how many each key got.

    Raises:
        RuntimeError: The broker refused a record.
    """
    failures: list[KafkaError] = []

    def on_delivery(error: KafkaError | None, _message: Message) -> None:
        if error is not None:
            failures.append(error)

    producer = Producer(
        {
            "bootstrap.servers": bootstrap_servers,
            "linger.ms": 50,
            "log_level": 3,
            "batch.size": 1 << 20,
            "queue.buffering.max.messages": 1_000_000,
            "partitioner": "murmur2_random",
            "enable.idempotence": True,
        }
    )
    keys = [f"key{number:07d}".encode() for number in range(workload.keys)]
    value = ("v" * workload.value_bytes).encode()
    chooser = random.Random(workload.seed)
    truth: Counter[bytes] = Counter()
    remaining = workload.records
    while remaining:
        chunk = chooser.choices(keys, k=min(remaining, _CHUNK_RECORDS))
        truth.update(chunk)
        remaining -= len(chunk)
        for key in itertools.islice(chunk, len(chunk) - 1):
            _produce(producer, topic, value, key)
        # Deliveries are in order a partition; a callback for each would only cost time.
        producer.produce(topic, value, chunk[-1], on_delivery=on_delivery)
        producer.poll(0)
    producer.flush()
    if failures:
        raise RuntimeError(f"loading {topic}: {failures[0].str()}")
    return truth


def _produce(producer: Producer, topic: str, value: bytes, key: bytes) -> None:
    while True:
        try:
            producer.produce(topic, value, key)
        except BufferError:
            producer.poll(0.1)
        else:
            return
