"""A broker refuses batches, not records: what that means for the records of one.

Each test sends all its records before it flushes, so that they share batches.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import KafkaError, Producer
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)

from pystreams import ErrorContext, ErrorResponse, ProductionError, TopicPartition
from pystreams.errors import RetriableClientError, TransactionAbortableError
from pystreams.record import OutputBuffer, ProducedRecord
from pystreams.testing.simulation import ManualClock
from tests.broker import reading
from tests.broker.flushing import flush
from tests.broker.waiting import DEADLINE_S, wait_until
from tests.runtime.adapters.application import Application, MakeApplication, until

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pystreams.broker import DevelopmentBroker
    from pystreams.runtime.adapters.producing.confluent_producer import ConfluentProducer

LIMIT = 20_000
MANY = 2_000
TRANSACTIONAL = {"processing.guarantee": "exactly_once"}


class Handler:
    """A production handler that writes down what it was asked."""

    def __init__(self, response: ErrorResponse = ErrorResponse.CONTINUE) -> None:
        self.asked: list[ErrorContext] = []
        self._response = response

    def __call__(self, context: ErrorContext, error: Exception) -> ErrorResponse:
        assert isinstance(error, ProductionError)
        self.asked.append(context)
        return self._response

    def settings(self) -> dict[str, Any]:
        return {"production.exception.handler": self}


def small(count: int = MANY) -> list[ProducedRecord]:
    """Records of 100 bytes: many times the limit of the topic, were they one batch."""
    return [(b"key", b"%04d" % number + b"x" * 96, 1, ()) for number in range(count)]


def large(key: bytes = b"large", size: int = 5 * LIMIT) -> ProducedRecord:
    return (key, b"y" * size, 1, ())


@pytest.fixture(params=["known", "unknown"])
def known(request: pytest.FixtureRequest) -> bool:
    """Whether the producer is told its topics, as the runtime does; others are made later."""
    return bool(request.param == "known")


# ---------------------------------------------------------------------- without transactions


def test_many_small_records_reach_a_topic_of_small_batches(
    make_application: MakeApplication, known: bool
) -> None:
    handler = Handler()
    application = make_application(handler.settings())
    topic = application.topic(max_message_bytes=str(LIMIT))
    producer = application.producer(topics=[topic] if known else [])

    rounds = send_until_taken(producer, topic, small())

    assert rounds == (1 if known else 2), "it is learnt once, and then known"
    assert last(values(application, topic), MANY) == [value for _, value, *_ in small()]
    assert handler.asked == []


def test_only_the_record_that_is_too_large_is_dropped(
    make_application: MakeApplication, known: bool
) -> None:
    handler = Handler()
    application = make_application(handler.settings())
    topic = application.topic(max_message_bytes=str(LIMIT))
    producer = application.producer(topics=[topic] if known else [])
    records = small(100)

    send_until_taken(producer, topic, [*records[:50], large(), *records[50:]])

    assert last(values(application, topic), 100) == [value for _, value, *_ in records]
    assert [context.key for context in handler.asked] == [b"large"]


def test_the_error_names_the_one_record_that_is_too_large(
    make_application: MakeApplication, known: bool
) -> None:
    application = make_application({})
    topic = application.topic(max_message_bytes=str(LIMIT))
    producer = application.producer(topics=[topic] if known else [])

    with pytest.raises(ProductionError, match=rf"{topic}.*b'large'.*too large.*max.message.bytes"):
        send_until_taken(producer, topic, [*small(100), large(), *small(100)])


def test_a_limit_that_is_lowered_while_the_application_runs_is_learnt(
    make_application: MakeApplication, broker: DevelopmentBroker
) -> None:
    handler = Handler()
    application = make_application(handler.settings())
    topic = application.topic()
    producer = application.producer(topics=[topic])
    assert send_until_taken(producer, topic, small()) == 1

    set_limit(broker, topic, LIMIT)
    assert send_until_taken(producer, topic, small()) == 2
    assert send_until_taken(producer, topic, small()) == 1

    assert last(values(application, topic), MANY) == [value for _, value, *_ in small()]
    assert handler.asked == []


def test_a_limit_that_is_raised_while_the_application_runs_lets_the_record_through(
    make_application: MakeApplication, broker: DevelopmentBroker
) -> None:
    handler, clock = Handler(), ManualClock()
    application = make_application(handler.settings(), clock)
    topic = application.topic(max_message_bytes=str(LIMIT))
    producer = application.producer(topics=[topic])

    set_limit(broker, topic, 10 * LIMIT)
    clock.advance_ms(5_000)
    send_until_taken(producer, topic, [large()])

    assert handler.asked == []
    assert last(values(application, topic), 1) == [large()[1]]


def test_a_large_record_that_compresses_well_is_taken(make_application: MakeApplication) -> None:
    application = make_application({"producer.compression.type": "lz4"})
    topic = application.topic(max_message_bytes=str(LIMIT))
    producer = application.producer(topics=[topic])

    assert send_until_taken(producer, topic, [*small(10), large(), *small(10)]) == 1

    assert len(values(application, topic)) == 21


@pytest.mark.parametrize("response", [ErrorResponse.CONTINUE, ErrorResponse.FAIL])
def test_a_record_without_a_key_for_a_compacted_topic_takes_no_other_with_it(
    make_application: MakeApplication, response: ErrorResponse
) -> None:
    """The broker calls it invalid, and the others of its batch invalid for its sake."""
    handler = Handler(response)
    application = make_application(handler.settings())
    topic = application.topic(cleanup_policy="compact")
    producer = application.producer(topics=[topic])
    with_keys: list[ProducedRecord] = [
        (b"%d" % number, b"%d" % number, 1, ()) for number in range(9)
    ]
    records = [*with_keys[:5], (None, b"wrong", 1, ()), *with_keys[5:]]

    if response is ErrorResponse.FAIL:
        with pytest.raises(ProductionError, match="without a key"):
            send_until_taken(producer, topic, records)
    else:
        send_until_taken(producer, topic, records)
        assert last(values(application, topic), 9) == [value for _, value, *_ in with_keys]
        assert send_until_taken(producer, topic, with_keys) == 1
    assert [context.value for context in handler.asked] == [b"wrong"]


def test_many_small_changelog_records_reach_a_changelog_of_small_batches(
    make_application: MakeApplication,
) -> None:
    application = make_application({})
    topic = application.topic(max_message_bytes=str(LIMIT))
    producer = application.producer()

    output = OutputBuffer(topic, 0, is_changelog=True)
    rounds = send_until_taken(producer, topic, small(), output)

    assert rounds == 2
    assert last(values(application, topic), MANY) == [value for _, value, *_ in small()]
    assert output.last_offset is not None


def test_a_retry_of_a_record_that_is_wrong_is_a_failure(make_application: MakeApplication) -> None:
    handler = Handler(ErrorResponse.RETRY)
    application = make_application(handler.settings())
    topic = application.topic(max_message_bytes=str(LIMIT))
    producer = application.producer(topics=[topic])

    with pytest.raises(ProductionError, match="too large"):
        send_until_taken(producer, topic, [large()])
    assert len(handler.asked) == 1


def test_a_retry_of_a_record_the_client_refuses_is_a_failure(
    make_application: MakeApplication,
) -> None:
    handler = Handler(ErrorResponse.RETRY)
    application = make_application(handler.settings() | {"producer.message.max.bytes": 2000})
    producer = application.producer()
    output = OutputBuffer(application.topic())
    output.records.append(large())

    with pytest.raises(ProductionError, match="too large"):
        producer.send(output)
    assert len(handler.asked) == 1


def test_a_retry_while_the_topic_is_missing_goes_on_from_the_last_commit(
    make_application: MakeApplication,
) -> None:
    handler = Handler(ErrorResponse.RETRY)
    settings = {"producer.topic.metadata.propagation.max.ms": 500}
    application = make_application(handler.settings() | settings)
    producer = application.producer()
    topic = f"{application.name}-later"
    output = OutputBuffer(topic)
    output.records.append(small(1)[0])
    producer.send(output)

    def flushed() -> bool:
        with suppress(RetriableClientError):
            producer.flush()
        return False

    with pytest.raises(TransactionAbortableError, match=topic):
        until(flushed, "the topic's absence")
    assert len(handler.asked) == 1


# ---------------------------------------------------------------------- in transactions


def test_many_small_records_of_a_transaction_reach_a_topic_of_small_batches(
    make_application: MakeApplication, known: bool
) -> None:
    application = make_application(TRANSACTIONAL)
    topic = application.topic(max_message_bytes=str(LIMIT))
    producer = application.transactional(topics=[topic] if known else [])

    rounds = commit_until_taken(producer, topic, small())

    assert rounds == (1 if known else 2), "it is learnt once, and then known"
    assert values(application, topic, MANY) == [value for _, value, *_ in small()]


def test_only_the_record_of_a_transaction_that_is_too_large_is_dropped(
    make_application: MakeApplication, known: bool
) -> None:
    handler = Handler()
    application = make_application(TRANSACTIONAL | handler.settings())
    topic = application.topic(max_message_bytes=str(LIMIT))
    producer = application.transactional(topics=[topic] if known else [])
    records = small(100)

    commit_until_taken(producer, topic, [*records[:50], large(), *records[50:]])

    assert values(application, topic, 100) == [value for _, value, *_ in records]
    assert [context.key for context in handler.asked] == [b"large"]


def test_the_error_names_the_one_record_of_a_transaction_that_is_wrong(
    make_application: MakeApplication,
) -> None:
    """Only the broker knows: the transaction is lost, whatever the handler would say."""
    handler = Handler()
    application = make_application(TRANSACTIONAL | handler.settings())
    topic = application.topic(cleanup_policy="compact")
    producer = application.transactional(topics=[topic])
    records = [*small(5), (None, b"wrong", 1, ()), *small(5)]

    with pytest.raises(ProductionError, match=f"{topic}.*without a key.*give it one"):
        commit_until_taken(producer, topic, records)
    assert handler.asked == []


def test_the_record_that_is_wrong_is_found_by_producers_that_take_each_others_place(
    make_application: MakeApplication,
) -> None:
    """As those of a publisher, which makes a new one for each attempt."""
    application = make_application(TRANSACTIONAL)
    topic = application.topic(cleanup_policy="compact")
    records = [*small(5), (None, b"wrong", 1, ()), *small(5)]

    def commit() -> None:
        producer = application.transactional()
        try:
            commit_once(producer, OutputBuffer(topic), records)
        finally:
            producer.close()

    with pytest.raises(ProductionError, match=f"{topic}.*without a key.*give it one"):
        rounds_of(commit, lambda: None)


def test_a_refusal_that_shows_before_all_is_sent_is_learnt_from_as_well(
    make_application: MakeApplication,
) -> None:
    application = make_application(TRANSACTIONAL)
    topic = application.topic(max_message_bytes=str(LIMIT))
    producer = application.transactional()
    producer.begin_transaction()
    output = OutputBuffer(topic)
    output.records.extend(small())
    producer.send(output)
    flush(producer)
    output.records.extend(small(1))
    with pytest.raises(TransactionAbortableError, match="too large"):
        producer.send(output)
    producer.abort_transaction()

    assert commit_until_taken(producer, topic, small()) == 1
    assert values(application, topic, MANY) == [value for _, value, *_ in small()]


# ---------------------------------------------------------------------- what tests do


def send_until_taken(
    producer: ConfluentProducer,
    topic: str,
    records: Sequence[ProducedRecord],
    output: OutputBuffer | None = None,
) -> int:
    """Send again from the last commit, as the runtime does; return how often it took."""
    output = output or OutputBuffer(topic)

    def send() -> None:
        output.records[:] = records
        producer.send(output)
        flush(producer)

    return rounds_of(send, lambda: None)


def commit_until_taken(
    producer: ConfluentProducer, topic: str, records: Sequence[ProducedRecord]
) -> int:
    """Send and commit again after an abort, as the runtime does; return how often it took."""
    output = OutputBuffer(topic)
    return rounds_of(lambda: commit_once(producer, output, records), producer.abort_transaction)


def commit_once(
    producer: ConfluentProducer, output: OutputBuffer, records: Sequence[ProducedRecord]
) -> None:
    output.records[:] = records
    producer.begin_transaction()
    producer.send(output)
    flush(producer)
    producer.commit_transaction({}, None)


def rounds_of(attempt: Callable[[], None], give_up: Callable[[], None]) -> int:
    for number in range(1, 7):
        try:
            attempt()
        except TransactionAbortableError:
            give_up()
        else:
            return number
    raise AssertionError("it meets the same end for ever")


def set_limit(broker: DevelopmentBroker, topic: str, limit: int) -> None:
    """Set what a topic takes, and wait until the broker goes by it."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    entry = ConfigEntry(
        "max.message.bytes", str(limit), incremental_operation=AlterConfigOpType.SET
    )
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    reading.answer_of(
        lambda: admin.incremental_alter_configs([resource])[resource].result(DEADLINE_S)
    )
    # Brokers show it a moment before a log goes by it.
    wait_until(lambda: takes(broker, topic, 5 * LIMIT) == (limit > 5 * LIMIT), "the new limit")


def takes(broker: DevelopmentBroker, topic: str, size: int) -> bool:
    """Return whether a broker takes a record of such a size."""
    told: list[KafkaError | None] = []
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "message.timeout.ms": 0})
    producer.produce(topic, b"z" * size, on_delivery=lambda error, _: told.append(error))
    wait_until(lambda: not producer.flush(1.0), "what became of it")
    (error,) = told
    assert error is None or error.code() == KafkaError.MSG_SIZE_TOO_LARGE, error
    return error is None


def values(application: Application, topic: str, count: int | None = None) -> list[bytes | None]:
    """Return what is in a topic's first partition; so many at least."""
    reader = application.restore_consumer()
    partition = TopicPartition(topic, 0)
    reader.assign({partition: 0})
    found: list[bytes | None] = []
    ends: list[int] = []

    def at_the_end() -> bool:
        for batch in reader.poll(10_000, 0.1):
            found.extend(message.value() for message in batch.messages)
            if batch.end_reached_at is not None:
                ends.append(batch.end_reached_at)
        return bool(ends) if count is None else len(found) >= count

    until(at_the_end, f"the records of {topic} (there are {len(found)})")
    return found


def last(found: list[bytes | None], count: int) -> list[bytes | None]:
    return found[-count:]
