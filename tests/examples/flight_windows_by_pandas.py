"""What pandas finds in windows of the flights, and what the topics say of them."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from typing import Any

import orjson
import pandas as pd

from examples.flights_loader import scheduled_departure_ms
from examples.flights_report import partitions_of, read_to_end, reader
from examples.flights_windows import HOUR_MS
from pystreams import Serde, Window, Windowed, serdes, session_windowed_serde, time_windowed_serde

Rows = dict[Windowed[str], Any]
"""The last value of each key and window."""

REST_MS = 8 * HOUR_MS

KEYS: dict[str, Serde[Windowed[str]]] = {
    "aircraft-days": session_windowed_serde(serdes.STRING),
    "delays-by-airport": time_windowed_serde(serdes.STRING, 3 * HOUR_MS),
    "rushes-by-airport": time_windowed_serde(serdes.STRING, HOUR_MS),
}


def expected_rows(flights: pd.DataFrame) -> dict[str, Rows]:
    """Return what is to be in each output topic at the end."""
    departures = flights[flights["dep_delay"].notna()]
    departures = departures.assign(ms=scheduled_departure_ms(departures))
    departures = departures.sort_values("ms", kind="stable")
    return {
        "aircraft-days": aircraft_days(departures),
        "delays-by-airport": delays(departures),
        "rushes-by-airport": rushes(departures),
    }


def aircraft_days(departures: pd.DataFrame) -> Rows:
    """Return the sessions: a pause of more than eight hours begins a new one."""
    pause = departures.groupby("tailnum")["ms"].diff()
    day = (pause > REST_MS).groupby(departures["tailnum"]).cumsum()
    late = departures["dep_delay"].clip(lower=0)
    days = (
        departures.assign(day=day, late=late)
        .groupby(["tailnum", "day"])
        .agg(
            start=("ms", "min"),
            end=("ms", "max"),
            flights=("ms", "size"),
            minutes_late=("late", "sum"),
            first=("origin", "first"),
            last=("dest", "last"),
        )
    )
    return {
        Windowed(tailnum, Window(row.start, row.end)): {
            "flights": row.flights,
            "minutes_late": int(row.minutes_late),
            "first": row.first,
            "last": row.last,
        }
        for (tailnum, _), row in zip(days.index, days.itertuples(index=False), strict=True)
    }


def delays(departures: pd.DataFrame) -> Rows:
    """Return the means: each departure is in the three windows that begin up to its hour."""
    hour = departures["ms"] // HOUR_MS * HOUR_MS
    hops = [departures.assign(start=hour - number * HOUR_MS) for number in range(3)]
    means = pd.concat(hops).groupby(["origin", "start"])["dep_delay"].mean()
    return {
        Windowed(airport, Window(start, start + 3 * HOUR_MS)): mean
        for (airport, start), mean in means.items()
    }


def rushes(departures: pd.DataFrame) -> Rows:
    """Return the counts: a window ends with each departure, and one begins just after it.

    The latter is there if it has departures. Both ends are inclusive.
    """
    late = departures[departures["dep_delay"] > 60]
    counts: Rows = {}
    for airport, times in late.groupby("origin")["ms"]:
        sorted_times = times.tolist()
        for time in set(sorted_times):
            for start in (time - HOUR_MS, time + 1):
                first = bisect_left(sorted_times, start)
                count = bisect_right(sorted_times, start + HOUR_MS) - first
                if count:
                    counts[Windowed(airport, Window(start, start + HOUR_MS))] = count
    return counts


def last_rows(topic: str, records: Iterable[tuple[bytes | None, bytes | None]]) -> Rows:
    """Return the last value of each key; one that was deleted is not there.

    Args:
        topic: Says how keys are read.
        records: Keys and values, in order.
    """
    windowed = KEYS[topic].deserializer(topic)
    rows: Rows = {}
    for raw_key, raw_value in records:
        assert raw_key is not None
        key = windowed(raw_key)
        if raw_value is None:
            rows.pop(key, None)
        else:
            rows[key] = orjson.loads(raw_value)
    return rows


def rows_in_topics(bootstrap_servers: str) -> dict[str, Rows]:
    """Return what is committed in each output topic."""
    found = {}
    with reader(bootstrap_servers) as consumer:
        for topic in KEYS:
            messages = read_to_end(consumer, partitions_of(consumer, topic))
            found[topic] = last_rows(topic, ((each.key(), each.value()) for each in messages))
    return found
