"""The example of joins finds what pandas finds in the same data: live, and by backfill."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from examples import flights_history, flights_joins
from examples.flights_joins import HOUR_MS, builder, config
from examples.flights_loader import create_topics
from examples.flights_report import latest_values
from pystreams.serdes import JSON, STRING
from pystreams.testing import TopologyTestDriver
from tests.examples.flight_joins_by_pandas import expected_departures, flights_of, rows_to_join
from tests.sharing import start_broker
from tests.spark_session import SMALL

TOPOLOGY = str(Path(flights_joins.__file__))
APPLICATION = str(config["application.id"])
INPUTS = ("planes", "airports", "weather", "flights")
READ_EVERY = 10_000


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[str]:
    """A broker of its own: the names of application and topics are the example's."""
    started = start_broker(tmp_path / "broker")
    create_topics(started.bootstrap_servers)
    yield started.bootstrap_servers
    started.stop()


@pytest.mark.parametrize(
    "days",
    [
        pytest.param(5, id="five days"),
        pytest.param(
            366, id="the whole year", marks=[pytest.mark.sweep, pytest.mark.timeout(1800)]
        ),
    ],
)
def test_departures_are_told_with_what_pandas_joins(days: int) -> None:
    flights = flights_of(days)
    found: dict[str, Any] = {}
    with TopologyTestDriver(builder.build(), config) as driver:
        departures = driver.create_output_topic("departures", STRING, JSON)
        for number, row in enumerate(rows_to_join(flights)):
            key = None if row.key is None else row.key.encode()
            driver.pipe_raw(row.topic, key, row.value.encode(), row.timestamp_ms)
            if number % READ_EVERY == 0:
                found |= departures.read_key_values_to_map()
                forget_internal_topics(driver)
        found |= departures.read_key_values_to_map()

    expected = expected_departures(flights)
    assert {row["to"] is None for row in expected.values()} == {True, False}
    assert {row["seats"] is None for row in expected.values()} == {True, False}
    assert found == expected


def forget_internal_topics(driver: TopologyTestDriver) -> None:
    """Let go of what was written to changelogs and on the way: in a year gigabytes."""
    for topic in driver.produced_topic_names():
        driver.produced_raw(topic).clear()


def run_live(servers: str, directory: Path) -> None:
    flights_history.run_live(servers, directory, TOPOLOGY, APPLICATION)


@pytest.mark.sweep
@pytest.mark.broker
@pytest.mark.timeout(300)
def test_departures_of_a_live_run_are_those_of_pandas(servers: str, tmp_path: Path) -> None:
    flights = flights_of(days=2)
    flights_history.load(servers, rows_to_join(flights))

    run_live(servers, tmp_path)

    assert latest_values(servers, "departures") == expected_departures(flights)


@pytest.mark.sweep
@pytest.mark.broker
@pytest.mark.spark
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("history", ["kafka", "archive"])
def test_departures_of_a_backfill_that_goes_on_live_are_those_of_pandas(
    history: str, servers: str, tmp_path: Path
) -> None:
    """At the border flights wait for the weather of their hour, which comes behind it."""
    flights = flights_of(days=4)
    rows = rows_to_join(flights)
    border_ms = rows[-1].timestamp_ms - 36 * HOUR_MS - HOUR_MS // 4
    flights_history.load(servers, [row for row in rows if row.timestamp_ms < border_ms])
    arguments = flights_history.backfill_arguments(servers, tmp_path, TOPOLOGY)
    if history == "kafka":
        arguments[arguments.index("--from") + 1] = "kafka"
    else:
        for topic in INPUTS:
            file = tmp_path / "archive" / f"{topic}.parquet"
            ends = flights_history.write_archive(servers, topic, file)
        flights_history.forget_flights(servers, ends)

    run_backfill(arguments, tmp_path / "backfill.log")
    flights_history.load(servers, [row for row in rows if row.timestamp_ms >= border_ms])
    run_live(servers, tmp_path)

    assert latest_values(servers, "departures") == expected_departures(flights)


def run_backfill(arguments: list[str], log: Path) -> None:
    """Run the command in a process, whose Spark gets its Kafka connector if a stage needs it."""
    command = [sys.executable, "-m", "pystreams", *arguments, "--master", "local[2]"]
    command += [part for name in SMALL.items() for part in ("--spark-conf", "=".join(name))]
    with log.open("w") as output:
        done = subprocess.run(command, stdout=output, stderr=output, check=False)
    assert done.returncode == 0, log.read_text()[-5000:]
