"""Records land where Kafka Streams' default partitioner puts them: murmur2 of the key's bytes."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from pystreams import StreamsConfig, TopicPartition
from pystreams.broker import DevelopmentBroker
from pystreams.record import OutputBuffer
from pystreams.runtime.adapters.client_factory import ConfluentClients
from tests.broker.flushing import flush
from tests.broker.waiting import wait_until

GOLDEN = json.loads(
    (Path(__file__).parents[2] / "parity" / "golden" / "partitioner.json").read_text()
)


@pytest.mark.parametrize("count", [1, 3, 8, 50])
def test_the_producer_chooses_the_partitions_that_java_chose(
    broker: DevelopmentBroker, create_topic: Callable[..., str], count: int
) -> None:
    topic = create_topic("murmur2", partitions=count)
    config = {"application.id": "murmur2", "bootstrap.servers": broker.bootstrap_servers}
    clients = ConfluentClients(StreamsConfig.of(config))
    producer = clients.producer("murmur2", None)
    output = OutputBuffer(topic)
    expected = {}
    for vector in GOLDEN["keys"]:
        key = base64.b64decode(vector["key"])
        output.records.append((key, b"", 1, ()))
        expected[key] = vector["partitions"][str(count)]

    producer.send(output)
    flush(producer)
    producer.close()

    assert read_partitions(clients, topic, count, len(expected)) == expected


def read_partitions(
    clients: ConfluentClients, topic: str, count: int, records: int
) -> dict[bytes | None, int]:
    """Read a topic until it has given so many records; return the partition of each key."""
    consumer = clients.restore_consumer("murmur2")
    consumer.assign({TopicPartition(topic, number): 0 for number in range(count)})
    found: dict[bytes | None, int] = {}

    def all_found() -> bool:
        for batch in consumer.poll(1000, 0.1):
            found.update((message.key(), batch.partition.partition) for message in batch.messages)
        return len(found) >= records

    wait_until(all_found, f"{records} records", told=lambda: f"{len(found)}")
    consumer.close()
    return found
