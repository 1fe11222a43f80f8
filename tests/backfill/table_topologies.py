"""Joins of tables, by their keys and by foreign keys, to be backfilled."""

from __future__ import annotations

from typing import Any

from pystreams import StreamsBuilder, Topology, ValueTransformerWithKey, serdes

TEXT: Any = {"key_serde": serdes.STRING, "value_serde": serdes.STRING}


def joined(value: str | None, other: str | None) -> str:
    return f"{value}/{other}"


class WithKey(ValueTransformerWithKey[str, str, str]):
    """Puts its key before a value."""

    def transform(self, key: str, value: str | None) -> str | None:
        return None if value is None else f"{key}:{value}"


def table_joins() -> Topology:
    """Three joins of two tables by their keys, one of them on a result of another, transformed."""
    builder = StreamsBuilder()
    left, right = builder.table("left", **TEXT), builder.table("right", **TEXT)
    inner = left.join(right, joined, name="both", value_serde=serdes.STRING)
    inner.to_stream().to("both", **TEXT)
    left.left_join(right, joined).to_stream().to("lefts", **TEXT)
    keyed = inner.transform_values(WithKey, name="keyed", value_serde=serdes.STRING)
    keyed.outer_join(right, joined, name="all", value_serde=serdes.STRING).to_stream().to(
        "all", **TEXT
    )
    return builder.build()


def foreign_key_joins() -> Topology:
    """Rows joined with those they name, some of which name none, in an inner and a left join."""
    builder = StreamsBuilder()
    left, right = builder.table("left", **TEXT), builder.table("right", **TEXT)
    left.join(
        right,
        joined,
        foreign_key=lambda value: None if value == "v0" else f"k{value[1:]}",
        name="named",
        value_serde=serdes.STRING,
    ).to_stream().to("named", **TEXT)
    left.left_join(
        right,
        joined,
        foreign_key=lambda value: f"k{int(value[1:]) % 4}",
        name="all-named",
        value_serde=serdes.STRING,
    ).to_stream().to("all-named", **TEXT)
    return builder.build()


def chained_foreign_keys() -> Topology:
    """A table that names rows of its own, and joins on the result of another join."""
    builder = StreamsBuilder()
    left, right = builder.table("left", **TEXT), builder.table("right", **TEXT)
    left.join(
        left,
        joined,
        foreign_key=lambda value: f"k{value[1:]}",
        name="itself",
        value_serde=serdes.STRING,
    )
    first = left.left_join(
        right,
        joined,
        foreign_key=lambda value: f"k{value[1:]}",
        name="first",
        value_serde=serdes.STRING,
    )
    second = first.join(
        right,
        joined,
        foreign_key=lambda value: f"k{value[1]}",
        name="second",
        value_serde=serdes.STRING,
    )
    second.to_stream().to("out", **TEXT)
    right.left_join(
        first,
        joined,
        foreign_key=lambda value: f"k{value[1]}",
        name="back",
        value_serde=serdes.STRING,
    )
    return builder.build()
