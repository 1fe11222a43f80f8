"""The flights example counts what pandas counts, on a sample and on the whole year."""

from __future__ import annotations

import io
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import orjson
import pandas as pd
import pytest
from rich.console import Console

from examples import flights_loader
from examples.flights import builder, config
from examples.flights_report import (
    APPLICATION,
    Progression,
    latest_values,
    reader,
    report,
)
from pystreams.serdes import JSON, STRING
from pystreams.testing import TopologyTestDriver
from tests.examples.flights_by_pandas import Expected, all_counts, assert_counts_without_gap

if TYPE_CHECKING:
    from pystreams.broker import DevelopmentBroker

ROOT = Path(__file__).parents[2]
COUNTED_WITHIN_S = 400.0  # A limit, no target.
ROWS_BESIDE = 26_115 + 3_322 + 1_458
"""Of weather, planes and airports."""


@pytest.fixture(scope="module")
def year() -> pd.DataFrame:
    return flights_loader.read_frame("flights")


@pytest.fixture(scope="module")
def rows() -> list[flights_loader.Row]:
    return flights_loader.read_rows()


def test_data_is_what_the_example_says_of_it(year: pd.DataFrame) -> None:
    cancelled = year[year["dep_time"].isna()]
    departed = year[year["dep_time"].notna()]
    assert len(year) == 336_776
    assert len(cancelled) == 8_255
    assert cancelled["dep_delay"].isna().all()
    assert departed["dep_delay"].notna().all()
    assert departed["tailnum"].notna().all()
    assert cancelled["tailnum"].isna().sum() == 2_512


def test_rows_are_in_the_order_of_the_new_york_timetable(
    year: pd.DataFrame, rows: list[flights_loader.Row]
) -> None:
    """The loader takes the hour from a column in UTC; here it comes from the local columns."""
    parts = year[["year", "month", "day", "hour", "minute"]]
    local = pd.to_datetime(parts).dt.tz_localize("America/New_York").dt.as_unit("ms")
    flights = [row for row in rows if row.topic == "flights"]
    assert [row.timestamp_ms for row in flights] == sorted(local.astype("int64"))
    assert all(row.topic == "airlines" for row in rows[:16])
    assert rows[15].timestamp_ms < flights[0].timestamp_ms


def test_rows_hold_all_columns_with_null_for_what_is_missing(
    year: pd.DataFrame, rows: list[flights_loader.Row]
) -> None:
    values = [orjson.loads(row.value) for row in rows if row.topic == "flights"]
    loaded = pd.DataFrame(values)[list(year.columns)]
    keys = ["time_hour", "carrier", "flight", "origin"]
    pd.testing.assert_frame_equal(
        loaded.sort_values(keys, ignore_index=True),
        year.sort_values(keys, ignore_index=True),
        check_dtype=False,
    )


def test_topology_counts_a_sample_as_pandas_does(rows: list[flights_loader.Row]) -> None:
    sample = [*rows[:16], *rows[16::67]]
    frame = pd.DataFrame([orjson.loads(row.value) for row in sample[16:]])
    expected = Expected.of(frame)
    assert frame["dep_time"].isna().any(), "the sample must have cancelled flights"

    with TopologyTestDriver(builder.build(), config) as driver:
        for row in sample:
            key = None if row.key is None else row.key.encode()
            driver.pipe_raw(row.topic, key, row.value.encode(), row.timestamp_ms)
        carriers = driver.create_output_topic("flights-by-carrier", STRING, JSON)
        routes = driver.create_output_topic("flights-by-route", STRING, JSON)
        aircraft = driver.create_output_topic("flights-by-aircraft", STRING, JSON)

        assert carriers.read_key_values_to_map() == expected.carriers
        assert routes.read_key_values_to_map() == expected.routes
        assert_counts_without_gap(aircraft.read_key_values(), expected.aircraft)


def test_carrier_without_an_airline_is_not_counted() -> None:
    with TopologyTestDriver(builder.build(), config) as driver:
        flight = {"carrier": "??", "origin": "JFK", "dest": "LAX", "dep_delay": 0}
        driver.create_input_topic("flights", STRING, JSON).pipe_input("N1", flight)
        assert driver.produced_topic_names().isdisjoint({"flights-by-carrier"})
        assert driver.create_output_topic("flights-by-route", STRING, JSON).read_key_values() == [
            ("JFK-LAX", 1)
        ]


@contextmanager
def running_application(broker: DevelopmentBroker, tmp_path: Path) -> Iterator[None]:
    """Run `pystreams run examples/flights.py` as a user would, until the end of the block."""
    command = [sys.executable, "-m", "pystreams", "run", "examples/flights.py"]
    command += ["-c", f"bootstrap.servers={broker.bootstrap_servers}"]
    command += ["-c", f"state.dir={tmp_path / 'state'}"]
    with (tmp_path / "log").open("w") as log:
        process = subprocess.Popen(command, cwd=ROOT, stdout=log, stderr=log)
    try:
        yield
        assert process.poll() is None, (tmp_path / "log").read_text()
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=120) == 0, (tmp_path / "log").read_text()
    finally:
        process.kill()
        process.wait()


@pytest.mark.timeout(600)
def test_the_whole_year_through_a_broker_is_what_pandas_counts(
    broker: DevelopmentBroker, tmp_path: Path, year: pd.DataFrame
) -> None:
    server = broker.bootstrap_servers
    output = Console(file=io.StringIO(), width=200)
    assert flights_loader.load(server, output).rows == 336_776 + 16 + ROWS_BESIDE
    assert flights_loader.load(server, output).rows == 0, "a second load writes nothing"

    deadline_s = time.monotonic() + COUNTED_WITHIN_S
    with running_application(broker, tmp_path), reader(server, APPLICATION) as consumer:
        progression = Progression(consumer, APPLICATION)
        while not progression.now().is_complete:
            assert time.monotonic() < deadline_s, (tmp_path / "log").read_text()
            time.sleep(0.5)

    expected = Expected.of(year)
    assert latest_values(server, "flights-by-carrier") == expected.carriers
    assert latest_values(server, "flights-by-route") == expected.routes
    assert_counts_without_gap(all_counts(server, "flights-by-aircraft"), expected.aircraft)

    report(server, output)
    printed = output.file.getvalue()  # type: ignore[attr-defined]  # it is the StringIO above
    assert "JetBlue Airways" in printed
    assert "328,521" in printed
