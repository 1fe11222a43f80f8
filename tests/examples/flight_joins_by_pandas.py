"""What pandas finds for each departure: weather, airplane, destination."""

from __future__ import annotations

from typing import Any

import pandas as pd

from examples.flights_joins import HOUR_MS
from examples.flights_loader import (
    Row,
    flight_rows,
    hour_ms,
    read_frame,
    rows_that_flights_name,
    scheduled_departure_ms,
    weather_rows,
)

Departures = dict[str, dict[str, Any]]
"""What is told of each departure, by its name."""

AIRPORTS = 3


def flights_of(days: int) -> pd.DataFrame:
    """Return the flights of the year's first days, until one leaves each airport at once.

    So it is the same time everywhere when they end: what then waits for its weather still is the
    last hour, however many tasks there are.
    """
    year = read_frame("flights").assign(ms=scheduled_departure_ms).sort_values("ms", kind="stable")
    year = year[year["ms"] < year["ms"].min() + days * 24 * HOUR_MS]
    airports = year[year["dep_delay"].notna()].groupby("ms")["origin"].nunique()
    return year[year["ms"] <= airports[airports == AIRPORTS].index.max()].drop(columns="ms")


def rows_to_join(flights: pd.DataFrame) -> list[Row]:
    """Return planes, airports, and the weather until the last flight, with the flights."""
    rows = flight_rows(flights)
    first_ms, last_ms = rows[0].timestamp_ms, rows[-1].timestamp_ms
    weather = [row for row in weather_rows() if row.timestamp_ms <= last_ms]
    return [*rows_that_flights_name(first_ms), *weather, *rows]


def expected_departures(flights: pd.DataFrame) -> Departures:
    """Return what is told at the end: of all that left an hour before the last, or earlier."""
    left = flights[flights["dep_delay"].notna()].assign(ms=scheduled_departure_ms)
    left = left[left["ms"] <= left["ms"].max() - HOUR_MS]
    weather = read_frame("weather").assign(ms=hour_ms)[["origin", "ms", "temp", "visib"]]
    airports = read_frame("airports").set_index("faa")["name"]
    planes = read_frame("planes").set_index("tailnum")[["manufacturer", "seats"]]
    found = pd.merge_asof(left.sort_values("ms"), weather.sort_values("ms"), on="ms", by="origin")
    found = found.join(planes, on="tailnum").assign(to=found["dest"].map(airports))
    names = found["carrier"] + found["flight"].astype(str) + " " + found["time_hour"]
    assert names.is_unique
    columns = {
        "tailnum": "tailnum",
        "origin": "origin",
        "to": "to",
        "dep_delay": "delay",
        "temp": "temperature",
        "visib": "visibility",
        "manufacturer": "manufacturer",
        "seats": "seats",
    }
    told = found[list(columns)].rename(columns=columns).astype(object)
    told = told.where(told.notna(), None)
    return dict(zip(names, told.to_dict("records"), strict=True))
