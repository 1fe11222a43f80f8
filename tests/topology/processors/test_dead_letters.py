"""Dead letters: a record that a handler drops goes to the queue with its bytes and its reason."""

from __future__ import annotations

import re
from typing import Any

import pytest

from pystreams import (
    ConfigError,
    DeadLetterRecord,
    ErrorContext,
    ErrorHandlerResponse,
    ErrorResponse,
    ProcessingError,
    Processor,
    PunctuationType,
    StreamsBuilder,
    StreamsConfig,
    dead_letter_record,
    serde_of,
)
from pystreams.serdes import BYTES, LONG, STRING
from pystreams.testing import TopologyTestDriver

QUEUE: dict[str, Any] = {"errors_dead_letter_queue_topic_name": "dead"}
EVERY_HANDLER: dict[str, Any] = {
    f"{stage}_exception_handler": "continue"
    for stage in ("deserialization", "processing", "production")
}
UNTYPED: Any = ErrorHandlerResponse
BAD = b"\xff\xfe"


def letters(driver: TopologyTestDriver, topic: str = "dead") -> list[Any]:
    return driver.create_output_topic(topic, BYTES, BYTES).read_records()


def refuse(text: str) -> bytes:
    raise ValueError(f"{text} is not written")


def divide(value: str) -> str:
    return str(10 // int(value))


def failing_at(builder: StreamsBuilder, stage: str) -> bytes:
    """Let a topology fail at a stage; return the value it fails on."""
    stream = builder.stream("in", key_serde=STRING, value_serde=STRING)
    if stage == "processing":
        stream.map_values(divide).to("out")
        return b"0"
    serde = serde_of(refuse, bytes.decode) if stage == "production" else STRING
    stream.to("out", value_serde=serde)
    return BAD if stage == "deserialization" else b"x"


@pytest.mark.parametrize(
    ("stage", "exception", "message"),
    [
        ("deserialization", "UnicodeDecodeError", "can't decode byte 0xff"),
        ("processing", "ZeroDivisionError", "by zero"),
        ("production", "pystreams.errors.SerializationError", "x is not written"),
    ],
)
def test_dropped_record_goes_to_the_queue_with_its_bytes_and_the_headers_of_kafka(
    builder: StreamsBuilder, drive: Any, stage: str, exception: str, message: str
) -> None:
    value = failing_at(builder, stage)
    driver = drive(**EVERY_HANDLER, **QUEUE)
    source = driver.create_input_topic("in", BYTES, BYTES)

    source.pipe_input(b"first", value, 7)
    source.pipe_input(b"k", value, 8, headers=(("own", b"1"), ("none", None)))

    _, letter = letters(driver)
    assert (letter.key, letter.value, letter.timestamp) == (b"k", value, 8)
    assert letter.headers[:2] == (("own", b"1"), ("none", None))
    told = dict(letter.headers[2:])
    assert list(told) == [
        f"__streams.errors.{name}"
        for name in ("exception", "message", "stacktrace", "topic", "partition", "offset")
    ]
    assert told["__streams.errors.exception"] == exception.encode()
    assert message in told["__streams.errors.message"].decode()
    assert told["__streams.errors.stacktrace"].startswith(b"Traceback")
    assert told["__streams.errors.topic"] == b"in"
    assert told["__streams.errors.partition"] == b"0"
    assert told["__streams.errors.offset"] == b"1"


@pytest.mark.parametrize("stage", ["deserialization", "processing"])
def test_a_record_can_not_set_what_tools_read_of_its_letter(
    builder: StreamsBuilder, drive: Any, stage: str
) -> None:
    value = failing_at(builder, stage)
    driver = drive(**EVERY_HANDLER, **QUEUE)
    redriven = (("__pystreams.redrive.id", b"in-0-7"), ("__pystreams.redrive.attempt", b"2"))
    hostile = tuple(
        (f"__pystreams.{name}", b"0")
        for name in ("redriven", "errors.output.topic", "errors.attempts")
    )

    source = driver.create_input_topic("in", BYTES, BYTES)
    source.pipe_input(b"k", value, 8, headers=(*hostile, ("own", b"1"), *redriven))

    [letter] = letters(driver)
    assert letter.headers[:3] == (("own", b"1"), *redriven)
    assert all(name.startswith("__streams.errors.") for name, _ in letter.headers[3:])


def test_record_without_key_or_value_stays_without(builder: StreamsBuilder, drive: Any) -> None:
    stream = builder.stream("in", key_serde=STRING, value_serde=STRING)
    stream.map_values(lambda value: value.upper()).to("out")
    driver = drive(**EVERY_HANDLER, **QUEUE)

    driver.create_input_topic("in", BYTES, BYTES).pipe_input(None, None, 3)

    [letter] = letters(driver)
    assert (letter.key, letter.value) == (None, None)


def test_failed_punctuation_is_a_dead_letter_without_a_record(
    builder: StreamsBuilder, drive: Any
) -> None:
    class Failing(Processor[str, str, str, str]):
        def init(self, context: Any) -> None:
            context.schedule(10, PunctuationType.WALL_CLOCK_TIME, lambda _: 1 // 0)

        def process(self, record: Any) -> None:
            pass

    builder.stream("in").process(Failing)
    driver = drive(**EVERY_HANDLER, **QUEUE)

    driver.advance_wall_clock_ms(10)

    [letter] = letters(driver)
    told = dict(letter.headers)
    assert (letter.key, letter.value) == (None, None)
    assert told["__streams.errors.exception"] == b"ZeroDivisionError"
    assert told["__streams.errors.topic"] is None
    assert told["__streams.errors.offset"] == b"-1"


def test_record_that_stops_the_application_is_no_dead_letter(
    builder: StreamsBuilder, drive: Any
) -> None:
    value = failing_at(builder, "processing")
    driver = drive(**QUEUE)

    with pytest.raises(ProcessingError):
        driver.create_input_topic("in", BYTES, BYTES).pipe_input(b"k", value, 1)

    assert letters(driver) == []


def test_function_chooses_the_topic_or_none(builder: StreamsBuilder, drive: Any) -> None:
    failing_at(builder, "processing")

    def choose(context: ErrorContext, error: Exception) -> str | None:
        return "zero" if isinstance(error, ZeroDivisionError) else None

    driver = drive(**EVERY_HANDLER, errors_dead_letter_queue_topic_name=choose)
    source = driver.create_input_topic("in", BYTES, BYTES)
    for value in (b"0", b"word"):
        source.pipe_input(b"k", value, 1)

    assert [letter.value for letter in letters(driver, "zero")] == [b"0"]


def test_handler_sends_dead_letters_of_its_own_instead(builder: StreamsBuilder, drive: Any) -> None:
    def answer(context: ErrorContext, error: Exception) -> ErrorHandlerResponse:
        if context.value == b"word":
            return ErrorHandlerResponse.resume()
        own = DeadLetterRecord("mine", b"key", str(error).encode(), 5)
        return ErrorHandlerResponse.resume([own, dead_letter_record(context, error, "mine")])

    failing_at(builder, "processing")
    driver = drive(processing_exception_handler=answer, **QUEUE)
    source = driver.create_input_topic("in", BYTES, BYTES)
    for value in (b"0", b"word"):
        source.pipe_input(b"k", value, 1)

    assert [letter.key for letter in letters(driver, "mine")] == [b"key", b"k"]
    assert letters(driver) == []


def test_plain_answer_of_a_handler_uses_the_queue(builder: StreamsBuilder, drive: Any) -> None:
    failing_at(builder, "processing")
    resumes: Any = lambda *_: ErrorResponse.RESUME  # noqa: E731
    driver = drive(processing_exception_handler=resumes, **QUEUE)

    driver.create_input_topic("in", BYTES, BYTES).pipe_input(b"k", b"0", 1)

    assert [letter.value for letter in letters(driver)] == [b"0"]


def test_function_that_raises_stops_the_application(builder: StreamsBuilder, drive: Any) -> None:
    failing_at(builder, "processing")
    queues: dict[str, str] = {}
    config = {**EVERY_HANDLER, "errors_dead_letter_queue_topic_name": lambda *_: queues["queue"]}
    driver = drive(**config)

    with pytest.raises(ProcessingError, match=r"\.queue\.topic\.name raised KeyError: 'queue'"):
        driver.create_input_topic("in", BYTES, BYTES).pipe_input(b"k", b"0", 1)


@pytest.mark.parametrize("stage", ["deserialization", "processing", "production"])
@pytest.mark.parametrize("answer", [None, "continue", True, ErrorResponse])
def test_answer_of_a_handler_that_is_none_is_refused_with_the_error_it_was_asked_about(
    builder: StreamsBuilder, drive: Any, stage: str, answer: Any
) -> None:
    value = failing_at(builder, stage)
    driver = drive(**{f"{stage}_exception_handler": lambda *_: answer}, **QUEUE)

    with pytest.raises(ProcessingError) as caught:
        driver.create_input_topic("in", BYTES, BYTES).pipe_input(b"k", value, 1)

    told = str(caught.value)
    assert f"the handler of {stage} errors returned {answer!r}: return ErrorResponse.CONT" in told
    assert "It was asked about the record at in-0 offset 0, on which node 'KSTREAM-" in told
    assert type(caught.value.__cause__).__name__ in told


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda _: UNTYPED.resume("dead"), "DeadLetterRecord, not 'dead'"),
        (UNTYPED.resume, "put it into a list"),
        (lambda letter: UNTYPED.resume([letter, ("dead", b"k")]), "not ('dead', b'k'"),
        (lambda _: UNTYPED.resume(7), "DeadLetterRecord, not 7"),
        (lambda _: UNTYPED("continue"), "result is an ErrorResponse, not 'continue'"),
        (
            lambda letter: UNTYPED(ErrorResponse.CONTINUE, [letter, None]),
            "DeadLetterRecord, not None",
        ),
    ],
)
def test_response_of_what_is_no_dead_letter_is_refused_where_it_is_made(
    builder: StreamsBuilder, drive: Any, make: Any, told: str
) -> None:
    value = failing_at(builder, "processing")

    def answer(context: ErrorContext, error: Exception) -> ErrorHandlerResponse:
        response: ErrorHandlerResponse = make(dead_letter_record(context, error, "dead"))
        return response

    driver = drive(processing_exception_handler=answer)

    with pytest.raises(
        ProcessingError, match=f"handler of processing errors raised TypeError.*{re.escape(told)}"
    ):
        driver.create_input_topic("in", BYTES, BYTES).pipe_input(b"k", value, 1)


