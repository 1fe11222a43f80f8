"""The weather at each flight's destination, asked from an HTTP service, many at a time.

    WEATHER_URL=http://127.0.0.1:8000 pystreams run examples/airport_weather.py --dev

The service answers `GET /weather/LAX` with JSON. The request is made with the standard library, in
a thread (`asyncio.to_thread`), so that it does not block the event loop. With a client of your own,
such as `httpx.AsyncClient`, make it once a process, in the first call.
"""

from __future__ import annotations

import asyncio
import json
import os
from typing import Any
from urllib.request import urlopen

from pystreams import KStream, StreamsBuilder

config = {
    "application.id": "airport-weather",
    "processing.guarantee": "exactly_once",
    # Many times as long as a call takes: each commit waits for the slowest call.
    "commit.interval.ms": 1000,
    "default.key.serde": "string",
    "default.value.serde": "json",
}


def fetched(url: str) -> Any:
    # The client's own time-out ends the thread; that of the operation only gives the call up.
    with urlopen(url, timeout=2) as answer:
        return json.load(answer)


async def with_weather(flight: dict[str, Any]) -> dict[str, Any]:
    url = f"{os.environ['WEATHER_URL']}/weather/{flight['dest']}"
    return flight | {"weather": await asyncio.to_thread(fetched, url)}


builder = StreamsBuilder()
flights: KStream[str, dict[str, Any]] = builder.stream("flights")
flights.map_values_async(
    with_weather, max_in_flight=32, timeout_ms=2500, retries=2, ordered=False
).to("flights-with-weather")
