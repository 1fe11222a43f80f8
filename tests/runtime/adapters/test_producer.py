"""Producers outside of transactions: what is sent, what is acknowledged, what is refused."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pystreams import ErrorContext, ErrorResponse, ProductionError, TopicPartition
from pystreams.errors import RetriableClientError, TransactionAbortableError
from pystreams.record import ConsumedMessage, OutputBuffer
from pystreams.runtime.adapters.producing import confluent_producer
from pystreams.runtime.tasks.producers import StreamsProducer
from tests.broker.flushing import flush
from tests.runtime.adapters.application import Application, never_stopped, numbered, numbers, until

if TYPE_CHECKING:
    from collections.abc import Callable


def test_the_last_offset_of_a_changelog_is_known_after_the_flush(application: Application) -> None:
    changelog, sink = application.topic(partitions=2), application.topic()
    producer = application.producer()
    first, second, free = (
        numbered(changelog, 5, 0),
        numbered(changelog, 3, 1),
        numbered(sink, 3, partition=None),
    )
    for output in (first, second, free):
        producer.send(output)
        assert not output.records
        assert output.last_offset is None
    flush(producer)
    assert (first.last_offset, second.last_offset, free.last_offset) == (4, 2, None)

    first.records.append((b"key", None, 5, ()))
    producer.send(first)
    flush(producer)
    assert (first.last_offset, second.last_offset) == (5, 2)


def test_records_arrive_as_they_were_sent(application: Application) -> None:
    topic = application.topic()
    sent = [
        (b"key", b"value", 1_700_000_000_000, ()),
        (b"deleted", None, 1, (("name", b"one"), ("name", None))),
        (b"", b"", 2, ()),
        (None, b"no key", 3, ()),
        (b"key", b"at the epoch", 0, ()),
    ]
    output = OutputBuffer(topic, 0)
    output.records.extend(sent)
    producer = application.producer()
    producer.send(output)
    flush(producer)

    found = [
        (message.key(), message.value(), message.timestamp()[1], tuple(message.headers() or ()))
        for message in _messages(application, topic, len(sent))
    ]
    assert found[:-1] == sent[:-1]
    assert found[-1] == (b"key", b"at the epoch", 1, ()), "librdkafka can't send the time 0"


def test_records_go_where_kafka_would_put_their_keys(application: Application) -> None:
    topic = application.topic(partitions=8)
    output = OutputBuffer(topic)
    output.records.extend((f"key-{number}".encode(), b"", 1, ()) for number in range(6))
    producer = application.producer()
    producer.send(output)
    flush(producer)
    where = {message.key(): message.partition() for message in _messages(application, topic, 6, 8)}
    # Computed with org.apache.kafka.common.utils.Utils.murmur2.
    assert where == {
        f"key-{number}".encode(): _murmur2(f"key-{number}".encode()) % 8 for number in range(6)
    }


def test_a_full_queue_is_waited_for(
    make_application: Callable[[dict[str, Any]], Application],
) -> None:
    application = make_application({"producer.queue.buffering.max.messages": 10})
    topic = application.topic()
    producer = application.producer()
    output = numbered(topic, 300)
    producer.send(output)
    flush(producer)
    assert output.last_offset == 299
    assert numbers(_messages(application, topic, 300)) == list(range(300))


def test_what_was_sent_before_a_full_queue_is_given_up_is_not_sent_again(
    make_application: Callable[[dict[str, Any]], Application],
) -> None:
    application = make_application({"producer.queue.buffering.max.messages": 10})
    topic = application.topic()
    producer = application.producer()
    output = numbered(topic, 30, partition=None)
    producer.gives_up = lambda _: True
    with pytest.raises(RetriableClientError, match="queue is full"):
        producer.send(output)
    assert len(output.records) < 30
    producer.gives_up = lambda _: False
    producer.send(output)
    flush(producer)
    assert sorted(numbers(_messages(application, topic, 30))) == list(range(30))


@pytest.mark.parametrize("limit", ["client", "broker"])
def test_a_record_that_is_too_large_is_refused_by_name(
    make_application: Callable[[dict[str, Any]], Application], limit: str
) -> None:
    settings = {"producer.message.max.bytes": 2000} if limit == "client" else {}
    application = make_application(settings)
    topic = application.topic(max_message_bytes="1000")
    producer = application.producer(topics=[topic])
    with pytest.raises(ProductionError, match=f"{topic}.*too large.*max.message.bytes") as raised:
        _send(producer, topic, b"x" * 5000)
    assert raised.value.topic == topic


@pytest.mark.parametrize("limit", ["client", "broker"])
def test_the_handler_may_drop_a_record_that_is_too_large(
    make_application: Callable[[dict[str, Any]], Application], limit: str
) -> None:
    told: list[ErrorContext] = []

    def drop(context: ErrorContext, error: Exception) -> ErrorResponse:
        assert isinstance(error, ProductionError)
        told.append(context)
        return ErrorResponse.CONTINUE

    settings = {"producer.message.max.bytes": 2000} if limit == "client" else {}
    application = make_application(settings | {"production.exception.handler": drop})
    topic = application.topic(max_message_bytes="1000")
    producer = application.producer(topics=[topic])
    _send(producer, topic, b"1")
    _send(producer, topic, b"x" * 5000)
    _send(producer, topic, b"2")
    assert numbers(_messages(application, topic, 2)) == [1, 2]
    (context,) = told
    assert (context.stage, context.output_topic, context.key) == ("production", topic, b"key")
    assert context.value == b"x" * 5000


def test_a_changelog_record_is_never_dropped(
    make_application: Callable[[dict[str, Any]], Application],
) -> None:
    handler = {"production.exception.handler": "continue"}
    application = make_application(handler)
    topic = application.topic(max_message_bytes="1000")
    output = OutputBuffer(topic, 0, is_changelog=True)
    output.records.append((b"key", b"x" * 5000, 1, ()))
    producer = application.producer(topics=[topic])
    with pytest.raises(ProductionError, match=topic):
        producer.send(output)
    assert output.last_offset is None


@pytest.mark.parametrize("limit", ["client", "broker"])
def test_a_record_for_a_partition_that_the_user_has_chosen_may_be_dropped(
    make_application: Callable[[dict[str, Any]], Application], limit: str
) -> None:
    settings = {"producer.message.max.bytes": 2000} if limit == "client" else {}
    application = make_application(settings | {"production.exception.handler": "continue"})
    topic = application.topic(max_message_bytes="1000" if limit == "broker" else "1000000")
    producer = application.producer(topics=[topic])
    output = OutputBuffer(topic, 0)
    output.records.extend((b"key", value, 1, ()) for value in (b"1", b"x" * 5000, b"2"))
    producer.send(output)
    flush(producer)
    assert numbers(_messages(application, topic, 2)) == [1, 2]
    assert output.last_offset is None, "nobody asks for the offsets of a sink"


def test_tasks_that_go_back_are_not_told_where_their_last_records_went(
    make_application: Callable[[dict[str, Any]], Application],
) -> None:
    """Their stores do not hold those any more: that offset would be ahead of them."""

    def give_up(context: ErrorContext, error: Exception) -> ErrorResponse:
        return ErrorResponse.RETRY

    missing_soon = {"producer.topic.metadata.propagation.max.ms": 500}
    application = make_application(missing_soon | {"production.exception.handler": give_up})
    changelog = application.topic()
    producer = StreamsProducer(application.producer(), None, never_stopped())
    output = numbered(changelog, 5)
    producer.send([output, numbered(f"{application.name}-nowhere", 1, partition=None)])
    with pytest.raises(TransactionAbortableError, match="nowhere"):
        flush(producer.port)
    assert numbers(_messages(application, changelog, 5)) == list(range(5))

    producer.abort()
    flush(producer.port)
    assert output.last_offset is None

    output.records.append((b"key", b"5", 1, ()))
    producer.send([output])
    flush(producer.port)
    assert output.last_offset == 5


def test_a_record_lost_to_a_timeout_means_going_back_to_the_last_commit(
    make_application: Callable[[dict[str, Any]], Application],
) -> None:
    """Sending it again would put it behind records that were sent after it."""
    application = make_application({"producer.delivery.timeout.ms": 1000})
    producer = application.producer()
    producer.send(numbered(f"{application.name}-nowhere", 1, partition=None))
    with pytest.raises(TransactionAbortableError, match=f"{application.name}-nowhere"):
        flush(producer)


def test_closing_throws_away_what_was_not_sent(
    make_application: Callable[[dict[str, Any]], Application],
) -> None:
    application = make_application({"bootstrap.servers": "127.0.0.1:1"})
    producer = application.producer()
    producer.send(numbered("topic", 1))
    producer.close()
    producer.close()


def _send(producer: confluent_producer.ConfluentProducer, topic: str, value: bytes) -> None:
    output = OutputBuffer(topic)
    output.records.append((b"key", value, 1, ()))
    producer.send(output)
    flush(producer)


def _messages(
    application: Application, topic: str, count: int, partitions: int = 1
) -> list[ConsumedMessage]:
    reader = application.restore_consumer()
    reader.assign({TopicPartition(topic, number): 0 for number in range(partitions)})
    found: list[ConsumedMessage] = []

    def enough() -> bool:
        for batch in reader.poll(1000, 0.1):
            found.extend(batch.messages)
        return len(found) >= count

    until(enough, f"{count} records (there are {len(found)})")
    return found


def _murmur2(data: bytes) -> int:
    mask, multiplier = 0xFFFFFFFF, 0x5BD1E995
    hashed = 0x9747B28C ^ len(data)
    whole = len(data) & ~3
    for start in range(0, whole, 4):
        part = int.from_bytes(data[start : start + 4], "little") * multiplier & mask
        part = (part ^ part >> 24) * multiplier & mask
        hashed = (hashed * multiplier & mask) ^ part
    if len(data) > whole:
        hashed ^= int.from_bytes(data[whole:], "little")
        hashed = hashed * multiplier & mask
    hashed = (hashed ^ hashed >> 13) * multiplier & mask
    return (hashed ^ hashed >> 15) & 0x7FFFFFFF
