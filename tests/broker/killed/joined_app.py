"""The application that is killed: tables joined by key and by foreign key, and counted.

Three tables of key -> number. `joined` has the rows of `left` and `right` with one key, `counts`
how many of those have each remainder; `foreign` has those of `left` with the row of `named` that
their number names, `foreign-left` those without one, too.
"""

from __future__ import annotations

import os

from pystreams import KTable, StreamsBuilder, Topology, serdes

INPUTS = ("left", "right", "named")
TABLES = ("joined", "counts", "foreign", "foreign-left")
NAMES = 7
REMAINDERS = 5
NOBODY = 999


def name_in(number: int) -> str | None:
    """Return the row of `named` that a number names; some name none."""
    name = number % (NAMES + 1)
    return None if name == NAMES else f"named {name}"


def both(number: int, other: int | None) -> int:
    return number * 1000 + (NOBODY if other is None else other)


def remainder_of(number: int) -> str:
    return f"remainder {number % REMAINDERS}"


def topology() -> Topology:
    name = os.environ["KILLED_NAME"]
    builder = StreamsBuilder()

    def send(table: KTable[str, int], result: str) -> None:
        stream = table.to_stream()
        stream.to(f"{name}-{result}", key_serde=serdes.STRING, value_serde=serdes.LONG)

    left, right, named = (
        builder.table(f"{name}-{topic}", key_serde=serdes.STRING, value_serde=serdes.LONG)
        for topic in INPUTS
    )
    joined = left.join(right, both)
    send(joined, "joined")
    grouped = joined.group_by(
        lambda _, number: (remainder_of(number), number),
        key_serde=serdes.STRING,
        value_serde=serdes.LONG,
    )
    send(grouped.count(), "counts")
    send(left.join(named, both, foreign_key=name_in), "foreign")
    send(left.left_join(named, both, foreign_key=name_in), "foreign-left")
    return builder.build({"topology.optimization": os.environ["KILLED_OPTIMIZATION"]})
