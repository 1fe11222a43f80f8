"""What pandas finds in the flights, and what the topics say of each aircraft."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import Any

import orjson
import pandas as pd
import pytest

from examples import flights_loader
from examples.flights_report import partitions_of, read_to_end, reader


@dataclass(frozen=True, slots=True)
class Expected:
    """What pandas finds in a frame.

    A departure is a row with a `dep_time`: cancelled flights have none, and no delay either.
    """

    carriers: dict[str, dict[str, Any]]
    routes: dict[str, int]
    aircraft: dict[str, int]

    @classmethod
    def of(cls, flights: pd.DataFrame) -> Expected:
        departures = flights[flights["dep_time"].notna()]
        names = flights_loader.read_frame("airlines").set_index("carrier")["name"]
        delays = departures.groupby("carrier")["dep_delay"].agg(["size", "mean"])
        carriers = {
            carrier: {
                "airline": names[carrier],
                "departures": size,
                "mean_delay": pytest.approx(mean, rel=1e-12),
            }
            for carrier, size, mean in delays.itertuples()
        }
        routes = (departures["origin"] + "-" + departures["dest"]).value_counts().to_dict()
        return cls(carriers, routes, departures["tailnum"].value_counts().to_dict())


def assert_counts_without_gap(counted: list[tuple[str, int]], expected: dict[str, int]) -> None:
    """Each key's counts are 1, 2, ... up to the expected one."""
    counts = defaultdict(list)
    for key, count in counted:
        counts[key].append(count)
    assert counts == {key: list(range(1, total + 1)) for key, total in expected.items()}


def all_counts(server: str, topic: str) -> list[tuple[str, int]]:
    """Return every record that is committed, in each partition's order."""
    with reader(server) as consumer:
        messages = read_to_end(consumer, partitions_of(consumer, topic))
        return [
            ((message.key() or b"").decode(), orjson.loads(message.value() or b"null"))
            for message in messages
        ]
