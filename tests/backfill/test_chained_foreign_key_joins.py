"""Results of joins by foreign keys that are joined again end as the tables say, in a backfill too.

Histories are random: few keys, few times, deletions. What is expected is worked out from the last
rows of the three tables alone, so that it holds in whatever order records of one time are taken.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from pystreams import KTable, StreamsBuilder, Topology, serdes
from pystreams.record import ProducedRecord
from tests.backfill.in_process import Row, run
from tests.backfill.live import live_run, outcome_of
from tests.backfill.sources.covered import CACHE, CONFIG, spread
from tests.backfill.table_topologies import TEXT, joined
from tests.variants import first_of

Table = dict[str, str]
TOPICS = ("left", "right", "middle")


class Join(NamedTuple):
    """A join of two of the tables there are: inputs, or the result of the first join, "first".

    Attributes:
        this: The left one.
        other: The right one.
        method: How it is joined.
        named_at: Where in a left value stands which row it names; None for a join by keys.
    """

    this: str
    other: str
    method: str
    named_at: int | None

    def declare(self, tables: dict[str, KTable[str, str]], name: str) -> KTable[str, str]:
        this: Any = tables[self.this]
        options: dict[str, Any] = {"name": name, "value_serde": serdes.STRING}
        if self.named_at is not None:
            options["foreign_key"] = self.named
        result: KTable[str, str] = getattr(this, self.method)(tables[self.other], joined, **options)
        return result

    def named(self, value: str) -> str | None:
        assert self.named_at is not None
        return None if value[self.named_at] == "0" else f"k{value[self.named_at]}"

    def of(self, tables: dict[str, Table]) -> Table:
        """Return the result that these rows have."""
        this, other = tables[self.this], tables[self.other]
        outer = self.method == "outer_join"
        rows = {}
        for key in this.keys() | (other.keys() if outer else set()):
            value = this.get(key)
            found = key if self.named_at is None or value is None else self.named(value)
            foreign = None if found is None else other.get(found)
            if self.method != "join" or foreign is not None:
                rows[key] = joined(value, foreign)
        return rows


CHAINS = {
    "again by what the foreign row names": (
        Join("left", "right", "join", 1),
        Join("first", "middle", "join", -1),
    ),
    "again, rows without a result too": (
        Join("left", "right", "left_join", 1),
        Join("first", "middle", "left_join", 2),
    ),
    "then by keys": (
        Join("left", "right", "join", 1),
        Join("first", "middle", "outer_join", None),
    ),
    "after one by keys": (
        Join("left", "middle", "left_join", None),
        Join("first", "right", "join", 1),
    ),
    "as the table that is named": (
        Join("left", "right", "join", 1),
        Join("middle", "first", "join", -1),
    ),
    "with the table it was made of": (
        Join("left", "right", "join", 1),
        Join("first", "left", "left_join", 2),
    ),
}


def chained(joins: tuple[Join, Join]) -> Topology:
    builder = StreamsBuilder()
    tables = {topic: builder.table(topic, **TEXT) for topic in TOPICS}
    tables["first"] = joins[0].declare(tables, "first")
    joins[1].declare(tables, "second").to_stream().to("out", **TEXT)
    return builder.build()


def history(chance: random.Random) -> tuple[list[Row], dict[str, Table]]:
    """Return random rows and the tables they leave."""
    tables: dict[str, Table] = {topic: {} for topic in TOPICS}
    rows: list[Row] = []
    for timestamp in sorted(chance.randrange(3) * 1000 for _ in range(40)):
        topic, key = chance.choice(["left", *TOPICS]), f"k{chance.randrange(1, 4)}"
        tables[topic].pop(key, None)
        value = None
        if chance.random() > 0.25:
            tables[topic][key] = topic[0] + chance.choice("0123") + chance.choice("0123")
            value = tables[topic][key].encode()
        rows.append(Row(topic, 0, 0, timestamp, key.encode(), value, ()))
    return rows, tables


def in_partitions(rows: list[Row], count_of: Callable[[str], int]) -> list[Row]:
    return [
        row
        for topic in TOPICS
        for row in spread([row for row in rows if row.topic == topic], count_of(topic))
    ]


def rows_in(records: list[ProducedRecord]) -> Table:
    return {str(key, "utf-8"): str(value, "utf-8") for key, value, *_ in records if key and value}


@pytest.mark.parametrize("cache", first_of(CACHE, {}), ids=["a cache", "no cache"])
@pytest.mark.parametrize("chain", CHAINS)
def test_results_that_are_joined_again_are_those_of_the_tables(
    chain: str, cache: dict[str, object], tmp_path: Path
) -> None:
    joins = CHAINS[chain]
    chance = random.Random(chain)
    by_key = {join.other for join in joins if join.named_at is None}
    for number in range(2):
        rows, tables = history(chance)
        counts = {topic: chance.choice([1, 2, 3]) for topic in TOPICS}
        counts |= dict.fromkeys(by_key, counts["left"])
        tables["first"] = joins[0].of(tables)
        expected = {"first": tables["first"], "second": joins[1].of(tables)}

        config = {**CONFIG, **cache}
        placed = in_partitions(rows, counts.__getitem__)
        told = outcome_of(run(chained(joins), config, placed, counts, tmp_path / f"{number}"))
        in_one = in_partitions(rows, lambda _: 1)
        live = live_run(chained(joins), CONFIG, in_one, tmp_path / f"live-{number}")

        for store, result in expected.items():
            assert rows_in(told.states.get(store, [])) == result
            assert rows_in(live.states.get(store, [])) == result
