"""Each example, backfilled: outputs and stores are those of a live run, byte by byte."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from examples import flight_delays, flights, flights_joins, flights_windows
from examples.flights_loader import (
    TOPICS,
    airline_rows,
    flight_rows,
    read_frame,
    scheduled_departure_ms,
)
from examples.flights_loader import Row as Loaded
from pystreams import Topology
from pystreams.cli.application.topology_loader import LoadingError, load_topology
from tests.backfill.in_process import Row, run
from tests.backfill.live import live_run, outcome_of
from tests.backfill.sources.covered import spread
from tests.backfill.spark.on_spark import run_on_spark
from tests.backfill.spark.test_on_spark import in_order, without_unread_ends
from tests.examples.flight_joins_by_pandas import flights_of, rows_to_join
from tests.variants import first_of

DIRECTORY = Path(flights.__file__).parent
EVERY_SO_MANY = 1200


@dataclass(frozen=True)
class Example:
    """An example's topology, and a history for it.

    Attributes:
        build: Makes the topology.
        config: Its configuration.
        rows: Makes the history, with one partition a topic.
        forgetting: Stores that forget by stream time, of which each partition has its own.
        telling_partitions: Stores whose rows hold the partition of a record, or its offset.
    """

    build: Callable[[], Topology]
    config: Mapping[str, object]
    rows: Callable[[], list[Row]]
    forgetting: frozenset[str] = frozenset()
    telling_partitions: frozenset[str] = frozenset()


@functools.cache
def some_flights() -> list[Row]:
    """The airlines, and flights of the whole year, some of them cancelled."""
    frame = read_frame("flights").iloc[::EVERY_SO_MANY]
    assert frame["dep_time"].isna().any()
    loaded = flight_rows(frame)
    return as_history([*airline_rows(loaded[0].timestamp_ms - 1), *loaded])


def as_history(records: Iterable[Loaded]) -> list[Row]:
    """Number what is loaded, with one partition a topic."""
    offsets: dict[str, int] = {}
    rows = []
    for topic, key, value, timestamp_ms in records:
        offset = offsets.setdefault(topic, 0)
        offsets[topic] += 1
        raw_key = None if key is None else key.encode()
        rows.append(Row(topic, 0, offset, timestamp_ms, raw_key, value.encode()))
    return rows


@functools.cache
def flights_to_join() -> list[Row]:
    """A hundredth of some weeks' flights, the last of which leave each airport at once."""
    frame = flights_of(days=30)
    last = frame[scheduled_departure_ms(frame) == scheduled_departure_ms(frame).max()]
    return as_history(rows_to_join(pd.concat([frame.drop(last.index).iloc[::100], last])))


def flights_alone() -> list[Row]:
    """The flights without the airlines, which not every example reads."""
    return [row for row in some_flights() if row.topic == "flights"]


EXAMPLES = {
    "flights_joins": Example(
        flights_joins.builder.build,
        flights_joins.config,
        flights_to_join,
        telling_partitions=frozenset(
            {"by-airport-Buffer", "KTABLE-FK-JOIN-SUBSCRIPTION-STATE-STORE-0000000024"}
        ),
    ),
    "flights": Example(flights.builder.build, flights.config, some_flights),
    "flights_windows": Example(
        flights_windows.builder.build,
        flights_windows.config,
        flights_alone,
        forgetting=frozenset({"aircraft-days"}),
    ),
    "flight_delays": Example(flight_delays.builder.build, flight_delays.config, flights_alone),
}
ASKS_A_SERVICE = {"airport_weather.py"}
"""What it gives is the service's, which `tests.examples.test_models_examples` runs."""
each_example = pytest.mark.parametrize("example", EXAMPLES.values(), ids=EXAMPLES)


def without_cache(example: Example) -> dict[str, object]:
    """What a cache leaves out depends on when it commits."""
    return {**example.config, "statestore.cache.max.bytes": 0}


def partitions(number: int) -> dict[str, int]:
    """Give each topic, of input and output, as many."""
    return dict.fromkeys(TOPICS, number)


@each_example
def test_backfill_gives_the_outputs_and_stores_of_a_live_run(
    example: Example, tmp_path: Path
) -> None:
    rows, config = example.rows(), without_cache(example)

    counts = partitions(1)
    found = outcome_of(run(example.build(), config, rows, counts, tmp_path / "backfill"))
    live = live_run(example.build(), config, rows, tmp_path / "live")

    assert all(live.outputs.values())
    assert all(live.states.values())
    assert found.outputs == live.outputs
    assert found.states == live.states


@pytest.mark.parametrize("name", first_of(*EXAMPLES))
@pytest.mark.parametrize("num_partitions", first_of(3, 1))
def test_spark_gives_the_same(name: str, num_partitions: int, spark: Any, tmp_path: Path) -> None:
    example = EXAMPLES[name]
    rows, config = spread(example.rows(), num_partitions), without_cache(example)
    counts = partitions(num_partitions)

    expected = run(example.build(), config, rows, counts, tmp_path / "expected")
    _, found = run_on_spark(example.build(), config, rows, counts, tmp_path)

    assert in_order(without_unread_ends(found)) == in_order(without_unread_ends(expected))


@each_example
def test_three_partitions_end_with_the_stores_of_one(example: Example, tmp_path: Path) -> None:
    rows, config = example.rows(), without_cache(example)

    counts = partitions(3)
    results = run(example.build(), config, spread(rows, 3), counts, tmp_path / "backfill")
    live = live_run(example.build(), config, rows, tmp_path / "live")

    found = outcome_of(results).states
    for store in example.forgetting:
        assert set(found.pop(store)) >= set(live.states.pop(store))
    for store in example.telling_partitions:
        assert len(found.pop(store)) == len(live.states.pop(store))
    assert {store: sorted(records) for store, records in found.items()} == {
        store: sorted(records) for store, records in live.states.items()
    }


def test_every_example_is_covered(monkeypatch: pytest.MonkeyPatch) -> None:
    """One added later fails here until `EXAMPLES` has it."""
    monkeypatch.setattr(sys, "path", sys.path.copy())
    assert uncovered(DIRECTORY.glob("*.py")) == []


def test_example_that_is_not_covered_is_noticed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(sys, "path", sys.path.copy())
    (tmp_path / "another.py").write_text(
        "from pystreams import StreamsBuilder\n"
        "builder = StreamsBuilder()\n"
        "builder.stream('somewhere').to('elsewhere')\n"
    )
    assert uncovered([tmp_path / "another.py", *DIRECTORY.glob("*.py")]) == ["another.py"]


def uncovered(files: Iterable[Path]) -> list[str]:
    """Return the names of files with a topology that is not among the examples here."""
    covered = {str(example.build().describe()) for example in EXAMPLES.values()}
    looked_at = [file for file in files if file.name not in ASKS_A_SERVICE]
    return [file.name for file in looked_at if described(file) not in {None, *covered}]


def described(file: Path) -> str | None:
    """Return the description of a file's topology, None when it has none."""
    try:
        return str(load_topology(str(file)).topology.describe())
    except LoadingError as error:
        if "has no topology" in str(error):
            return None
        raise
