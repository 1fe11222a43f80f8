"""What users may rely on in the test driver."""

from __future__ import annotations

from pathlib import Path

import pytest

from pystreams import (
    Processor,
    ProcessorContext,
    PunctuationType,
    Record,
    SerializationError,
    StreamsBuilder,
    Topology,
    TopologyError,
    ValueAndTimestamp,
)
from pystreams.serdes import LONG, STRING
from pystreams.testing import TopologyTestDriver


def counting() -> Topology:
    builder = StreamsBuilder()
    (
        builder.stream("words", key_serde=STRING, value_serde=STRING)
        .group_by(lambda _, word: word, key_serde=STRING, value_serde=STRING)
        .count(name="counts")
        .to_stream()
        .to("totals", key_serde=STRING, value_serde=LONG)
    )
    return builder.build()


class Ticker(Processor[str, str, str, str]):
    """Forwards the time of each wall-clock punctuation."""

    def init(self, context: ProcessorContext[str, str]) -> None:
        def tick(time_ms: int) -> None:
            context.forward(Record("tick", str(time_ms), time_ms))

        context.schedule(10, PunctuationType.WALL_CLOCK_TIME, tick)

    def process(self, record: Record[str, str]) -> None:
        """Take no notice of records."""


def test_a_record_flows_through_repartition_topics_to_the_output_at_once() -> None:
    with TopologyTestDriver(counting()) as driver:
        words = driver.create_input_topic("words", STRING, STRING)
        totals = driver.create_output_topic("totals", STRING, LONG)

        words.pipe_key_values([(None, "a"), (None, "b"), (None, "a")])

        assert totals.read_key_values() == [("a", 1), ("b", 1), ("a", 2)]
        assert totals.is_empty()


def test_internal_topics_are_among_the_produced_ones_under_their_real_names() -> None:
    with TopologyTestDriver(counting(), {"application.id": "app"}) as driver:
        driver.create_input_topic("words", STRING, STRING).pipe_value("a")

        names = driver.produced_topic_names()

        assert names == {"app-counts-repartition", "app-counts-changelog", "totals"}


def test_an_input_topic_moves_its_own_time_on() -> None:
    with TopologyTestDriver(counting()) as driver:
        words = driver.create_input_topic(
            "words", STRING, STRING, start_timestamp=100, auto_advance_ms=5
        )
        totals = driver.create_output_topic("totals", STRING, LONG)

        words.pipe_value("a")
        words.pipe_value("b")
        words.advance_time_ms(1000)
        words.pipe_value("c")
        words.pipe_value("d", timestamp=7)

        assert [record.timestamp for record in totals.read_records()] == [100, 105, 1110, 7]


def test_a_key_value_store_reads_plain_values_and_a_state_store_timestamped_ones() -> None:
    with TopologyTestDriver(counting()) as driver:
        driver.create_input_topic("words", STRING, STRING).pipe_value("a", timestamp=42)

        assert driver.get_key_value_store("counts").get("a") == 1
        assert list(driver.get_key_value_store("counts").all()) == [("a", 1)]
        assert driver.get_state_store("counts").get("a") == ValueAndTimestamp(1, 42)
        assert driver.get_state_store("none") is None


def test_an_unknown_store_is_refused_by_name() -> None:
    wanted = r"no state store 'count'; there are: \['counts'\]"

    with TopologyTestDriver(counting()) as driver, pytest.raises(TopologyError, match=wanted):
        driver.get_key_value_store("count")


def test_a_topic_the_topology_does_not_read_is_refused_by_name() -> None:
    with TopologyTestDriver(counting()) as driver:
        word = driver.create_input_topic("word", STRING, STRING)

        with pytest.raises(TopologyError, match="does not read topic 'word'; it reads: words"):
            word.pipe_value("a")


def test_the_wall_clock_stands_still_until_it_is_moved() -> None:
    builder = StreamsBuilder()
    builder.stream("in", key_serde=STRING, value_serde=STRING).process(Ticker).to(
        "ticks", key_serde=STRING, value_serde=STRING
    )
    with TopologyTestDriver(builder.build(), wall_clock_ms=1000) as driver:
        ticks = driver.create_output_topic("ticks", STRING, STRING)

        driver.create_input_topic("in", STRING, STRING).pipe_input("a", "b")
        assert ticks.is_empty()
        driver.advance_wall_clock_ms(9)
        assert ticks.is_empty()
        driver.advance_wall_clock_ms(1)
        assert ticks.read_values() == ["1010"]
        driver.advance_wall_clock_ms(35)
        assert ticks.read_values() == ["1045"]


def test_stores_live_in_the_given_directory_and_come_back_from_it(tmp_path: Path) -> None:
    with TopologyTestDriver(counting(), state_directory=tmp_path) as driver:
        driver.create_input_topic("words", STRING, STRING).pipe_value("a")

    with TopologyTestDriver(counting(), state_directory=tmp_path) as driver:
        assert driver.get_key_value_store("counts").get("a") == 1


def test_without_a_directory_nothing_is_written_to_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    with TopologyTestDriver(counting()) as driver:
        driver.create_input_topic("words", STRING, STRING).pipe_value("a")

    assert list(tmp_path.iterdir()) == []


def test_bytes_that_are_no_text_are_refused_with_their_coordinates() -> None:
    wanted = "value of the record at words-0 offset 0"

    with TopologyTestDriver(counting()) as driver, pytest.raises(SerializationError, match=wanted):
        driver.pipe_raw("words", None, b"\xff", 0)
