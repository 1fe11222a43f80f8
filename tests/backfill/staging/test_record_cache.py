"""What a record cache may change in a backfill's stores, and what it can't.

Between two flushes a cache passes on one change of a row. A backfill flushes at other moments than
a live run, whose commits may be at any: here one after each record.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from pystreams import StreamsBuilder, Topology, serdes
from pystreams.record import ProducedRecord
from tests.backfill.in_process import Row, run
from tests.backfill.live import States, live_run, outcome_of
from tests.backfill.sources.covered import CACHE, CONFIG, COUNT, LEFT, RIGHT, TEXT, spread
from tests.backfill.test_history_task import history_of
from tests.parity.golden import Observations
from tests.parity.topologies import TOPOLOGIES

GROUPED_TABLES = {"table_group_by", "memory_and_serdes"}
"""Topologies that group the rows of a table behind a cache."""

SMALL: Mapping[str, object] = {"statestore.cache.max.bytes": 100}
EMPTY = bytes(8)


def values(records: list[ProducedRecord]) -> dict[bytes | None, bytes | None]:
    return {key: value for key, value, _timestamp, _headers in records}


def parity_topology(name: str) -> Topology:
    return TOPOLOGIES[name](Observations())


def states_of(
    name: str, cache: Mapping[str, object], directory: Path, run_records: int = 1000
) -> tuple[States, States]:
    """The stores of a parity topology after a backfill and after a live run."""
    rows, config = history_of(name), {**CONFIG, **cache}
    counts = dict.fromkeys({row.topic for row in rows}, 1)
    topology, backfilled = parity_topology(name), directory / "backfill"
    results = run(topology, config, rows, counts, backfilled, run_records=run_records)
    return outcome_of(results).states, live_run(
        parity_topology(name), config, rows, directory / "live"
    ).states


@pytest.mark.parity
@pytest.mark.parametrize("name", sorted(TOPOLOGIES.keys() - GROUPED_TABLES))
def test_tables_and_aggregates_of_streams_end_the_same_with_their_times(
    name: str, tmp_path: Path
) -> None:
    found, live = states_of(name, CACHE, tmp_path)

    assert {store: sorted(records, key=repr) for store, records in found.items()} == {
        store: sorted(records, key=repr) for store, records in live.items()
    }


@pytest.mark.parametrize("run_records", [1, 7, 1000])
@pytest.mark.parametrize("store", ["big-homes", "sums"])
def test_counts_and_sums_of_a_table_s_groups_end_the_same_but_for_emptied_groups(
    store: str, run_records: int, tmp_path: Path
) -> None:
    """Whenever the cache is flushed: when it is full is looked at after so many records."""
    found, live = states_of("table_group_by", SMALL, tmp_path, run_records=run_records)

    in_backfill, in_live = values(found[store]), values(live[store])
    emptied = {key for key, value in in_live.items() if value == EMPTY}
    assert emptied
    assert {key: value for key, value in in_backfill.items() if value != EMPTY} == {
        key: value for key, value in in_live.items() if key not in emptied
    }


def test_rows_of_emptied_groups_and_times_of_groups_depend_on_the_cache(tmp_path: Path) -> None:
    found, live = states_of("table_group_by", CACHE, tmp_path)

    in_backfill, in_live = values(found["big-homes"]), values(live["big-homes"])
    assert in_live.keys() > in_backfill.keys()
    kept = [record for record in live["big-homes"] if record[0] in in_backfill]
    assert sorted(found["big-homes"]) != sorted(kept)


def counting_changes() -> Topology:
    """Counts records, and how often each count changes."""
    builder = StreamsBuilder()
    stream = builder.stream("left", **TEXT).filter(lambda _, value: value is not None)
    records = stream.group_by_key().count(name="records")
    records.to_stream().group_by_key(**COUNT).count(name="changes")
    return builder.build()


def counted(cache: Mapping[str, object], rows: list[Row], directory: Path) -> States:
    config = {**CONFIG, **cache}
    return outcome_of(run(counting_changes(), config, rows, {"left": 1}, directory)).states


def test_what_is_made_of_a_table_s_changes_depends_on_the_cache(tmp_path: Path) -> None:
    rows = spread(LEFT, 1)
    live = live_run(counting_changes(), CONFIG, rows, tmp_path / "live").states

    cached = counted(CACHE, rows, tmp_path / "cached")

    assert cached["records"] == live["records"]
    assert cached["changes"] != live["changes"]
    assert counted({}, rows, tmp_path / "uncached") == live


def joining_a_derived_table() -> Topology:
    """A stream that meets a table, a view of it, and a table made of it that has its own store."""
    builder = StreamsBuilder()
    stream = builder.stream("left", **TEXT)
    table = builder.table("right", name="rows", **TEXT)
    stream.join(table, str.__add__).to("joined", **TEXT)
    stream.join(table.filter(lambda _, row: row != "v3"), str.__add__).to("with-view", **TEXT)
    derived = table.map_values(str.upper, name="derived", value_serde=serdes.STRING)
    stream.join(derived, str.__add__).to("with-derived", **TEXT)
    return builder.build()


def test_table_made_of_a_cached_one_is_behind_where_a_stream_meets_it(tmp_path: Path) -> None:
    rows = [row for row in spread(LEFT + RIGHT, 1) if row.topic == "right" or row.value is not None]
    counts = {"left": 1, "right": 1}
    live = live_run(joining_a_derived_table(), CONFIG, rows, tmp_path / "live")

    config = {**CONFIG, **CACHE}
    results = run(joining_a_derived_table(), config, rows, counts, tmp_path / "cached")

    found = outcome_of(results)
    assert found.states == live.states
    assert live.outputs.pop("with-derived")
    assert found.outputs == live.outputs
