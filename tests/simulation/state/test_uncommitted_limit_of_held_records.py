"""`statestore.uncommitted.max.bytes`, where operators hold records back that write later."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pystreams import KStream, Stores, StreamsBuilder, Topology, serdes
from tests.simulation.state.test_uncommitted_limit import (
    LIMIT_BYTES,
    Gauge,
    Keeper,
    expanding,
    run,
    value_of_size,
)

pytestmark = pytest.mark.simulation

TEXT: Any = {"key_serde": serdes.STRING, "value_serde": serdes.STRING}
Hold = Callable[[KStream[str, str]], KStream[str, str]]


async def answered(size: str) -> str:
    return value_of_size(size)


def in_batches(stream: KStream[str, str]) -> KStream[str, str]:
    return stream.map_values_batch(lambda sizes: [value_of_size(size) for size in sizes])


def by_calls(stream: KStream[str, str]) -> KStream[str, str]:
    return stream.map_values_async(answered, max_in_flight=500)


def out_of_order(stream: KStream[str, str]) -> KStream[str, str]:
    return stream.map_values_async(answered, ordered=False, max_in_flight=1000)


def calls_behind_batches(stream: KStream[str, str]) -> KStream[str, str]:
    return stream.map_values_batch(list).map_values_async(answered, max_in_flight=1000)


def many_of_one(stream: KStream[str, str]) -> KStream[str, str]:
    tenths = stream.flat_map_values(lambda size: [f"{int(size) // 10}"] * 10)
    return tenths.map_values_async(answered, max_in_flight=1000)


def holding(gauge: Gauge, hold: Hold, *, cached: bool = False) -> Topology:
    """Results go into a store; those that were held may come out of a record cache."""
    builder = StreamsBuilder()
    supplier = Stores.persistent_key_value_store("store")
    builder.add_state_store(Stores.key_value_store_builder(supplier, serdes.STRING, serdes.STRING))
    stream = builder.stream("in", **TEXT)
    if cached:
        table = stream.group_by_key().reduce(lambda _, new: new, name="first", caching=True)
        stream = table.to_stream()
    hold(stream).process(lambda: Keeper(gauge, ["store"]), stores=["store"])
    return builder.build()


@pytest.mark.parametrize(
    "hold", [in_batches, by_calls, out_of_order, calls_behind_batches, many_of_one]
)
def test_what_held_records_write_does_not_exceed_it(hold: Hold, tmp_path: Path) -> None:
    gauge = Gauge()
    records, written = expanding(1000, 1000)

    process = run(holding(gauge, hold), gauge, tmp_path, records)

    [thread] = process.threads
    process.stop()
    assert gauge.highest <= LIMIT_BYTES
    assert thread._committer.commits <= 4 * written / LIMIT_BYTES + 2


def test_batches_of_very_different_sizes_exceed_it_by_no_more_than_a_few_of_the_largest(
    tmp_path: Path,
) -> None:
    gauge = Gauge()
    largest = LIMIT_BYTES // 6
    records, _ = expanding(largest, largest)

    process = run(holding(gauge, in_batches), gauge, tmp_path, records)

    process.stop()
    assert gauge.highest <= LIMIT_BYTES + 3 * largest


@pytest.mark.parametrize("hold", [in_batches, by_calls])
def test_what_was_held_after_it_left_a_cache_does_not_exceed_it(hold: Hold, tmp_path: Path) -> None:
    gauge = Gauge()
    records, _ = expanding(1, 1000)

    topology = holding(gauge, hold, cached=True)
    process = run(topology, gauge, tmp_path, records, cache_bytes=10_000)

    process.stop()
    assert gauge.highest <= LIMIT_BYTES
