"""New York's flights of 2013 in windows of time: an aircraft's days, delays, rush hours.

    pystreams run examples/flights_windows.py --dev

Load the flights first: `python examples/flights_loader.py`. Three questions:

- What did an aircraft do in a day: how many flights, how many minutes late, from where to where?
  Its day is over when it has not left New York for more than eight hours (a session).
- How late are departures of each airport on average, in three hours, told anew each hour (hopping
  windows)?
- How many departures of an airport were more than an hour late within any one hour (sliding
  windows)?

A row is told again at each commit that has changed it. To tell it once, when nothing changes it any
more: `docs/dsl/suppression.md`.
"""

from __future__ import annotations

from typing import TypedDict

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

YEAR_MS = 366 * 24 * HOUR_MS

config = {
    "application.id": "flight-windows",
    "processing.guarantee": "exactly_once",
    "commit.interval.ms": 1000,
    "default.key.serde": "string",
    "default.value.serde": "json",
    # Changelogs of windows delete what is older than their stores keep. Stores count from the time
    # of the flights, Kafka counts from today: it would delete what is about 2013 at once.
    "windowstore.changelog.additional.retention.ms": 100 * YEAR_MS,
}


class Flight(TypedDict):
    """A row of the topic `flights`; its key is the aircraft's tail number."""

    origin: str
    dest: str
    dep_delay: int | None  # In minutes, less than 0 when early, null when cancelled.


class AircraftDay(TypedDict):
    """What an aircraft did from one rest to the next."""

    flights: int
    minutes_late: int
    first: str | None
    last: str | None


def departed(_tailnum: str | None, flight: Flight) -> bool:
    return flight["dep_delay"] is not None


def airport_and_delay(_tailnum: str, flight: Flight) -> tuple[str, int]:
    delay = flight["dep_delay"]
    assert delay is not None, "only flights that departed come here"
    return flight["origin"], delay


def minutes_late(flight: Flight) -> int:
    return max(0, flight["dep_delay"] or 0)


# The flights of an aircraft are in one partition, in order: nobody has to wait for late ones. The
# hour of grace is for rests of exactly eight hours: with none, whether such a one ends a day would
# depend on other aircraft.
until_it_rests = SessionWindows.of_inactivity_gap_and_grace(8 * HOUR_MS, HOUR_MS)

# In the topic by airport they are not: a year of history is read as fast as it can be, from several
# partitions side by side, and the flights of one hour may stand months apart. When it is over,
# minutes would do.
three_hours = TimeWindows.of_size_and_grace(3 * HOUR_MS, YEAR_MS).advance_by(HOUR_MS)
any_hour = SlidingWindows.of_time_difference_and_grace(HOUR_MS, YEAR_MS)

builder = StreamsBuilder()
flights: KStream[str, Flight] = builder.stream("flights")
departures = flights.filter(departed)

# A ready aggregation keeps what it needs, and gives what is asked for. `several` puts some of them
# together: into one row, in one store.
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

# Delays travel once, to the partition where their airport lives; both questions about airports are
# answered there.
delays = departures.map(airport_and_delay).repartition(name="by-airport")

# Windows of three hours, of which one begins each hour: each delay counts in three.
(
    delays.group_by_key()
    .windowed_by(three_hours)
    .aggregate(aggregations.mean(), name="delays")
    .to_stream()
    .to(
        "delays-by-airport",
        key_serde=time_windowed_serde(serdes.STRING, 3 * HOUR_MS),
        value_serde=serdes.JSON,
    )
)

# Sliding windows do not follow the clock but the records: no hour is missed, whenever it begins.
(
    delays.filter(lambda _airport, delay: delay > 60)
    .group_by_key()
    .windowed_by(any_hour)
    .count(name="rushes")
    .to_stream()
    .to(
        "rushes-by-airport",
        key_serde=time_windowed_serde(serdes.STRING, HOUR_MS),
        value_serde=serdes.JSON,
    )
)
