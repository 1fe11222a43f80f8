"""The example of windows finds what pandas finds in the same flights: live, and by backfill."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from click.testing import CliRunner

from examples import flights_history, flights_windows
from examples.flights_loader import (
    create_topics,
    flight_rows,
    read_frame,
    scheduled_departure_ms,
)
from examples.flights_windows import HOUR_MS, builder, config
from pystreams.cli.commands.history.backfill import backfill
from pystreams.testing import TopologyTestDriver
from tests.examples.flight_windows_by_pandas import (
    KEYS,
    expected_rows,
    last_rows,
    rows_in_topics,
)
from tests.sharing import start_broker

WEEK_MS = 7 * 24 * HOUR_MS
TOPOLOGY = str(Path(flights_windows.__file__))
APPLICATION = str(config["application.id"])


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[str]:
    """A broker of its own: the names of application and topics are the example's."""
    started = start_broker(tmp_path / "broker")
    create_topics(started.bootstrap_servers)
    yield started.bootstrap_servers
    started.stop()


def flights_of(weeks: int) -> pd.DataFrame:
    """Return the flights of the year's first weeks."""
    year = read_frame("flights")
    times = scheduled_departure_ms(year)
    return year[times < times.min() + weeks * WEEK_MS]


@pytest.mark.parametrize(
    "weeks",
    [
        pytest.param(1, id="a week"),
        pytest.param(53, id="the whole year", marks=[pytest.mark.sweep, pytest.mark.timeout(600)]),
    ],
)
def test_windows_hold_what_pandas_finds_in_them(weeks: int) -> None:
    flights = flights_of(weeks)
    with TopologyTestDriver(builder.build(), config) as driver:
        for row in flight_rows(flights):
            key = None if row.key is None else row.key.encode()
            driver.pipe_raw(row.topic, key, row.value.encode(), row.timestamp_ms)
        found = {
            topic: last_rows(topic, ((key, value) for key, value, *_ in driver.produced_raw(topic)))
            for topic in KEYS
        }

    assert found == expected_rows(flights)


def run_live(servers: str, directory: Path) -> None:
    flights_history.run_live(servers, directory, TOPOLOGY, APPLICATION)


@pytest.mark.sweep
@pytest.mark.broker
@pytest.mark.timeout(300)
def test_windows_of_a_live_run_are_those_of_pandas(servers: str, tmp_path: Path) -> None:
    flights = flights_of(weeks=1)
    flights_history.load(servers, flight_rows(flights))

    run_live(servers, tmp_path)

    assert rows_in_topics(servers) == expected_rows(flights)


@pytest.mark.sweep
@pytest.mark.broker
@pytest.mark.timeout(600)
def test_windows_that_a_backfill_left_open_go_on_live(
    servers: str, spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The border lies within a day: sessions and windows have flights of both sides."""
    monkeypatch.setattr(sys, "path", sys.path.copy())
    flights = flights_of(weeks=1)
    rows = flight_rows(flights)
    border_ms = rows[0].timestamp_ms + 3 * 24 * HOUR_MS + 12 * HOUR_MS
    archived = [row for row in rows if row.timestamp_ms < border_ms]
    live = rows[len(archived) :]
    flights_history.load(servers, archived)
    archive = tmp_path / "archive" / "flights.parquet"
    ends = flights_history.write_archive(servers, "flights", archive)
    flights_history.forget_flights(servers, ends)

    arguments = flights_history.backfill_arguments(servers, tmp_path, TOPOLOGY)
    result = CliRunner().invoke(backfill, arguments[1:])
    assert result.exit_code == 0, result.output
    flights_history.load(servers, live)
    run_live(servers, tmp_path)

    expected = expected_rows(flights)
    for rows_of_topic in expected.values():
        assert any(key.window.start < border_ms < key.window.end for key in rows_of_topic)
    assert rows_in_topics(servers) == expected
