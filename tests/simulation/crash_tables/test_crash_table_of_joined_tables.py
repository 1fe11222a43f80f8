"""The crash table of joined tables: by key, counted behind a repartition, and by foreign key.

After each crash the tables, the subscriptions and the counts hold what their offsets say; after the
restart the rows sent on are those that the tables make, and no count has gone wrong on the way.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from pystreams import KTable, Materialized, StoreEngine, StreamsBuilder, Topology, serdes
from pystreams.stores.spec_builder import StoreSpecBuilder
from tests.simulation.crash_tables.crash_run import FIRST_MS, CrashRun, die_at_each_step, steps_of
from tests.variants import first_of

pytestmark = pytest.mark.simulation

GUARANTEES = ("exactly_once_v2", "exactly_once")
TYPES: Any = {"key_serde": serdes.STRING, "value_serde": serdes.LONG}
INPUTS = ("left", "right", "named")
NOTHING = 999
_HOPS = 3
"""To the foreign row, back, and one more to be sure."""
Change = tuple[str, str, int | None]
"""Input, key and number; None deletes the row."""
BATCHES: list[list[Change]] = [
    [("left", "a", 1), ("right", "a", 2), ("left", "b", 1), ("named", "n1", 7), ("left", "c", 2)],
    [("left", "a", 2), ("named", "n2", 8), ("right", "b", 4), ("named", "n1", 9), ("left", "d", 3)],
    [("left", "b", None), ("named", "n1", None), ("right", "a", 5), ("left", "e", 1)],
]


def name_in(number: int) -> str:
    return f"n{number}"


def both(number: int, other: int | None) -> int:
    return number * 1000 + (NOTHING if other is None else other)


def joining(engine: StoreEngine, optimization: str = "none") -> Topology:
    builder = StreamsBuilder()

    def send(table: KTable[str, int], result: str) -> None:
        table.to_stream(lambda key, _: f"{result} {key}").to("out", **TYPES)

    left, right, named = (
        builder.table(topic, **TYPES, materialized=Materialized(name=topic, store_type=engine))
        for topic in INPUTS
    )
    joined = left.join(right, both, name="joined", store_type=engine, **TYPES)
    send(joined, "joined")
    counted = joined.group_by(lambda _, number: (f"{number % 10}", number), **TYPES)
    send(counted.count(name="counts", store_type=engine), "counted")
    foreign = left.left_join(
        named, both, foreign_key=name_in, name="foreign", store_type=engine, **TYPES
    )
    send(foreign, "foreign")
    return builder.build({"topology.optimization": optimization})


def stores_of(topology: Topology) -> Mapping[str, StoreSpecBuilder]:
    return {
        name: builder
        for name, builder in topology.stores.items()
        if isinstance(builder, StoreSpecBuilder)
    }


def model() -> dict[str, int]:
    """Return the rows of all results in the end."""
    tables: dict[str, dict[str, int]] = {topic: {} for topic in INPUTS}
    for topic, key, number in (change for batch in BATCHES for change in batch):
        if number is None:
            tables[topic].pop(key)
        else:
            tables[topic][key] = number
    left, right, named = tables.values()
    joined = {key: both(left[key], right[key]) for key in left.keys() & right.keys()}
    rows = {f"joined {key}": number for key, number in joined.items()}
    rows |= Counter(f"counted {number % 10}" for number in joined.values())
    for key, number in left.items():
        rows[f"foreign {key}"] = both(number, named.get(name_in(number)))
    return rows


class JoinedTablesRun(CrashRun):
    """Three commits' worth of changes, some of which delete rows."""

    engine = StoreEngine.ROCKSDB
    builders = stores_of(joining(engine))

    def topology(self, *, transactional: bool) -> Topology:
        return joining(self.engine)

    def feed_and_process(self) -> None:
        self.batches = list(BATCHES)
        self.fed = 0
        self.feed_rest()

    def feed_rest(self) -> None:
        pack = serdes.LONG.serializer("")
        while self.batches and self.process.running:
            for topic, key, number in self.batches.pop(0):
                value = None if number is None else pack(number)
                self.fed += 1
                self.app.broker.produce(topic, key.encode(), value, FIRST_MS + self.fed)
            self.process_all()

    def process_all(self) -> None:
        """Process what is sent on to the application itself, too, which takes some commits."""
        for _ in range(_HOPS):
            super().process_all()
            self.app.broker.settle()

    def is_committed(self, topic: str) -> bool:
        inside = [name for name in self.app.broker.partition_counts() if self.is_inside(name)]
        return all(super(JoinedTablesRun, self).is_committed(name) for name in (topic, *inside))

    def is_inside(self, topic: str) -> bool:
        return topic.startswith("app-") and not topic.endswith("-changelog")

    def check_outputs(self) -> None:
        rows: dict[str, int | None] = {}
        unpack = serdes.LONG.deserializer("")
        for message in self.app.broker.committed_records("out"):
            key, value = (message.message_key or b"").decode(), message.message_value
            rows[key] = None if value is None else unpack(value)
            # Were a change counted twice, or its opposite, one of them would have shown it.
            assert not key.startswith("counted") or rows[key] in (0, 1, 2)
        assert {key: number for key, number in rows.items() if number} == model()


class InMemoryRun(JoinedTablesRun):
    """All is restored from the changelogs."""

    engine = StoreEngine.IN_MEMORY
    builders = stores_of(joining(engine))


KINDS = [JoinedTablesRun, InMemoryRun]


@pytest.mark.parametrize("kind", KINDS)
def test_the_run_joins_in_several_tasks_with_a_store_for_each_part(
    kind: type[JoinedTablesRun], tmp_path: Path
) -> None:
    """Otherwise the crashes below would miss what they are for."""
    run = kind(tmp_path, "exactly_once", seed=0)
    steps = "\n".join(steps_of(run))
    run.app.broker.settle()

    run.check_outputs()
    inside = [topic for topic in run.app.broker.partition_counts() if run.is_inside(topic)]
    assert len(inside) == 3, "one for the counts, two for the foreign key"
    assert len(run.builders) == 7
    if kind.engine is StoreEngine.ROCKSDB:
        for name in run.builders:
            assert f"write {name}" in steps


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("guarantee", first_of(*GUARANTEES))
def test_crash_at_a_step_ends_with_the_rows_that_the_tables_make(
    kind: type[JoinedTablesRun], guarantee: str, tmp_path: Path
) -> None:
    assert die_at_each_step(kind, tmp_path, guarantee, every=29) > 5


@pytest.mark.sweep
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("guarantee", GUARANTEES)
def test_crash_at_every_single_step_ends_with_the_rows_that_the_tables_make(
    kind: type[JoinedTablesRun], guarantee: str, tmp_path: Path
) -> None:
    assert die_at_each_step(kind, tmp_path, guarantee, every=1) > 60
