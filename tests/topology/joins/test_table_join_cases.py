"""Joins of tables: what is dropped, what old values are, and caches one behind the other.

Source: Kafka's `KTableKTableInnerJoinTest`, and those of the left and the outer join.
"""

from __future__ import annotations

import random
from typing import Any

import pytest

from pystreams import KTable, Materialized, StoreEngine, StreamsBuilder
from pystreams.serdes import LONG, STRING
from pystreams.testing import TopologyTestDriver

METHODS = ("join", "left_join", "outer_join")
TABLES = 6


def both(left: str | None, right: str | None) -> str:
    return f"{left}+{right}"


@pytest.mark.parametrize("method", METHODS)
def test_records_without_a_key_are_dropped_on_both_sides_and_told(
    builder: StreamsBuilder, drive: Any, method: str, caplog: pytest.LogCaptureFixture
) -> None:
    left, right = builder.table("left"), builder.table("right")
    getattr(left, method)(right, both).to_stream().to("out")
    driver = drive()

    for topic in ("left", "right"):
        driver.create_input_topic(topic, STRING, STRING).pipe_input(None, "x")

    assert driver.create_output_topic("out", STRING, STRING).is_empty()
    assert caplog.text.count("reason='null key'") == 2


@pytest.mark.parametrize("kept", [False, True], ids=["computed", "kept"])
@pytest.mark.parametrize(
    ("method", "rows"),
    [
        ("join", ["+x+1", "-x+1", "+x+2", "-x+2"]),
        ("left_join", ["+x+None", "-x+None", "+x+1", "-x+1", "+x+2", "-x+2", "+x+None"]),
        (
            "outer_join",
            ["+x+None", "-x+None", "+x+1", "-x+1", "+x+2", "-x+2", "+x+None"],
        ),
    ],
)
def test_old_values_of_the_result_are_subtracted_from_groups(
    builder: StreamsBuilder, drive: Any, method: str, rows: list[str], kept: bool
) -> None:
    left, right = builder.table("left"), builder.table("right")
    options: Any = {"name": "joined", "value_serde": STRING} if kept else {}
    joined: KTable[str, str] = getattr(left, method)(right, both, **options)
    seen: list[str] = []

    def note(sign: str, row: str) -> str:
        seen.append(f"{sign}{row}")
        return "seen"

    joined.group_by(lambda _, row: ("all", row), key_serde=STRING, value_serde=STRING).aggregate(
        str,
        lambda _, row, __: note("+", row),
        lambda _, row, __: note("-", row),
        value_serde=STRING,
    )
    driver = drive(statestore_cache_max_bytes=0)
    pipe = {topic: driver.create_input_topic(topic, STRING, STRING) for topic in ("left", "right")}

    pipe["left"].pipe_input("a", "x")
    for value in ("1", "2", None):
        pipe["right"].pipe_input("a", value)

    assert seen == rows


@pytest.mark.parametrize("seed", range(5))
def test_tables_joined_one_behind_the_other_are_the_same_with_caches_and_without(
    seed: int,
) -> None:
    with_caches, without = (_joined_rows(seed, size) for size in (500, 0))

    assert with_caches == without


def _joined_rows(seed: int, cache_bytes: int) -> dict[int, str | None]:
    """Return the rows of an aggregated table that six others are joined to, after many changes."""
    builder = StreamsBuilder()
    table: KTable[int, str] = (
        _table(builder, "base")
        .group_by(lambda key, value: (key, value), key_serde=LONG, value_serde=STRING)
        .reduce(
            lambda _, value: value,
            lambda so_far, _: so_far,
            name="groups",
            store_type=StoreEngine.IN_MEMORY,
        )
    )
    for number in range(TABLES):
        other = _table(builder, f"table-{number}")
        table = table.map_values(str.upper).left_join(
            other, both, name=f"joined-{number}", value_serde=STRING
        )
    table.to_stream().to("out", key_serde=LONG, value_serde=STRING)
    choices = random.Random(seed)
    config = {"statestore.cache.max.bytes": cache_bytes}
    with TopologyTestDriver(builder.build(), config) as driver:
        topics = ["base", *(f"table-{number}" for number in range(TABLES))]
        for time in range(300):
            topic = driver.create_input_topic(choices.choice(topics), LONG, STRING)
            value = None if choices.random() < 0.1 else f"v{time}"
            topic.pipe_input(choices.randrange(5), value, timestamp=time)
        return dict(driver.create_output_topic("out", LONG, STRING).read_key_values())


def _table(builder: StreamsBuilder, topic: str) -> KTable[int, str]:
    kept = Materialized[int, str](name=f"{topic}-rows", store_type=StoreEngine.IN_MEMORY)
    return builder.table(topic, key_serde=LONG, value_serde=STRING, materialized=kept)
