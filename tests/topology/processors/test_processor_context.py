"""What a processor may ask of its context: anchored punctuations, configuration, a directory."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pystreams import (
    ConfigError,
    ProcessingError,
    Processor,
    ProcessorContext,
    PunctuationType,
    Record,
    Topology,
    TopologyError,
)
from pystreams.serdes import STRING
from pystreams.testing import TopologyTestDriver

Context = ProcessorContext[str, str]
STRINGS = {"default.key.serde": "string", "default.value.serde": "string"}


class WithInit(Processor[str, str, str, str]):
    """Gives its context to a function."""

    def __init__(self, init: Callable[[Context], Any]) -> None:
        self.init = init  # type: ignore[assignment]

    def process(self, record: Record[str, str]) -> None:
        """Take the record."""


def driver_of(init: Callable[[Context], Any], **given: Any) -> TopologyTestDriver:
    topology = Topology().add_source("source", "in", key_serde=STRING, value_serde=STRING)
    topology.add_processor("p", lambda: WithInit(init), "source")
    config = given.pop("config", STRINGS)
    return TopologyTestDriver(topology, config, **given)


def asked(ask: Callable[[Context], Any], **given: Any) -> Any:
    """Return what a processor got from its context."""
    answers: list[Any] = []
    with driver_of(lambda context: answers.append(ask(context)), **given):
        return answers[0]


def test_an_anchored_punctuation_on_stream_time_fires_on_its_grid_only() -> None:
    fired: list[int] = []

    def init(context: Context) -> None:
        context.schedule(100, PunctuationType.STREAM_TIME, fired.append, start_time_ms=250)

    with driver_of(init) as driver:
        topic = driver.create_input_topic("in", STRING, STRING)
        for timestamp in (10, 249, 250, 349, 520, 549, 551):
            topic.pipe_input("k", "v", timestamp)

    assert fired == [250, 520, 551]


def test_one_scheduled_later_waits_for_the_next_point_of_its_grid() -> None:
    fired: list[int] = []

    class Late(WithInit):
        def process(self, record: Record[str, str]) -> None:
            if record.value == "now":
                self.context.schedule(
                    100, PunctuationType.STREAM_TIME, fired.append, start_time_ms=0
                )

        def __init__(self) -> None:
            super().__init__(lambda context: setattr(self, "context", context))

        context: Context

    topology = Topology().add_source("source", "in", key_serde=STRING, value_serde=STRING)
    topology.add_processor("p", Late, "source")
    with TopologyTestDriver(topology, STRINGS) as driver:
        topic = driver.create_input_topic("in", STRING, STRING)
        for value, timestamp in (("", 140), ("now", 150), ("", 199), ("", 200)):
            topic.pipe_input("k", value, timestamp)

    assert fired == [200]


def test_an_anchored_punctuation_on_the_wall_clock_fires_at_full_hours() -> None:
    hour, fired = 3_600_000, list[int]()

    def init(context: Context) -> None:
        context.schedule(hour, PunctuationType.WALL_CLOCK_TIME, fired.append, start_time_ms=0)

    with driver_of(init, wall_clock_ms=10 * hour + 1) as driver:
        driver.advance_wall_clock_ms(hour - 2)
        driver.advance_wall_clock_ms(1)
        driver.advance_wall_clock_ms(hour)

    assert fired == [11 * hour, 12 * hour]


def test_a_start_before_all_time_is_refused() -> None:
    def init(context: Context) -> None:
        context.schedule(100, PunctuationType.STREAM_TIME, print, start_time_ms=-1)

    with pytest.raises(ProcessingError, match="'p': a schedule starts at 0 ms or later, not at -1"):
        driver_of(init)


def test_processors_see_the_configuration_by_kafkas_names() -> None:
    config = {**STRINGS, "application.id": "shop", "consumer.fetch.min.bytes": 5}

    configs = asked(lambda context: context.app_configs(), config=config)

    assert configs["application.id"] == "shop"
    assert configs["max.task.idle.ms"] == 0
    assert configs["consumer.fetch.min.bytes"] == 5


def test_processors_see_what_begins_with_a_prefix_without_it() -> None:
    config = {**STRINGS, "topic.retention.ms": 5, "topic.segment.ms": 6}

    configs = asked(lambda context: context.app_configs_with_prefix("topic."), config=config)

    assert configs == {"retention.ms": 5, "segment.ms": 6}


def test_what_a_processor_changes_of_the_configuration_is_its_own() -> None:
    def ask(context: Context) -> Any:
        context.app_configs().clear()
        return context.app_configs()

    assert asked(ask)["application.id"] == "test-driver"


def test_the_default_serdes_are_there() -> None:
    assert asked(lambda context: (context.key_serde, context.value_serde)) == (STRING, STRING)
    with pytest.raises(ConfigError, match=r"'p' has no value serde.*set default\.value\.serde"):
        asked(lambda context: context.value_serde, config={"default.key.serde": "string"})


def test_the_state_directory_is_that_of_the_task(tmp_path: Path) -> None:
    directory = asked(lambda context: context.state_dir, state_directory=tmp_path)

    assert directory == tmp_path / "0_0"
    assert directory.is_dir()


def test_a_driver_without_a_directory_says_how_to_get_one() -> None:
    with pytest.raises(TopologyError, match=r"'p' asks for its state_dir.*state_directory="):
        asked(lambda context: context.state_dir)
