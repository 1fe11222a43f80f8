"""Topics of one partition whose records have times: written for a benchmark, read for its check."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

from benchmarks.harness.cluster import Cluster
from benchmarks.harness.output_check import WrongOutputError

_SILENCE_S = 20.0
_STALLED_S = 120.0
_LOOK_S = 0.02
_LAST = 100

Timed = tuple[str, str, int]
"""Key, value and time (ms)."""


def write_timed(bootstrap_servers: str, topic: str, records: Iterable[Timed]) -> None:
    """Write records in order.

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
            "batch.size": 1 << 20,
            "queue.buffering.max.messages": 1_000_000,
            "enable.idempotence": True,
        }
    )
    for key, value, time_ms in records:
        while True:
            try:
                producer.produce(topic, value, key, timestamp=time_ms, on_delivery=on_delivery)
            except BufferError:
                producer.poll(0.1)
            else:
                break
        producer.poll(0)
    producer.flush()
    if failures:
        raise RuntimeError(f"loading {topic}: {failures[0].str()}")


def read_committed(cluster: Cluster, topic: str) -> Iterator[tuple[bytes, bytes | None]]:
    """Yield key and value of each committed record.

    Raises:
        WrongOutputError: The topic can't be read to its end, or a record has no key.
    """
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "group.id": "output-check",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
            "queued.min.messages": 200_000,
        }
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    try:
        while messages := consumer.consume(10_000, 0.2) or consumer.consume(1, _SILENCE_S):
            for message in messages:
                error = message.error()
                if error is not None and error.code() == KafkaError._PARTITION_EOF:
                    return
                key = message.key()
                if error is not None or key is None:
                    raise WrongOutputError(f"{topic}: {error or 'a record without key'}")
                yield key, message.value()
        raise WrongOutputError(f"{topic} can't be read to its end: an open transaction?")
    finally:
        consumer.close()


def wait_for_key(cluster: Cluster, topic: str, key: str, watch: Callable[[], None]) -> None:
    """Wait until one of the last records of a topic, or a later one, has a key.

    Args:
        cluster: Where the topic is.
        watch: Called again and again; fails if nothing will come any more.

    Raises:
        WrongOutputError: Nothing has come for a while.
    """
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "group.id": "output-end",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
        }
    )
    first = max(0, cluster.end_offsets(topic)[0] - _LAST)
    consumer.assign([TopicPartition(topic, 0, first)])
    came_s = time.monotonic()
    try:
        while time.monotonic() < came_s + _STALLED_S:
            watch()
            for message in consumer.consume(10_000, _LOOK_S):
                came_s = time.monotonic()
                if message.error() is None and message.key() == key.encode():
                    return
        raise WrongOutputError(f"{topic} has no record of {key!r}, and nothing comes any more")
    finally:
        consumer.close()
