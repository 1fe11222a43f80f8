"""What a test gives the driver is refused where a broker would refuse it, or a client."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from pystreams import (
    ConfigError,
    KafkaStreams,
    SerializationError,
    StreamsBuilder,
    StreamsError,
    TopologyError,
    serdes,
)
from pystreams.testing import TopologyTestDriver

NEW_YEAR = datetime(2024, 1, 1, tzinfo=UTC)


def counting() -> StreamsBuilder:
    builder = StreamsBuilder()
    stream = builder.stream("in", key_serde=serdes.STRING, value_serde=serdes.STRING)
    stream.group_by_key().count(name="counts").to_stream().to(
        "out", key_serde=serdes.STRING, value_serde=serdes.LONG
    )
    return builder


@pytest.fixture
def driver() -> Iterator[Any]:
    with TopologyTestDriver(counting().build()) as driver:
        yield driver


def pipe(*arguments: Any, **more: Any) -> Callable[[Any], object]:
    return lambda driver: driver.create_input_topic("in", serdes.STRING, serdes.STRING).pipe_input(
        *arguments, **more
    )


def pipe_all(entries: Any) -> Callable[[Any], object]:
    return lambda driver: driver.create_input_topic(
        "in", serdes.STRING, serdes.STRING
    ).pipe_key_values(entries)


@pytest.mark.parametrize(
    ("call", "error", "told"),
    [
        (pipe("k", "v", "1"), TypeError, "'in': timestamp is a number of ms, a whole one, not '1'"),
        (pipe("k", "v", NEW_YEAR), TypeError, "timestamp is a number of ms"),
        (pipe("k", "v", 1.5), TypeError, "timestamp is a number of ms, a whole one, not 1.5"),
        (pipe("k", "v", 1 << 63), ValueError, "timestamp is a number of ms, 9223372036854775807"),
        (pipe(1, "v"), SerializationError, "topic 'in' of the test: the key 1 does not fit its"),
        (pipe("k", 1), SerializationError, "the value 1 does not fit its serde"),
        (pipe("k", "v", 1, {"a": b"b"}), TypeError, "headers are pairs of a name and bytes"),
        (pipe("k", "v", 1, [("a", "text")]), TypeError, "not [('a', 'text')]"),
        (pipe("k", "v", 1, None), TypeError, "headers are pairs of a name and bytes"),
        (pipe_all({"ab": "c"}), TypeError, "takes pairs of key and value, not 'ab'"),
        (lambda driver: driver.advance_wall_clock_ms(1.5), TypeError, "advance_ms is a number"),
        (lambda driver: driver.advance_wall_clock_ms(-1), ValueError, "is 0 ms or more, not -1"),
        (
            lambda driver: driver.create_input_topic("in", str, serdes.STRING),
            TopologyError,
            "topic 'in' of the test: key_serde must be a serde",
        ),
        (
            lambda driver: driver.create_output_topic("out", serdes.STRING, None),
            TopologyError,
            "topic 'out' of the test needs a value_serde",
        ),
        (
            lambda driver: driver.create_input_topic(
                "in", serdes.STRING, serdes.STRING, start_timestamp=NEW_YEAR
            ),
            TypeError,
            "start_timestamp is a number of ms",
        ),
        (
            lambda driver: driver.pipe_raw("in", "k", b"v", 1),
            TypeError,
            "key is bytes, or None, not 'k'",
        ),
    ],
)
def test_what_is_wrong_is_told_and_changes_nothing(
    driver: Any, call: Callable[[Any], object], error: type[Exception], told: str
) -> None:
    with pytest.raises(error, match=re.escape(told)):
        call(driver)

    pipe("k", "v", 1)(driver)
    assert dict(driver.get_key_value_store("counts").all()) == {"k": 1}


def test_a_serde_that_can_not_read_what_was_written_is_told(driver: Any) -> None:
    pipe("k", "v", 1)(driver)

    with pytest.raises(SerializationError, match="'out' of the test: its value_serde can't read"):
        driver.create_output_topic("out", serdes.STRING, serdes.INT).read_record()


def test_headers_come_as_from_a_consumer(driver: Any) -> None:
    pipe("k", "v", 1, [["source", b"test"]])(driver)

    record = driver.create_output_topic("out", serdes.STRING, serdes.LONG).read_record()
    assert record.headers == (("source", b"test"),)


def test_nothing_is_piped_into_a_driver_that_was_closed(driver: Any) -> None:
    driver.close()

    with pytest.raises(StreamsError, match="'in' comes too late: the driver was closed"):
        pipe("k", "v")(driver)


def test_a_state_directory_may_be_text(tmp_path: Path) -> None:
    with TopologyTestDriver(counting().build(), state_directory=str(tmp_path)) as driver:
        pipe("k", "v")(driver)

    assert (tmp_path / "0_0").is_dir()


@pytest.mark.parametrize("run", [TopologyTestDriver, KafkaStreams])
def test_a_builder_is_no_topology_and_text_no_configuration(run: Any) -> None:
    config = {"application.id": "app", "bootstrap.servers": "none:1"}
    with pytest.raises(TopologyError, match=r"what runs is a Topology.* builder\.build\(\) makes"):
        run(counting(), config)
    with pytest.raises(ConfigError, match="a configuration is a mapping of names to values"):
        run(counting().build(), "app.toml")
