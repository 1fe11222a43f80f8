"""Delays on arrival, predicted by a model for hundreds of flights in one call.

    pystreams run examples/flight_delays.py --dev

The model is a line through delays of the past, fitted with numpy when the program starts: what a
flight that left late will have made up when it lands, the further it flies the more. Any model with
a `predict` for many rows takes its place.
"""

from __future__ import annotations

from typing import TypedDict

import numpy as np
from numpy.typing import NDArray

from pystreams import KStream, StreamsBuilder

config = {
    "application.id": "flight-delays",
    "processing.guarantee": "exactly_once",
    "commit.interval.ms": 1000,
    "default.key.serde": "string",
    "default.value.serde": "json",
}


class Flight(TypedDict):
    """A row of the topic `flights`; its key is the aircraft's tail number."""

    carrier: str
    dest: str
    distance: int
    dep_delay: int | None


class Prediction(TypedDict):
    """What is told about a flight that has left."""

    carrier: str
    dest: str
    predicted_arr_delay: float


# Delays at departure (minutes), distances (miles), delays on arrival: as measured before.
PAST = np.array(
    [(-5, 200, -8), (0, 1000, -6), (10, 500, 6), (30, 2500, 18), (60, 760, 55), (120, 2400, 108)],
    dtype=float,
)


def rows_of(delays: NDArray[np.float64], distances: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.column_stack([np.ones(len(delays)), delays, distances])


# Once a process: the function below is called for each batch.
MODEL = np.linalg.lstsq(rows_of(PAST[:, 0], PAST[:, 1]), PAST[:, 2], rcond=None)[0]


def predict(flights: list[Flight]) -> list[Prediction]:
    delays = np.array([flight["dep_delay"] for flight in flights], dtype=float)
    distances = np.array([flight["distance"] for flight in flights], dtype=float)
    # `tolist`: serdes expect plain numbers, not numpy's.
    predicted = np.round(rows_of(delays, distances) @ MODEL, 1).tolist()
    return [
        {"carrier": flight["carrier"], "dest": flight["dest"], "predicted_arr_delay": minutes}
        for flight, minutes in zip(flights, predicted, strict=True)
    ]


def has_left(_tailnum: str | None, flight: Flight) -> bool:
    return flight["dep_delay"] is not None


builder = StreamsBuilder()
flights: KStream[str, Flight] = builder.stream("flights")
flights.filter(has_left).map_values_batch(predict).to("predicted-delays")
