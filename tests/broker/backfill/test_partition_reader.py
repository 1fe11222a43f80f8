"""A worker's own reading of a partition of Kafka: its bounds, and what is gone from within them."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka import TopicPartition as KafkaPartition
from confluent_kafka.admin import AdminClient

from pystreams import StreamsConfig, TopicPartition
from pystreams.backfill import HistoryError, KafkaPartitionReader
from pystreams.backfill.plan.partition_bounds import PartitionBounds
from pystreams.broker import DevelopmentBroker
from tests.broker.conftest import CreateTopic
from tests.broker.reading import answer_of, produce
from tests.broker.transactions import TransactionalWriter
from tests.broker.waiting import DEADLINE_S

RECORDS = 3000
"""More than a worker takes at a time."""


def reader_of(broker: DevelopmentBroker, **settings: Any) -> KafkaPartitionReader:
    own = {"application.id": "reading", "bootstrap.servers": broker.bootstrap_servers, **settings}
    return KafkaPartitionReader(StreamsConfig.of(own))


def offsets(reader: KafkaPartitionReader, partition: TopicPartition, first: int, end: int) -> Any:
    read = reader.read(partition, PartitionBounds(first, end, end - first))
    return [message.offset() for messages in read for message in messages]


def filled(broker: DevelopmentBroker, create_topic: CreateTopic, count: int) -> TopicPartition:
    topic = create_topic("history")
    produce(broker.bootstrap_servers, topic, [(b"k", b"%d" % n) for n in range(count)])
    return TopicPartition(topic, 0)


def delete_before(admin: AdminClient, partition: TopicPartition, offset: int) -> None:
    before = KafkaPartition(partition.topic, partition.partition, offset)
    answer_of(lambda: admin.delete_records([before])[before].result(DEADLINE_S))


def test_bounds_within_a_batch_of_the_broker_are_kept(
    broker: DevelopmentBroker, create_topic: CreateTopic
) -> None:
    partition = filled(broker, create_topic, RECORDS)
    reader = reader_of(broker)

    assert offsets(reader, partition, 0, RECORDS) == list(range(RECORDS))
    assert offsets(reader, partition, 7, 1203) == list(range(7, 1203))
    assert offsets(reader, partition, RECORDS - 1, RECORDS) == [RECORDS - 1]


def test_only_committed_records_are_read_up_to_a_bound_behind_aborted_ones(
    broker: DevelopmentBroker, create_topic: CreateTopic, admin: AdminClient
) -> None:
    topic = create_topic("history")
    writer = TransactionalWriter(broker.bootstrap_servers, f"{topic}-writer")
    for commit in (True, False, True, False):
        writer.begin()
        for _ in range(4):
            writer.write(topic, b"v", b"k")
        if commit:
            writer.commit()
        else:
            writer.abort()

    found = offsets(reader_of(broker), TopicPartition(topic, 0), 0, 20)

    assert found == [0, 1, 2, 3, 10, 11, 12, 13]


@pytest.mark.parametrize("first", [0, 99])
def test_records_that_were_deleted_before_they_are_read_are_told_with_their_cure(
    broker: DevelopmentBroker, create_topic: CreateTopic, admin: AdminClient, first: int
) -> None:
    partition = filled(broker, create_topic, 200)
    delete_before(admin, partition, 100)

    with pytest.raises(HistoryError) as told:
        offsets(reader_of(broker), partition, first, 200)

    assert f"{partition} does not hold offset {first} any more" in str(told.value)
    assert "retention.ms" in str(told.value)
    assert "--start" in str(told.value)


def test_first_offset_that_is_left_is_where_reading_begins(
    broker: DevelopmentBroker, create_topic: CreateTopic, admin: AdminClient
) -> None:
    partition = filled(broker, create_topic, 200)
    delete_before(admin, partition, 100)

    assert offsets(reader_of(broker), partition, 100, 200) == list(range(100, 200))


def test_topic_that_was_made_anew_and_is_shorter_is_told(
    broker: DevelopmentBroker, create_topic: CreateTopic
) -> None:
    partition = filled(broker, create_topic, 10)

    with pytest.raises(HistoryError, match="does not hold offset 50 any more"):
        offsets(reader_of(broker), partition, 50, 60)


def test_timeout_of_zero_leaves_time_to_connect(
    broker: DevelopmentBroker, create_topic: CreateTopic
) -> None:
    partition = filled(broker, create_topic, RECORDS)

    found = offsets(reader_of(broker, **{"task.timeout.ms": 0}), partition, 0, RECORDS)

    assert found == list(range(RECORDS))