@pytest.mark.parametrize("chosen", [5, "", "no such topic"])
def test_function_that_chooses_what_is_no_topic_is_told(
    builder: StreamsBuilder, drive: Any, chosen: Any
) -> None:
    failing_at(builder, "processing")
    driver = drive(**EVERY_HANDLER, errors_dead_letter_queue_topic_name=lambda *_: chosen)

    with pytest.raises(
        ProcessingError, match=r"queue\.topic\.name: .* can't be the name of a topic"
    ):
        driver.create_input_topic("in", BYTES, BYTES).pipe_input(b"k", b"0", 1)


def test_record_of_a_global_table_that_can_not_be_read_is_a_dead_letter(
    builder: StreamsBuilder, drive: Any
) -> None:
    builder.global_table("prices", key_serde=STRING, value_serde=LONG)
    driver = drive(**EVERY_HANDLER, **QUEUE)

    driver.create_input_topic("prices", BYTES, BYTES).pipe_input(b"k", b"short", 1)

    [letter] = letters(driver)
    assert (letter.key, letter.value) == (b"k", b"short")
    assert dict(letter.headers)["__streams.errors.topic"] == b"prices"


@pytest.mark.parametrize("name", ["no such topic", "", "a/b", ".."])
def test_name_that_can_not_be_a_topic_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match=r"errors\.dead\.letter\.queue\.topic\.name"):
        StreamsConfig.of(
            {
                "application.id": "app",
                "bootstrap.servers": "localhost:9092",
                "errors.dead.letter.queue.topic.name": name,
            }
        )
