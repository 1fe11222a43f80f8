"""Three years of flights from an archive, then more of them live: what pandas finds in all."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from examples import flights_history
from examples.flights_history import Flights
from examples.flights_loader import create_topics, flight_rows, scheduled_departure_ms
from examples.flights_report import latest_values, partitions_of, read_to_end, reader
from pystreams.broker import DevelopmentBroker
from pystreams.cli.commands.history.backfill import backfill
from tests.examples.flights_by_pandas import Expected, all_counts, assert_counts_without_gap
from tests.sharing import start_broker

Backfill = Callable[[str, Path], None]
WEEKS = 1
DAY_MS = 24 * 3600 * 1000


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[str]:
    """A broker of its own: the names of application and topics are the example's."""
    started = start_broker(tmp_path / "broker")
    yield started.bootstrap_servers
    started.stop()


def in_this_session(servers: str, directory: Path) -> None:
    """Run the example's backfill with the tests' Spark session."""
    arguments = flights_history.backfill_arguments(servers, directory)
    result = CliRunner().invoke(backfill, arguments[1:])
    assert result.exit_code == 0, result.output


def test_each_year_has_the_same_flights_at_the_same_times_of_the_calendar() -> None:
    flights = Flights.read(WEEKS)
    first = scheduled_departure_ms(flights.history[0])

    for number, year in enumerate([*flights.history, flights.live]):
        assert (scheduled_departure_ms(year) == first + number * 365 * DAY_MS).all()
        assert set(year["year"]) == {2013 + number}
        assert year["tailnum"].equals(flights.history[0]["tailnum"])


@pytest.mark.sweep
@pytest.mark.broker
@pytest.mark.parametrize(
    ("weeks", "run_backfill"),
    [
        pytest.param(
            WEEKS, in_this_session, id="a week of each year", marks=pytest.mark.timeout(600)
        ),
        pytest.param(
            None, flights_history.backfill, id="whole years", marks=pytest.mark.timeout(1200)
        ),
    ],
)
def test_archive_and_live_flights_together_are_what_pandas_counts(
    weeks: int | None,
    run_backfill: Backfill,
    servers: str,
    spark: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "path", sys.path.copy())
    flights = Flights.read(weeks)
    archive = tmp_path / "archive"
    create_topics(servers)
    loaded = flights_history.load(servers, flights.history_rows())
    flights_history.write_archive(servers, "airlines", archive / "airlines.parquet")
    ends = flights_history.write_archive(servers, "flights", archive / "flights.parquet")
    flights_history.forget_flights(servers, ends)
    run_backfill(servers, tmp_path)
    flights_history.load(servers, flight_rows(flights.live))
    flights_history.run_live(servers, tmp_path)

    assert loaded == 16 + sum(map(len, flights.history))
    assert sum(ends.values()) == sum(map(len, flights.history))
    with reader(servers) as consumer:
        in_kafka = list(read_to_end(consumer, partitions_of(consumer, "flights")))
    assert len(in_kafka) == len(flights.live), "what was counted before is in the archive only"
    expected = Expected.of(flights.together())
    assert latest_values(servers, "flights-by-carrier") == expected.carriers
    assert latest_values(servers, "flights-by-route") == expected.routes
    assert_counts_without_gap(all_counts(servers, "flights-by-aircraft"), expected.aircraft)
    assert flights_history.differences(servers, flights.together()) == []
    one_less = flights_history.differences(servers, flights.together().iloc[1:])
    assert [line.partition(":")[0] for line in one_less] == ["carriers", "routes", "aircraft"]


@pytest.mark.sweep
@pytest.mark.broker
@pytest.mark.spark
@pytest.mark.timeout(900)
def test_the_whole_story_is_told_by_one_command(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "examples.flights_history", "--weeks", "1"]
    kept = tmp_path / "kept"
    root = Path(flights_history.__file__).parents[1]
    told = subprocess.run(
        [*command, "--keep", str(kept)], cwd=root, capture_output=True, text=True, check=False
    )

    assert told.returncode == 0, told.stdout + told.stderr
    assert "Every figure is what pandas finds in the same flights" in told.stdout
    assert "pystreams backfill counts the archive" in told.stdout
    assert (kept / "archive" / "flights.parquet").is_file()
    assert DevelopmentBroker.attach(kept / "broker") is None
