"""Exceptions whose `__str__` raises are told of like others: by type, record and operation."""

from __future__ import annotations

from typing import Any

import pytest
from structlog.testing import capture_logs

from pystreams import (
    ErrorResponse,
    ProcessingError,
    Processor,
    Retry,
    SerializationError,
    StreamsBuilder,
    StreamsError,
    serde_of,
)
from pystreams.serdes import BYTES, STRING
from tests.topology.conftest import Drive

NO_TEXT = "(its __str__ raised KeyError)"


class MuteError(Exception):
    """As one that tells a field which only some of its kind have."""

    def __str__(self) -> str:
        raise KeyError("code")

    __repr__ = __str__


def mute(*_: Any) -> Any:
    raise MuteError


def stopped_with(driver: Any, kind: type[StreamsError]) -> str:
    """Return what a record stops with."""
    with pytest.raises(kind) as caught:
        driver.create_input_topic("in", STRING, STRING).pipe_input("k", "v")
    assert type(caught.value) is kind
    return str(caught.value)


def test_a_function_that_raises_it_stops_with_its_type_the_record_and_the_operation(
    builder: StreamsBuilder, drive: Drive
) -> None:
    builder.stream("in").map_values(mute).to("out")

    told = stopped_with(drive(), ProcessingError)

    assert "processor 'KSTREAM-MAPVALUES-0000000001' raised MuteError on the record at in-0" in told
    assert f"offset 0: {NO_TEXT}; fix the code" in told


def test_a_record_that_is_skipped_for_it_is_logged_and_a_dead_letter(
    builder: StreamsBuilder, drive: Drive
) -> None:
    builder.stream("in").map_values(mute).to("out")
    config = {"processing_exception_handler": "continue"}
    driver = drive(errors_dead_letter_queue_topic_name="dead", **config)

    with capture_logs() as lines:
        driver.create_input_topic("in", STRING, STRING).pipe_input("k", "v")

    [line] = [line for line in lines if line["event"] == "record skipped"]
    assert (line["node"], line["offset"]) == ("KSTREAM-MAPVALUES-0000000001", 0)
    assert line["error"] == f"MuteError: {NO_TEXT}"
    letter = driver.create_output_topic("dead", BYTES, BYTES).read_record()
    told = dict(letter.headers)
    assert (told["__streams.errors.exception"] or b"").endswith(b".MuteError")
    assert told["__streams.errors.message"] == NO_TEXT.encode()


def test_a_serde_that_raises_it_stops_with_the_record(
    builder: StreamsBuilder, drive: Drive
) -> None:
    builder.stream("in", value_serde=serde_of(str.encode, mute)).to("out")

    told = stopped_with(drive(), SerializationError)

    assert f"value of the record at in-0 offset 0 (MuteError: {NO_TEXT}); set the right" in told


def test_a_serde_that_can_not_write_for_it_stops_with_the_record(
    builder: StreamsBuilder, drive: Drive
) -> None:
    builder.stream("in").to("out", value_serde=serde_of(mute, bytes.decode))

    told = stopped_with(drive(), SerializationError)

    assert "the record at in-0 offset 0: can't serialize the value" in told
    assert f"its serde ({NO_TEXT})" in told


def test_an_extractor_that_raises_it_stops_with_the_record(
    builder: StreamsBuilder, drive: Drive
) -> None:
    builder.stream("in", timestamp_extractor=mute).to("out")

    told = stopped_with(drive(), ProcessingError)

    assert f"raised MuteError on the record at in-0 offset 0: {NO_TEXT}; let it" in told


def test_a_handler_that_raises_it_stops_with_both_errors(
    builder: StreamsBuilder, drive: Drive
) -> None:
    builder.stream("in").map_values(mute).to("out")

    told = stopped_with(drive(processing_exception_handler=mute), ProcessingError)

    assert f"handler of processing errors raised MuteError: {NO_TEXT}; fix it" in told
    assert (
        f"offset 0, on which node 'KSTREAM-MAPVALUES-0000000001' raised MuteError: {NO_TEXT}"
        in (told)
    )


def test_a_function_that_raises_it_is_called_again(builder: StreamsBuilder, drive: Drive) -> None:
    left = [MuteError()]

    def fails_once(value: str) -> str:
        if left:
            raise left.pop()
        return value

    builder.stream("in").map_values(fails_once, retry=Retry(on=MuteError)).to("out")
    driver = drive()

    with capture_logs() as lines:
        driver.create_input_topic("in", STRING, STRING).pipe_input("k", "v")
        driver.advance_wall_clock_ms(1000)

    assert driver.create_output_topic("out", STRING, STRING).read_values() == ["v"]
    assert [line["error"] for line in lines if "called again" in line["event"]] == [NO_TEXT]


@pytest.mark.parametrize("stage", ["supplier", "init", "close"])
def test_a_processor_that_raises_it_is_told_by_its_stage(
    builder: StreamsBuilder, drive: Drive, stage: str
) -> None:
    class Idle(Processor[str, str, str, str]):
        def process(self, record: Any) -> None:
            """Do nothing with it."""

    if stage != "supplier":
        setattr(Idle, stage, mute)
    supplier: Any = mute if stage == "supplier" else Idle

    def run_and_close() -> None:
        builder.stream("in").process(supplier)
        drive().close()

    with pytest.raises(StreamsError, match=rf"{stage}.* raised MuteError: \(its __str__ raised"):
        run_and_close()


def test_a_handler_is_asked_about_it(builder: StreamsBuilder, drive: Drive) -> None:
    asked: list[Exception] = []

    def handler(_: Any, error: Exception) -> ErrorResponse:
        asked.append(error)
        return ErrorResponse.CONTINUE

    builder.stream("in").map_values(mute).to("out")
    driver = drive(processing_exception_handler=handler)

    driver.create_input_topic("in", STRING, STRING).pipe_input("k", "v")

    assert [type(error) for error in asked] == [MuteError]
