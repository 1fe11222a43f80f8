"""Internal topics on the broker: Kafka Streams' names, partition counts, settings; their purge."""

from __future__ import annotations

from pathlib import Path

from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType

from pystreams.broker import DevelopmentBroker
from tests.broker.application import Application
from tests.broker.conftest import CreateTopic
from tests.broker.reading import (
    answer_of,
    beginning_of,
    produce,
    read_all,
    reader_of,
    topics_of,
)
from tests.broker.waiting import DEADLINE_S

PARTITIONS = 3
REPARTITION_PARTITIONS = 2
CODE = """
from pystreams import StreamsBuilder, serdes

builder = StreamsBuilder()
source = builder.stream("{source}", key_serde=serdes.STRING, value_serde=serdes.LONG)
source.group_by_key().count(name="by-key")
wider = source.select_key(lambda key, value: key[-1]).repartition(
    name="wider", num_partitions={repartition_partitions}, key_serde=serdes.STRING
)
wider.group_by_key().count(name="by-digit").to_stream().to("{output}")
"""


def settings_of(admin: AdminClient, topic: str) -> dict[str, str]:
    """Return the settings of a topic that are its own."""
    resource = ConfigResource(ResourceType.TOPIC, topic)
    entries = answer_of(lambda: admin.describe_configs([resource])[resource].result(DEADLINE_S))
    return {
        name: str(entry.value)
        for name, entry in entries.items()
        if not entry.is_default and entry.source == 1
    }


def test_internal_topics_are_made_as_kafka_streams_makes_them(
    broker: DevelopmentBroker,
    admin: AdminClient,
    create_topic: CreateTopic,
    unique_name: str,
    tmp_path: Path,
) -> None:
    file = tmp_path / "digits.py"
    source, output = create_topic(partitions=PARTITIONS), create_topic()
    file.write_text(
        CODE.format(source=source, output=output, repartition_partitions=REPARTITION_PARTITIONS)
    )
    settings = {"bootstrap.servers": broker.bootstrap_servers, "topic.segment.ms": 3_600_000}
    with Application(unique_name, tmp_path, file, settings) as application:
        running = application.start()
        running.wait_for_tasks(PARTITIONS + REPARTITION_PARTITIONS)
        running.stop()

    with reader_of(broker.bootstrap_servers) as consumer:
        internal = {
            name: partitions
            for name, partitions in topics_of(consumer).items()
            if name.startswith(f"{unique_name}-")
        }
    assert internal == {
        f"{unique_name}-by-key-changelog": PARTITIONS,
        f"{unique_name}-wider-repartition": REPARTITION_PARTITIONS,
        f"{unique_name}-by-digit-changelog": REPARTITION_PARTITIONS,
    }
    for store in ("by-key", "by-digit"):
        assert settings_of(admin, f"{unique_name}-{store}-changelog") == {
            "cleanup.policy": "compact",
            "message.timestamp.type": "CreateTime",
            "segment.ms": "3600000",
        }
    assert settings_of(admin, f"{unique_name}-wider-repartition") == {
        "cleanup.policy": "delete",
        "message.timestamp.type": "CreateTime",
        "retention.ms": "-1",
        "segment.bytes": "52428800",
        "segment.ms": "3600000",
    }


def test_records_of_a_repartition_topic_are_deleted_once_they_are_committed(
    broker: DevelopmentBroker, create_topic: CreateTopic, unique_name: str, tmp_path: Path
) -> None:
    servers = broker.bootstrap_servers
    file = tmp_path / "digits.py"
    source, output = create_topic(), create_topic()
    file.write_text(CODE.format(source=source, output=output, repartition_partitions=1))
    settings = {
        "bootstrap.servers": servers,
        "processing.guarantee": "exactly_once",
        "repartition.purge.interval.ms": 200,
        "statestore.cache.max.bytes": 0,
    }
    produce(servers, source, [(b"key 1", bytes(8))] * 500)
    with (
        Application(unique_name, tmp_path, file, settings) as application,
        reader_of(servers) as consumer,
    ):
        partition = TopicPartition(f"{unique_name}-wider-repartition", 0)
        running = application.start()
        running.wait_for_tasks(2)
        running.wait_until(
            lambda: beginning_of(consumer, partition) >= 500,
            "the purge",
        )
        running.stop()

    assert len(read_all(servers, output)) == 500
