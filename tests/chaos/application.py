"""The application under chaos: something of everything that keeps state or moves records.

Values are text: what a record is (`number of the record`), and what it names. One output a part:

- `pages`: clicks of each page, counted behind a repartition: count and click.
- `windows`: clicks of each user in hopping windows: count.
- `pairs`: clicks and views of a user within a second: click and view.
- `greeted`: each click with its user's row: click and row.
- `priced`: each click with the tariff of its time, from a versioned table: click and tariff.
- `sold`: orders with the rows of their products, by a foreign key: order, product and row.
"""

from __future__ import annotations

import os
from typing import Any, Final

from pystreams import JoinWindows, Materialized, StreamsBuilder, TimeWindows, Topology, serdes
from tests.chaos import planted, skew

INPUTS: Final = ("clicks", "views", "users", "tariffs", "orders", "products")
OUTPUTS: Final = ("pages", "windows", "pairs", "greeted", "priced", "sold")
STORES: Final = ("pages", "windows", "users", "orders", "products")
"""Those that are compared with the model, beside the versioned `tariffs`; the joins have more."""
NOTHING: Final = "-"
SIZE_MS: Final = 10_000
ADVANCE_MS: Final = 5_000
WITHIN_MS: Final = 1_000
LATE_MS: Final = 3_600_000 * 6
"""Nothing comes too late: what does depends on what is read first, and has no one right answer."""
_TEXT: Final[Any] = {"key_serde": serdes.STRING, "value_serde": serdes.STRING}


def topology() -> Topology:
    name = os.environ["CHAOS_NAME"]
    builder = StreamsBuilder()
    clicks = builder.stream(f"{name}-clicks", **_TEXT)
    views = builder.stream(f"{name}-views", **_TEXT)
    users, orders, products = (
        builder.table(f"{name}-{table}", name=table, **_TEXT)
        for table in ("users", "orders", "products")
    )
    tariffs = builder.table(
        f"{name}-tariffs",
        materialized=Materialized(name="tariffs", history_retention_ms=LATE_MS, **_TEXT),
        **_TEXT,
    )
    parts = {
        "pages": clicks.group_by(lambda _, click: second(click), name="by-page", **_TEXT)
        .aggregate(str, lambda _, click, before: one_more(before, click), name="pages", **_TEXT)
        .to_stream(),
        "windows": clicks.group_by_key(**_TEXT)
        .windowed_by(
            TimeWindows.of_size_and_grace(SIZE_MS, LATE_MS).advance_by(ADVANCE_MS),
        )
        .count(name="windows")
        .to_stream(lambda windowed, _: f"{windowed.key} {windowed.window.start}")
        .map_values(str),
        "pairs": clicks.join(
            views,
            lambda click, view: f"{first(click)} {first(view)}",
            JoinWindows.of_time_difference_and_grace(WITHIN_MS, LATE_MS),
            name="pairs",
            value_serde=serdes.STRING,
            other_value_serde=serdes.STRING,
            key_serde=serdes.STRING,
        ),
        "greeted": clicks.left_join(users, with_row),
        "priced": clicks.left_join(tariffs, with_row),
        "sold": orders.join(
            products, lambda order, row: f"{order} {row}", foreign_key=second
        ).to_stream(),
    }
    for part, stream in parts.items():
        stream.to(f"{name}-{part}", **_TEXT)
    return builder.build()


def first(value: str) -> str:
    return value.partition(" ")[0]


def second(value: str) -> str:
    return value.split(" ")[1]


def one_more(before: str, click: str) -> str:
    """Return a count and the click that was counted last."""
    count = int(first(before)) if before else 0
    return f"{count + 1} {first(click)}"


def with_row(click: str, row: str | None) -> str:
    return f"{first(click)} {row or NOTHING}"


skew.apply()
planted.apply()
