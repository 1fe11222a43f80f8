"""Who is asked about a record that a topic does not take, and what an answer means."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka import KafkaError

from pystreams import (
    ErrorContext,
    ErrorResponse,
    ProcessingError,
    ProductionError,
    StreamsConfig,
    TaskId,
    TopicPartition,
    log_and_continue,
    log_and_fail,
)
from pystreams.config.clients import producer_config
from pystreams.origin import Origin
from pystreams.record import OutputBuffer, ProducedRecord, StaticMessage
from pystreams.runtime.adapters.connection.connections import BrokerOutage
from pystreams.runtime.adapters.producing.batch_limits import BatchLimits, BatchSize
from pystreams.runtime.adapters.producing.confluent_producer import ConfluentProducer
from pystreams.runtime.adapters.producing.delivery_reports import Failure
from pystreams.runtime.adapters.producing.refused_records import RefusedRecords
from pystreams.runtime.core.failures.dead_letters import HEADER_EXCEPTION, HEADER_OUTPUT_TOPIC
from pystreams.runtime.core.failures.error_handlers import ErrorHandler, handler_of
from pystreams.testing.simulation.clock import ManualClock

WRONG: ProducedRecord = (None, b"a secret", 1, ())
INVALID = KafkaError(KafkaError.INVALID_RECORD)
TOO_LARGE = KafkaError(KafkaError.MSG_SIZE_TOO_LARGE)


def records_of(handler: ErrorHandler) -> RefusedRecords:
    limits = BatchLimits(lambda _: {}, ManualClock())
    config = {"message.max.bytes": 1_000_000, "batch.size": 1_000_000}
    return RefusedRecords(handler, BatchSize(config, limits, ()))


def test_a_handler_that_raises_is_named_with_what_it_was_asked_about() -> None:
    def forgetful(_context: ErrorContext, _error: Exception) -> ErrorResponse:
        raise KeyError("forgot")

    with pytest.raises(ProcessingError) as caught:
        records_of(forgetful).decide(INVALID, "out", 3, WRONG)

    error = caught.value
    assert (error.task_id, error.node, error.topic, error.partition) == (None, None, None, None)
    assert str(error).startswith("the handler of production errors raised KeyError: 'forgot'")
    for part in ("a record for out", "the producer raised ProductionError", "without a key"):
        assert part in str(error)
    assert isinstance(error.__cause__, KeyError)


def test_a_changelog_has_no_handler() -> None:
    asked = records_of(log_and_continue)
    asked.know(OutputBuffer("changelog", 0, is_changelog=True, task_id=TaskId(0, 0)))
    with pytest.raises(ProductionError, match=r"task 0_0: .*'changelog' .*without a key"):
        asked.decide(INVALID, "changelog", 0, WRONG)


@pytest.mark.parametrize(
    ("code", "cure"),
    [
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, "grant WRITE on the topic, and start again"),
        (KafkaError.CLUSTER_AUTHORIZATION_FAILED, "grant IDEMPOTENT_WRITE on the cluster"),
        (KafkaError.SECURITY_DISABLED, "set up an authorizer"),
        (KafkaError.TOPIC_EXCEPTION, "write to a topic whose name the brokers take"),
    ],
)
def test_where_nothing_may_be_written_no_handler_is_asked_to_drop_it(code: int, cure: str) -> None:
    asked: list[ErrorContext] = []

    def dropping(context: ErrorContext, error: Exception) -> ErrorResponse:
        asked.append(context)
        return log_and_continue(context, error)

    refused = records_of(dropping)
    with pytest.raises(ProductionError, match=cure):
        refused.decide(KafkaError(code), "out", 3, WRONG)
    with pytest.raises(ProductionError, match=cure):
        refused.judge([Failure(KafkaError(code), "out", 3, WRONG)])
    assert not asked


def test_a_record_too_large_for_a_changelog_is_not_said_to_be_for_the_handler() -> None:
    asked = records_of(log_and_continue)
    asked.know(OutputBuffer("changelog", 0, is_changelog=True, task_id=TaskId(0, 0)))
    with pytest.raises(ProductionError, match=r"the changelog.s max\.message\.bytes") as caught:
        asked.decide(TOO_LARGE, "changelog", 0, WRONG)
    assert "production.exception.handler" not in str(caught.value)


@pytest.mark.parametrize(
    ("tasks", "told", "task"),
    [([0], "task 0_0: topic 'out'", TaskId(0, 0)), ([0, 1], "one of the tasks 0_0, 0_1: ", None)],
)
def test_a_refused_record_is_told_with_the_task_that_made_it(
    tasks: list[int], told: str, task: TaskId | None
) -> None:
    contexts = []

    def note(context: ErrorContext, _error: Exception) -> ErrorResponse:
        contexts.append(context)
        return ErrorResponse.FAIL

    asked = records_of(note)
    for partition in tasks:
        asked.know(OutputBuffer("out", task_id=TaskId(0, partition)))
    with pytest.raises(ProductionError) as caught:
        asked.decide(TOO_LARGE, "out", 3, WRONG)

    assert str(caught.value).startswith(told)
    assert caught.value.task_id == contexts[0].task_id == task


def consumed(offset: int, topic: str = "in") -> StaticMessage:
    return StaticMessage(topic, 0, offset, None, None, 1)


def test_a_refused_record_is_told_with_the_input_it_was_made_of_as_far_as_that_is_known() -> None:
    contexts: list[ErrorContext] = []

    def note(context: ErrorContext, _error: Exception) -> ErrorResponse:
        contexts.append(context)
        return ErrorResponse.FAIL

    asked = records_of(note)
    origin = Origin()
    output = OutputBuffer("out", task_id=TaskId(0, 0), origin=origin)
    place = TopicPartition("in", 0)

    def told(output: OutputBuffer | None) -> str:
        with pytest.raises(ProductionError) as caught:
            asked.decide(TOO_LARGE, "out", 3, WRONG, output)
        context = contexts[-1]
        assert (context.output_topic, context.output_partition) == ("out", 3)
        assert caught.value.made_of == context.made_of
        return str(caught.value)

    origin.note_run(place, consumed(7), consumed(7), held_back=False)
    assert "made while in-0 offset 7 was processed" in told(output)
    assert (contexts[-1].topic, contexts[-1].partition, contexts[-1].offset) == ("in", 0, 7)

    asked.know(output)
    origin.sent()
    origin.note_run(place, consumed(9), consumed(12), held_back=False)
    asked.know(output)
    assert "one of in-0 offsets 9 to 12 was processed" in told(output)
    assert "one of in-0 offsets 7 to 12 was processed" in told(None), "the broker's late answer"
    assert (contexts[-1].topic, contexts[-1].partition, contexts[-1].offset) == ("in", 0, None)

    asked.delivered()
    assert "was processed" not in told(None)


def test_a_record_made_in_a_punctuation_is_not_said_to_be_of_any_input() -> None:
    origin = Origin()
    origin.note_run(TopicPartition("in", 0), consumed(7), consumed(7), held_back=False)
    origin.sent()
    origin.punctuated = True
    assert origin.in_words() == "made in a punctuation"
    assert origin.source() == (None, None, None)


def test_input_whose_results_a_record_cache_holds_back_is_remembered_until_they_are_sent() -> None:
    origin = Origin()
    for topic, held_back in (("in", True), ("other", False)):
        origin.note_run(
            TopicPartition(topic, 0), consumed(7, topic), consumed(8, topic), held_back=held_back
        )
        origin.sent()
    assert origin.in_words() == (
        "made while one of in-0 offsets 7 to 8, other-0 offsets 7 to 8 was processed"
    )
    origin.flushed()
    origin.sent()
    assert not origin.ranges()


def test_values_are_not_shown() -> None:
    asked = records_of(lambda _context, _error: ErrorResponse.FAIL)
    with pytest.raises(ProductionError) as caught:
        asked.decide(INVALID, "out", None, WRONG)
    assert "secret" not in str(caught.value)


QUEUE = "dead"


def dropping(queue: str) -> RefusedRecords:
    return records_of(handler_of(lambda *_: ErrorResponse.CONTINUE, queue))


def test_a_dropped_record_is_a_dead_letter_with_its_bytes_and_the_topic_that_refused_it() -> None:
    refused, sent = dropping(QUEUE), list[OutputBuffer]()

    refused.decide(INVALID, "out", 3, (b"k", b"v", 5, (("own", b"1"),)))

    assert refused.send_dead_letters(sent.append)
    assert not refused.send_dead_letters(sent.append)
    [(key, value, timestamp, headers)] = sent[0].records
    assert (sent[0].topic, key, value, timestamp) == (QUEUE, b"k", b"v", 5)
    assert headers[0] == ("own", b"1")
    assert dict(headers)[HEADER_OUTPUT_TOPIC] == b"out"
    assert dict(headers)[HEADER_EXCEPTION] == b"pystreams.errors.ProductionError"


@pytest.mark.parametrize("queue", [QUEUE, "out"])
def test_a_refused_dead_letter_stops_the_application(queue: str) -> None:
    refused = dropping(queue)
    if queue == QUEUE:
        refused.decide(INVALID, "out", 3, WRONG)
        refused.send_dead_letters(lambda _: None)

    with pytest.raises(ProductionError):
        refused.decide(INVALID, queue, 3, WRONG)


NO_BROKER = "127.0.0.1:1"


def producer_of(handler: ErrorHandler) -> ConfluentProducer:
    """Return a producer that keeps what it is given: its broker is not there."""
    config = StreamsConfig.of({"application.id": "app", "bootstrap.servers": NO_BROKER})
    return ConfluentProducer(
        producer_config(config, client_id="unfit"),
        BrokerOutage(NO_BROKER),
        BatchLimits(lambda _: {}, ManualClock()),
        handler=handler,
    )


UNFIT: dict[str, Any] = {
    "value": (b"k", bytearray(b"v"), 1, ()),
    "key": (5, b"v", 1, ()),
    "timestamp": (b"k", b"v", 1.5, ()),
    "a time far off": (b"k", b"v", 1 << 63, ()),
    "headers": (b"k", b"v", 1, {"trace": b"1"}),
}


@pytest.mark.parametrize("part", UNFIT)
def test_a_record_that_the_client_does_not_take_is_the_handlers(part: str) -> None:
    seen: list[ErrorContext] = []

    def note(context: ErrorContext, _error: Exception) -> ErrorResponse:
        seen.append(context)
        return ErrorResponse.CONTINUE

    origin = Origin()
    origin.note_run(TopicPartition("in", 0), consumed(7), consumed(7), held_back=False)
    output = OutputBuffer("out", task_id=TaskId(0, 1), origin=origin)
    output.records += [(b"a", b"1", 1, ()), UNFIT[part], (b"b", b"2", 1, ())]
    producer = producer_of(note)
    try:
        producer.send(output)
    finally:
        producer.close()

    assert output.records == []
    [context] = seen
    assert (context.task_id, context.output_topic, context.offset) == (TaskId(0, 1), "out", 7)


def test_a_record_that_the_client_does_not_take_is_told_with_task_and_topic() -> None:
    output = OutputBuffer("out", task_id=TaskId(0, 1))
    output.records.append(UNFIT["headers"])
    producer = producer_of(log_and_fail)
    try:
        with pytest.raises(ProductionError, match=r"task 0_1: topic 'out' .* Headers are"):
            producer.send(output)
    finally:
        producer.close()
