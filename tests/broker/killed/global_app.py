"""The application that is killed: orders answered with a row of a global table."""

from __future__ import annotations

import os
from typing import Any

from pystreams import StreamsBuilder, Topology, serdes

NOBODY = 999


def topology() -> Topology:
    name = os.environ["KILLED_NAME"]
    numbers: Any = {"key_serde": serdes.STRING, "value_serde": serdes.LONG}
    builder = StreamsBuilder()
    rows = builder.global_table(f"{name}-rows", name="rows", **numbers)
    orders = builder.stream(f"{name}-orders", **numbers)
    answered = orders.left_join(
        rows,
        lambda key, _: key,
        lambda number, row: number * 1000 + (NOBODY if row is None else row),
    )
    answered.to(f"{name}-answers", **numbers)
    return builder.build()
