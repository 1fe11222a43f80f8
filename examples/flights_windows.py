"""New York's flights of 2013 in windows of time: delays, rush hours, and an aircraft's days.

    pystreams run examples/flights_windows.py --dev

Load the flights first: `python examples/flights_loader.py`. Three questions:

- How late are departures on average, in each three hours of each airport, told anew each hour?
- How many departures of an airport were more than an hour late, within any one hour?
- What did an aircraft do in a day: how many flights, how many minutes late, from where to where?
  Its day is over when it has not departed for eight hours.
"""

from __future__ import annotations

from typing import NamedTuple, TypedDict

from pystreams import (
    KStream,
    SessionWindows,
    SlidingWindows,
    StreamsBuilder,
    TimeWindows,
    aggregations,
    serdes,
    session_windowed_serde,
    time_windowed_serde,
)

HOUR_MS = 3_600_000

config = {
    "application.id": "flights-windows",
    "processing.guarantee": "exactly_once",
    "commit.interval.ms": 1000,
    "default.key.serde": "string",
    "default.value.serde": "json",
}


class Flight(TypedDict):
    """A row of the topic `flights`; its key is the aircraft's tail number."""

    origin: str
    dest: str
    dep_delay: int | None  # In minutes, less than 0 when early, null when cancelled.


class AircraftDay(NamedTuple):
    """What an aircraft did from one rest to the next."""

    flights: int
    minutes_late: int
    first: str | None
    last: str | None


def departed(_tailnum: str | None, flight: Flight) -> bool:
    return flight["dep_delay"] is not None


def very_late(_tailnum: str | None, flight: Flight) -> bool:
    delay = flight["dep_delay"]
    return delay is not None and delay > 60


def airport(_tailnum: str, flight: Flight) -> str:
    return flight["origin"]


def delay(flight: Flight) -> int | None:
    return flight["dep_delay"]


def minutes_late(flight: Flight) -> int:
    return max(0, flight["dep_delay"] or 0)


# A year of history is read as fast as it can be, from several partitions side by side: in the topic
# by airport the flights of one hour may stand months apart. Live, minutes would do.
PATIENCE_MS = 366 * 24 * HOUR_MS

three_hours = TimeWindows.of_size_and_grace(3 * HOUR_MS, PATIENCE_MS).advance_by(HOUR_MS)
any_hour = SlidingWindows.of_time_difference_and_grace(HOUR_MS, PATIENCE_MS)
# The flights of an aircraft are in one partition, in order: nobody has to wait for late ones.
until_it_rests = SessionWindows.of_inactivity_gap_with_no_grace(8 * HOUR_MS)

builder = StreamsBuilder()
flights: KStream[str, Flight] = builder.stream("flights")
departures = flights.filter(departed)

(
    departures.group_by(airport, name="by-airport")
    .windowed_by(three_hours)
    .aggregate(aggregations.mean(delay), name="delays")
    .to_stream()
    .to(
        "delays-by-airport",
        key_serde=time_windowed_serde(serdes.STRING, 3 * HOUR_MS),
        value_serde=serdes.JSON,
    )
)

(
    flights.filter(very_late)
    .group_by(airport, name="late-by-airport")
    .windowed_by(any_hour)
    .count(name="rushes")
    .to_stream()
    .to(
        "rushes-by-airport",
        key_serde=time_windowed_serde(serdes.STRING, HOUR_MS),
        value_serde=serdes.JSON,
    )
)

(
    departures.group_by_key()
    .windowed_by(until_it_rests)
    .aggregate(
        aggregations.several(
            AircraftDay,
            flights=aggregations.count(),
            minutes_late=aggregations.sum(minutes_late),
            first=aggregations.first(lambda flight: flight["origin"]),
            last=aggregations.last(lambda flight: flight["dest"]),
        ),
        name="aircraft-days",
    )
    .to_stream()
    .to(
        "aircraft-days",
        key_serde=session_windowed_serde(serdes.STRING),
        value_serde=serdes.JSON,
    )
)
