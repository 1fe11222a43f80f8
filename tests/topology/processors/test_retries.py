"""`retry=Retry(...)`: a function is called again with the record it has failed with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pystreams import (
    ConfigError,
    KStream,
    ProcessingError,
    Retry,
    StreamsBuilder,
    TopologyError,
    serdes,
)
from pystreams.runtime.core.failures.dead_letters import HEADER_ATTEMPTS, HEADER_EXCEPTION
from tests.runtime.running_task import RunningTask
from tests.topology.conftest import Drive

STRINGS: dict[str, Any] = {"key_serde": serdes.STRING, "value_serde": serdes.STRING}
DROPPING = {
    "processing_exception_handler": "continue",
    "errors_dead_letter_queue_topic_name": "dead",
}


class Service:
    """Fails with what is planned, call by call; then answers."""

    def __init__(self, *planned: Exception) -> None:
        self.planned = list(planned)
        self.calls: list[str] = []

    def __call__(self, value: str) -> str:
        self.calls.append(value)
        if self.planned:
            raise self.planned.pop(0)
        return value.upper()


def timeouts(count: int) -> list[Exception]:
    return [TimeoutError("no answer") for _ in range(count)]


def test_a_record_is_tried_again_when_its_time_has_come(
    builder: StreamsBuilder, drive: Drive
) -> None:
    service = Service(*timeouts(2))
    builder.stream("in").map_values(service, retry=Retry(on=TimeoutError)).to("out")
    driver = drive()
    topic = driver.create_input_topic("in", serdes.STRING, serdes.STRING)
    results = driver.create_output_topic("out", serdes.STRING, serdes.STRING)

    topic.pipe_input("k", "a", timestamp=7)
    driver.advance_wall_clock_ms(99)
    assert len(service.calls) == 1
    driver.advance_wall_clock_ms(1)
    assert len(service.calls) == 2
    driver.advance_wall_clock_ms(199)
    assert results.is_empty()
    driver.advance_wall_clock_ms(1)

    record = results.read_record()
    assert (record.key, record.value, record.timestamp) == ("k", "A", 7)


def test_time_that_moves_on_by_much_brings_all_tries(builder: StreamsBuilder, drive: Drive) -> None:
    service = Service(*timeouts(3))
    builder.stream("in").map_values(service, retry=Retry(on=TimeoutError)).to("out")
    driver = drive()
    driver.create_input_topic("in", serdes.STRING, serdes.STRING).pipe_input("k", "a")

    driver.advance_wall_clock_ms(700)

    results = driver.create_output_topic("out", serdes.STRING, serdes.STRING)
    assert results.read_values() == ["A"]


def test_records_behind_one_that_waits_keep_their_order(
    builder: StreamsBuilder, drive: Drive
) -> None:
    """Those of the same input record, and those of the next."""
    service = Service(*timeouts(1))
    words = builder.stream("in").flat_map_values(str.split)
    words.map_values(service, retry=Retry(on=TimeoutError)).to("out")
    driver = drive()
    topic = driver.create_input_topic("in", serdes.STRING, serdes.STRING)
    topic.pipe_input("k", "a b c")
    topic.pipe_input("k", "d")
    assert service.calls == ["a"]

    driver.advance_wall_clock_ms(100)

    results = driver.create_output_topic("out", serdes.STRING, serdes.STRING)
    assert results.read_values() == ["A", "B", "C", "D"]


def test_what_fails_in_all_tries_is_a_dead_letter_that_says_how_often(
    builder: StreamsBuilder, drive: Drive
) -> None:
    service = Service(*timeouts(3))
    builder.stream("in").map_values(service, retry=Retry(on=TimeoutError, max=2)).to("out")
    driver = drive(**DROPPING)
    topic = driver.create_input_topic("in", serdes.STRING, serdes.STRING)
    topic.pipe_input("k", "a")
    topic.pipe_input("k", "b")

    driver.advance_wall_clock_ms(300)

    (letter,) = driver.produced_raw("dead")
    headers = dict(letter[3])
    assert (letter[0], letter[1]) == (b"k", b"a")
    assert headers[HEADER_EXCEPTION] == b"TimeoutError"
    assert headers[HEADER_ATTEMPTS] == b"3"
    results = driver.create_output_topic("out", serdes.STRING, serdes.STRING)
    assert results.read_values() == ["B"]


def test_without_a_handler_that_goes_on_the_error_tells_the_attempts(
    builder: StreamsBuilder, drive: Drive
) -> None:
    service = Service(*timeouts(2))
    builder.stream("in").map_values(service, retry=Retry(on=TimeoutError, max=1)).to("out")
    driver = drive()
    driver.create_input_topic("in", serdes.STRING, serdes.STRING).pipe_input("k", "a")

    with pytest.raises(ProcessingError, match="raised TimeoutError in 2 attempts on the record at"):
        driver.advance_wall_clock_ms(100)


def test_other_errors_are_not_tried_again(builder: StreamsBuilder, drive: Drive) -> None:
    service = Service(TimeoutError("no answer"), ValueError("no"))
    builder.stream("in").map_values(service, retry=Retry(on=(TimeoutError, OSError))).to("out")
    driver = drive(**DROPPING)
    driver.create_input_topic("in", serdes.STRING, serdes.STRING).pipe_input("k", "a")

    driver.advance_wall_clock_ms(100)

    (letter,) = driver.produced_raw("dead")
    assert dict(letter[3])[HEADER_EXCEPTION] == b"ValueError"
    assert len(service.calls) == 2


def of_key_and_value(service: Service) -> Callable[[str, str], Any]:
    return lambda _, value: service(value)


Stream = KStream[str, str]
OPERATIONS: dict[str, Callable[[Stream, Service, Retry], Stream]] = {
    "filter": lambda stream, service, retry: stream.filter(of_key_and_value(service), retry=retry),
    "filter_not": lambda stream, service, retry: stream.filter_not(
        lambda _, value: not service(value), retry=retry
    ),
    "map": lambda stream, service, retry: stream.map(
        lambda key, value: (key, service(value)), retry=retry
    ),
    "map_values": lambda stream, service, retry: stream.map_values(
        of_key_and_value(service), with_key=True, retry=retry
    ),
    "flat_map": lambda stream, service, retry: stream.flat_map(
        lambda key, value: [(key, service(value))], retry=retry
    ),
    "flat_map_values": lambda stream, service, retry: stream.flat_map_values(
        lambda value: [service(value)], retry=retry
    ),
    "select_key": lambda stream, service, retry: stream.select_key(
        of_key_and_value(service), retry=retry
    ),
    "peek": lambda stream, service, retry: stream.peek(of_key_and_value(service), retry=retry),
}


@pytest.mark.parametrize("operation", OPERATIONS)
def test_each_operation_tries_again(operation: str, builder: StreamsBuilder, drive: Drive) -> None:
    service = Service(*timeouts(1))
    stream = builder.stream("in")
    OPERATIONS[operation](stream, service, Retry(on=TimeoutError)).to("out")
    driver = drive()
    driver.create_input_topic("in", serdes.STRING, serdes.STRING).pipe_input("k", "a")

    driver.advance_wall_clock_ms(100)

    assert service.calls == ["a", "a"]
    assert len(driver.produced_raw("out")) == 1


def test_a_foreach_tries_again(builder: StreamsBuilder, drive: Drive) -> None:
    service = Service(*timeouts(1))
    builder.stream("in").foreach(of_key_and_value(service), retry=Retry(on=TimeoutError))
    driver = drive()
    driver.create_input_topic("in", serdes.STRING, serdes.STRING).pipe_input("k", "a")

    driver.advance_wall_clock_ms(100)

    assert service.calls == ["a", "a"]


def test_a_task_that_waits_takes_no_more_records() -> None:
    service = Service(*timeouts(1))
    builder = StreamsBuilder()
    stream = builder.stream("in", **STRINGS)
    stream.map_values(service, retry=Retry(on=TimeoutError)).to("out", **STRINGS)
    running = RunningTask(builder.build())
    running.run(("k", "a", 0), ("k", "b", 1))

    assert service.calls == ["a"]
    assert not running.task.ready(0)
    assert running.task.held.retry_at_ms == 100


def test_a_record_that_there_is_no_time_to_try_again_lets_a_commit_through_behind_it() -> None:
    """Else the next one of the run would take the rest of the transaction's time."""
    calls: list[str] = []
    builder = StreamsBuilder()

    def ask(value: str) -> str:
        calls.append(value)
        running.task.time.go_on(200_000 * len(calls))
        raise TimeoutError("no answer in 200 s")

    stream = builder.stream("in", **STRINGS)
    stream.map_values(ask, retry=Retry(on=TimeoutError)).to("out", **STRINGS)
    running = RunningTask(builder.build())
    running.run(("k", "a", 0), ("k", "b", 1))

    assert calls == ["a"]
    assert running.task.held.retry_at_ms is None
    assert running.task.ready(200_000)


def test_waiting_longer_than_a_commit_may_is_refused_with_a_cure(
    builder: StreamsBuilder, drive: Drive
) -> None:
    retry = Retry(on=TimeoutError, max=12, backoff_ms=100)
    builder.stream("in").map_values(str.upper, retry=retry).to("out")

    with pytest.raises(
        ConfigError, match=r"409500 ms .* consumer\.max\.poll\.interval\.ms is 300000 ms"
    ):
        drive()


@pytest.mark.parametrize(
    "wrong",
    [
        {"on": ()},
        {"on": "TimeoutError"},
        {"on": (TimeoutError, KeyboardInterrupt)},
        {"on": OSError, "max": 0},
        {"on": OSError, "max": True},
        {"on": OSError, "backoff_ms": -1},
    ],
)
def test_a_retry_of_nothing_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(TopologyError, match="Retry: "):
        Retry(**wrong)
