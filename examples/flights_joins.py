"""New York's departures of 2013 with the weather of their hour, their airplane, where they went.

    pystreams run examples/flights_joins.py --dev

Load the flights first: `python examples/flights_loader.py`. Three joins, of three kinds:

- Airports are few, and looked up by something that is no key of the stream: a global table. Each
  process has all of them, and a flight does not travel to find one.
- The weather changes each hour, and a flight is to meet that of its own hour, however late either
  of them comes: a table that keeps its history, joined with a grace period.
- Airplanes are rows that others name: a foreign key. When a row of an airplane is corrected, all
  its departures are told again.

What is told of a departure is a row of its own in the topic `departures`.
"""

from __future__ import annotations

from typing import TypedDict

from pystreams import KStream, KTable, Materialized, StreamsBuilder

HOUR_MS = 3_600_000
YEAR_MS = 366 * 24 * HOUR_MS

config = {
    "application.id": "flight-joins",
    "processing.guarantee": "exactly_once",
    "commit.interval.ms": 1000,
    "default.key.serde": "string",
    "default.value.serde": "json",
}


class Flight(TypedDict):
    """A row of the topic `flights`; its key is the aircraft's tail number."""

    time_hour: str
    carrier: str
    flight: int
    tailnum: str
    origin: str
    dest: str
    dep_delay: int | None  # In minutes, less than 0 when early, null when cancelled.


class Airport(TypedDict):
    """A row of the topic `airports`; its key is the airport's code."""

    name: str


class Weather(TypedDict):
    """A row of the topic `weather`; its key is the airport's code, its time the hour."""

    temp: float | None  # In degrees Fahrenheit.
    visib: float  # In miles.


class Plane(TypedDict):
    """A row of the topic `planes`; its key is the tail number."""

    manufacturer: str
    seats: int


class Departure(TypedDict):
    """What is told of a flight that departed; what nobody knows is null."""

    tailnum: str
    origin: str
    to: str | None
    delay: int
    temperature: float | None
    visibility: float | None
    manufacturer: str | None
    seats: int | None


class Named(TypedDict):
    """A departure on its way, with its name."""

    name: str
    departure: Departure


def departed(_tailnum: str | None, flight: Flight) -> bool:
    return flight["dep_delay"] is not None


def destination(_tailnum: str, flight: Flight) -> str:
    return flight["dest"]


def with_destination(flight: Flight, airport: Airport | None) -> Named:
    delay = flight["dep_delay"]
    assert delay is not None, "only flights that departed come here"
    return {
        # No other has the same: an airline uses a number once in an hour.
        "name": f"{flight['carrier']}{flight['flight']} {flight['time_hour']}",
        "departure": {
            "tailnum": flight["tailnum"],
            "origin": flight["origin"],
            "to": None if airport is None else airport["name"],
            "delay": delay,
            "temperature": None,
            "visibility": None,
            "manufacturer": None,
            "seats": None,
        },
    }


def with_weather(named: Named, weather: Weather | None) -> Named:
    if weather is None:
        return named
    found: Departure = {
        **named["departure"],
        "temperature": weather["temp"],
        "visibility": weather["visib"],
    }
    return {**named, "departure": found}


def tail_number(departure: Departure) -> str:
    return departure["tailnum"]


def with_plane(departure: Departure, plane: Plane | None) -> Departure:
    if plane is None:
        return departure
    return {**departure, "manufacturer": plane["manufacturer"], "seats": plane["seats"]}


builder = StreamsBuilder()
flights: KStream[str, Flight] = builder.stream("flights")
airports = builder.global_table("airports", name="airports")
planes: KTable[str, Plane] = builder.table("planes")

# Without a history a flight would meet the latest row there is: when a year is read at once, that
# of another hour, or of another month. The history is as long as what is read side by side.
weather: KTable[str, Weather] = builder.table(
    "weather", materialized=Materialized(name="weather", history_retention_ms=YEAR_MS)
)

# A flight waits an hour for the report of its own: until another one, an hour later, has come.
in_weather = (
    flights.filter(departed)
    .left_join(airports, destination, with_destination)
    .select_key(lambda _tailnum, named: named["departure"]["origin"])
    .left_join(weather, with_weather, grace_period_ms=HOUR_MS, name="by-airport")
)

departures = (
    in_weather.map(lambda _origin, named: (named["name"], named["departure"])).to_table(
        name="departures"
    )
).left_join(planes, with_plane, foreign_key=tail_number)

departures.to_stream().to("departures")
