"""The application that is killed: batches and calls with retries, one behind the other.

Input: key -> number. Each number goes through a batch, a call in order and a call out of order. The
calls take times that are drawn, and some fail at their first try. `out` has each result, `count`
how many of its key there were.
"""

from __future__ import annotations

import asyncio
import os
import random
from typing import Any

from pystreams import StreamsBuilder, Topology, serdes

FAILING_OF_TEN = 1
MAX_LATENCY_S = 0.03
KEYED: Any = {"key_serde": serdes.STRING, "value_serde": serdes.LONG}

_draw = random.Random()


async def take_a_while() -> None:
    await asyncio.sleep(_draw.random() ** 3 * MAX_LATENCY_S)
    if _draw.randrange(10) < FAILING_OF_TEN:
        raise ConnectionError("not this time")


async def plus_a_million(number: int) -> int:
    await take_a_while()
    return number + 1_000_000


async def negative(number: int) -> int:
    await take_a_while()
    return -number


def topology() -> Topology:
    name = os.environ["KILLED_NAME"]
    builder = StreamsBuilder()
    source = builder.stream(f"{name}-in", **KEYED)
    doubled = source.map_values_batch(lambda numbers: [2 * number for number in numbers])
    called = doubled.map_values_async(
        plus_a_million, max_in_flight=50, retries=8, retry_backoff_ms=1, timeout_ms=500
    )
    again = called.map_values_async(
        negative, max_in_flight=30, retries=8, retry_backoff_ms=1, timeout_ms=500, ordered=False
    )
    again.to(f"{name}-out", **KEYED)
    again.group_by_key(**KEYED).count(name="count").to_stream().to(f"{name}-count", **KEYED)
    return builder.build()


def answer_to(number: int) -> int:
    """Return what comes of a number."""
    return -(2 * number + 1_000_000)
