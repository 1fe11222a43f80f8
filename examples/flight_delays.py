"""Delays on arrival, predicted by a scikit-learn model for hundreds of flights in one call.

    pip install scikit-learn
    pystreams run examples/flight_delays.py --dev

The model is a line through delays of the past, fitted when the program starts: what a flight that
left late will have made up when it lands, the further it flies the more. Any model with a `predict`
for many rows takes its place; one that takes long to train is loaded from a file there.
"""

from __future__ import annotations

from typing import TypedDict

import numpy as np
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

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


# Once a process: the function below is called for each batch.
MODEL = make_pipeline(StandardScaler(), LinearRegression()).fit(PAST[:, :2], PAST[:, 2])


def predict(flights: list[Flight]) -> list[Prediction]:
    rows = np.array([(flight["dep_delay"], flight["distance"]) for flight in flights], dtype=float)
    # `tolist`: serdes expect plain numbers, not numpy's.
    predicted = np.round(MODEL.predict(rows), 1).tolist()
    return [
        {"carrier": flight["carrier"], "dest": flight["dest"], "predicted_arr_delay": minutes}
        for flight, minutes in zip(flights, predicted, strict=True)
    ]


def has_left(_tailnum: str | None, flight: Flight) -> bool:
    return flight["dep_delay"] is not None


builder = StreamsBuilder()
flights: KStream[str, Flight] = builder.stream("flights")
flights.filter(has_left).map_values_batch(predict).to("predicted-delays")
