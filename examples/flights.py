"""Flights that left New York in 2013, counted while they happen.

    pystreams run examples/flights.py --dev

`scripts/flights` loads the data, runs this file and prints what it counted. Three questions:

- How many departures does each airline have, and how late are they on average?
- How many departures does each route have?
- How often has each aircraft departed so far?

A flight that was cancelled never departed: it has no delay, mostly not even an aircraft, and is
counted nowhere. A flight that left early has a negative delay, and pulls the mean down.
"""

from __future__ import annotations

from typing import TypedDict

from pystreams import KStream, KTable, StreamsBuilder, serdes

# Everything the runtime must know. `-c key=value` on the command line is stronger than this.
config = {
    # Names the application: its consumer group, its state, its internal topics.
    "application.id": "flights",
    # Output, state and input offsets are committed together, or not at all: after a crash no flight
    # is missing and none is counted twice. `at_least_once`, the default, is faster and may repeat.
    "processing.guarantee": "exactly_once",
    # A second of work in one transaction. The default of 100 ms is for those in a hurry.
    "commit.interval.ms": 1000,
    # How keys and values become bytes, where an operation says nothing else.
    "default.key.serde": "string",
    "default.value.serde": "json",
}


# What flows. At run time these are plain dicts, as the JSON serde makes them; the types are for you
# and your type checker. The rows have more columns than those named here.
class Flight(TypedDict):
    """A row of the topic `flights`; its key is the aircraft's tail number."""

    carrier: str
    origin: str
    dest: str
    dep_delay: int | None  # In minutes, less than 0 when early, null when cancelled.


class Airline(TypedDict):
    """A row of the topic `airlines`; its key is the carrier's code."""

    name: str


class Departure(TypedDict):
    """What is left of a flight that departed, with its airline's name."""

    airline: str
    delay: int


class Total(TypedDict):
    """What is kept for each carrier."""

    airline: str
    departures: int
    delay: int


class Punctuality(TypedDict):
    """What is told about each carrier."""

    airline: str
    departures: int
    mean_delay: float


def departed(_tailnum: str | None, flight: Flight) -> bool:
    return flight["dep_delay"] is not None


def carrier_and_delay(_tailnum: str, flight: Flight) -> tuple[str, int]:
    delay = flight["dep_delay"]
    assert delay is not None, "only flights that departed come here"
    return flight["carrier"], delay


def with_airline(delay: int, airline: Airline) -> Departure:
    return {"airline": airline["name"], "delay": delay}


def nothing_yet() -> Total:
    return {"airline": "", "departures": 0, "delay": 0}


def add(_carrier: str, departure: Departure, total: Total) -> Total:
    # The sum is kept, not the mean: whole numbers stay exact in whatever order they arrive.
    return {
        "airline": departure["airline"],
        "departures": total["departures"] + 1,
        "delay": total["delay"] + departure["delay"],
    }


def punctuality(total: Total) -> Punctuality:
    return {
        "airline": total["airline"],
        "departures": total["departures"],
        "mean_delay": total["delay"] / total["departures"],
    }


def route(_tailnum: str, flight: Flight) -> str:
    return f"{flight['origin']}-{flight['dest']}"


# The topology. These lines only declare it; `pystreams describe examples/flights.py` shows what
# becomes of them. A stream is what happened, a table what is true now: the last value of each key.
builder = StreamsBuilder()
flights: KStream[str, Flight] = builder.stream("flights")
airlines: KTable[str, Airline] = builder.table("airlines")
departures = flights.filter(departed)

# Flights are keyed by aircraft. To meet their airline, and to be added up by it, they must travel
# to the partition where their carrier lives: `map` changes the key, so the join sends them through
# an internal topic, named here. Only what is needed goes along, the delay.
(
    departures.map(carrier_and_delay)
    .join(airlines, with_airline, name="by-carrier")
    .group_by_key()
    .aggregate(nothing_yet, add, name="carriers")
    .to_stream()
    .map_values(punctuality)
    .to("flights-by-carrier")
)

# `group_by` changes the key too. The state is named like its result: it is kept in a local store
# and in the topic `flights-routes-changelog`, from which a lost store is restored.
(
    departures.group_by(route, name="by-route")
    .count(name="routes")
    .to_stream()
    .to("flights-by-route", value_serde=serdes.JSON)
)

# The key is right already, so nothing has to travel. A table tells its latest value at each commit,
# and may skip those between; `caching=False` tells them all: 1, 2, 3 and so on for each aircraft.
(
    departures.group_by_key()
    .count(name="aircraft", caching=False)
    .to_stream()
    .to("flights-by-aircraft", value_serde=serdes.JSON)
)
