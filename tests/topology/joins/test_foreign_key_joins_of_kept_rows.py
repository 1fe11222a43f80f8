"""Joins by a foreign key whose left rows were kept by an earlier version of the program.

The earlier one has subscribed with a hash of the bytes it wrote, and its store has these bytes; the
present one would write the row in other bytes.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import pytest

from pystreams import (
    KTable,
    Materialized,
    SessionWindows,
    Stores,
    StreamsBuilder,
    TimeWindows,
    Topology,
)
from pystreams.serdes import JSON, STRING, Serde, json_of, serde_of
from pystreams.testing import TopologyTestDriver

NO_CACHE: Any = {"statestore.cache.max.bytes": 0}
CACHED: Any = {"statestore.cache.max.bytes": 1_000_000}


def earlier() -> Serde[Any]:
    """Return the serde of a version."""

    @dataclass
    class Order:
        what: str
        who: str

    return json_of(Order)


def later() -> Serde[Any]:
    """Return that of the next one: its orders have a field more."""

    @dataclass
    class Order:
        what: str
        who: str
        pieces: int = 1

    return json_of(Order)


Left = Callable[[StreamsBuilder, Serde[Any]], KTable[Any, Any]]


def table(**kept: Any) -> Left:
    def declare(builder: StreamsBuilder, serde: Serde[Any]) -> KTable[Any, Any]:
        materialized: Any = Materialized(name="orders", **kept)
        return builder.table(
            "orders", key_serde=STRING, value_serde=serde, materialized=materialized
        )

    return declare


def supplied(supplier: Any) -> Left:
    def declare(builder: StreamsBuilder, serde: Serde[Any]) -> KTable[Any, Any]:
        materialized: Any = Materialized(supplier=supplier)
        return builder.table(
            "orders", key_serde=STRING, value_serde=serde, materialized=materialized
        )

    return declare


def windowed(windows: Any) -> Left:
    def declare(builder: StreamsBuilder, serde: Serde[Any]) -> KTable[Any, Any]:
        orders = builder.stream("orders", key_serde=STRING, value_serde=serde)
        grouped: Any = orders.group_by_key().windowed_by(windows)
        kept: Any = grouped.reduce(lambda _, new: new, name="orders")
        return kept  # type: ignore[no-any-return]

    return declare


def filtered(builder: StreamsBuilder, serde: Serde[Any]) -> KTable[Any, Any]:
    return table()(builder, serde).filter(lambda _, order: order.what != "")


LEFT: dict[str, Left] = {
    "a table": table(),
    "a table whose rows expire": table(ttl_ms=1_000_000),
    "a table without times": supplied(Stores.persistent_key_value_store("orders")),
    "a versioned table": supplied(Stores.persistent_versioned_key_value_store("orders", 10_000)),
    "windows": windowed(TimeWindows.of_size_with_no_grace(10_000)),
    "sessions": windowed(SessionWindows.of_inactivity_gap_with_no_grace(10_000)),
    "a filtered table": filtered,
}


def of(order: Any, field: str) -> str:
    found: str = order[field] if isinstance(order, dict) else getattr(order, field)
    return found


def joined(left: Left, serde: Serde[Any], method: str = "join") -> Topology:
    builder = StreamsBuilder()
    people = builder.table("people", key_serde=STRING, value_serde=STRING, name="people")
    result = getattr(left(builder, serde), method)(
        people,
        lambda order, person: f"{of(order, 'what')} for {person}",
        foreign_key=lambda order: of(order, "who"),
        node_name="joined",
    )
    result.to_stream().map(lambda _, value: ("1", value)).to(
        "out", key_serde=STRING, value_serde=STRING
    )
    return builder.build()


class Version:
    """One version of the program; its stores are those of the one before."""

    def __init__(self, topology: Topology, directory: Path, config: Any = NO_CACHE) -> None:
        self._driver = TopologyTestDriver(topology, config, state_directory=directory)

    def __enter__(self) -> Self:
        self._out = self._driver.create_output_topic("out", STRING, STRING)
        return self

    def __exit__(self, *_: object) -> None:
        self._driver.close()

    def order(self, what: str) -> list[str | None]:
        topic = self._driver.create_input_topic("orders", STRING, JSON)
        topic.pipe_input("1", {"what": what, "who": "ada"}, timestamp=100)
        return self._results()

    def call_her(self, name: str | None) -> list[str | None]:
        self._driver.create_input_topic("people", STRING, STRING).pipe_input("ada", name)
        return self._results()

    def _results(self) -> list[str | None]:
        return [value for _, value in self._out.read_key_values()]


@pytest.mark.parametrize("config", [NO_CACHE, CACHED], ids=["no cache", "record cache"])
@pytest.mark.parametrize("left", LEFT.values(), ids=LEFT)
def test_a_row_that_the_serde_would_write_in_other_bytes_hears_of_its_foreign_row(
    left: Left, config: Any, tmp_path: Path
) -> None:
    with Version(joined(left, earlier()), tmp_path, config) as first:
        first.call_her("Ada")
        assert first.order("tea") == ["tea for Ada"]

    with Version(joined(left, later()), tmp_path, config) as second:
        assert second.call_her("Ada L.") == ["tea for Ada L."]
        assert second.order("ale")[-1:] == ["ale for Ada L."]
        assert second.call_her("Ada Lovelace") == ["ale for Ada Lovelace"]


def test_such_a_row_of_a_left_join_hears_that_its_foreign_row_goes(tmp_path: Path) -> None:
    with Version(joined(table(), earlier(), "left_join"), tmp_path) as first:
        first.call_her("Ada")
        first.order("tea")

    with Version(joined(table(), later(), "left_join"), tmp_path) as second:
        assert second.call_her(None) == ["tea for None"]
        assert second.call_her("Ada") == ["tea for Ada"]


def test_a_row_that_another_serde_of_json_has_written_hears_of_its_foreign_row(
    tmp_path: Path,
) -> None:
    """As one that an application of Kafka Streams has left, whose serde leaves other blanks."""
    spaced = serde_of(lambda order: json.dumps(order, indent=1).encode(), json.loads)
    with Version(joined(table(), spaced), tmp_path) as first:
        first.call_her("Ada")
        assert first.order("tea") == ["tea for Ada"]

    with Version(joined(table(), JSON), tmp_path) as second:
        assert second.call_her("Ada L.") == ["tea for Ada L."]


def test_a_row_of_a_table_that_is_not_kept_is_what_its_function_makes_of_it_now(
    tmp_path: Path,
) -> None:
    def mapped(name: str) -> Left:
        return lambda builder, serde: table()(builder, serde).map_values(
            lambda order: type(order)(name, order.who), value_serde=serde
        )

    with Version(joined(mapped("a"), earlier()), tmp_path) as first:
        first.call_her("Ada")
        assert first.order("tea") == ["a for Ada"]

    with Version(joined(mapped("b"), earlier()), tmp_path) as second:
        assert second.call_her("Ada L.") == []
        assert second.order("tea") == ["b for Ada L."]
