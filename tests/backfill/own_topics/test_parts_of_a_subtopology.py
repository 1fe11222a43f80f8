"""A sub-topology that needs a topic it feeds itself runs in parts, without what others are of.

Here it is always a stream that is joined by another key with a table of the same sub-topology.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from pystreams import (
    KStream,
    KTable,
    Processor,
    ProcessorContext,
    Record,
    Stores,
    StreamsBuilder,
    TimeWindows,
    Topology,
    aggregations,
    serdes,
)
from pystreams.errors import StreamsError
from tests.backfill.in_process import Row, run
from tests.backfill.live import live_run, outcome_of
from tests.backfill.sources.covered import CONFIG
from tests.backfill.table_topologies import TEXT

NO_CACHE = {**CONFIG, "statestore.cache.max.bytes": 0}
ORDERS = [("a", "x"), ("b", "big a"), ("c", "y"), ("a", "big b"), ("b", "small")]
TOPICS = ("orders", "joined", "small", "rekeyed", "late")


def rows_at(*timestamps: int) -> list[Row]:
    return [
        Row("orders", 0, offset, timestamp, key.encode(), value.encode())
        for offset, ((key, value), timestamp) in enumerate(zip(ORDERS, timestamps, strict=True))
    ]


def joined(stream: KStream[str, str], table: KTable[str, str]) -> None:
    stream.join(table, lambda value, last: f"{value}/{last}", **TEXT).to("joined", **TEXT)


def split() -> Topology:
    builder = StreamsBuilder()
    orders = builder.stream("orders", **TEXT)
    latest = orders.group_by_key(**TEXT).reduce(lambda _, new: new, name="latest")
    branches = (
        orders.split(name="by-")
        .branch(lambda _, value: value.startswith("big"), name="big")
        .default_branch(name="small")
    )
    joined(branches["by-big"].select_key(lambda _, value: value[-1]), latest)
    branches["by-small"].to("small", **TEXT)
    return builder.build()


def late_records() -> Topology:
    builder = StreamsBuilder()
    orders = builder.stream("orders", **TEXT)
    latest = orders.group_by_key(**TEXT).reduce(lambda _, new: new, name="latest")
    windows = TimeWindows.of_size_and_grace(10, 0)
    last = orders.group_by_key(**TEXT).windowed_by(windows, late="late")
    results = last.reduce(lambda _, new: new, name="last").to_stream(lambda window, _: window.key)
    joined(results.repartition(**TEXT), latest)
    return builder.build()


def late_records_with_results() -> Topology:
    """An aggregation that keeps states has an operator of its own around the one of the windows."""
    builder = StreamsBuilder()
    orders = builder.stream("orders", **TEXT)
    latest = orders.group_by_key(**TEXT).reduce(lambda _, new: new, name="latest")
    windows = TimeWindows.of_size_and_grace(10, 0)
    last = orders.group_by_key(**TEXT).windowed_by(windows, late="late")
    lasts = last.aggregate(aggregations.last(serde=serdes.STRING), name="last")
    results = lasts.to_stream(lambda window, _: window.key)
    joined(results.repartition(**TEXT), latest)
    return builder.build()


class Router(Processor[str, str, str, str]):
    def init(self, context: ProcessorContext[str, str]) -> None:
        self._context = context

    def process(self, record: Record[str, str]) -> None:
        self._context.forward(record, "rekey" if record.value.startswith("big") else "small")


class Stranger(Router):
    def process(self, record: Record[str, str]) -> None:
        self._context.forward(record, "keep")


class Rekey(Router):
    def process(self, record: Record[str, str]) -> None:
        self._context.forward(record.with_key(record.value[-1]))


class Keep(Router):
    def init(self, context: ProcessorContext[str, str]) -> None:
        self._latest = context.get_state_store("latest")

    def process(self, record: Record[str, str]) -> None:
        self._latest.put(record.key, record.value)


class Join(Router):
    def init(self, context: ProcessorContext[str, str]) -> None:
        super().init(context)
        self._latest = context.get_state_store("latest")

    def process(self, record: Record[str, str]) -> None:
        last = self._latest.get(record.key)
        self._context.forward(record.with_value(f"{record.value}/{last}"))


def routed(router: type[Router] = Router) -> Topology:
    topology = Topology()
    latest = Stores.persistent_key_value_store("latest")
    topology.add_source("orders-in", "orders", **TEXT)
    topology.add_processor("keep", Keep, "orders-in")
    topology.add_processor("router", router, "orders-in")
    topology.add_processor("rekey", Rekey, "router")
    topology.add_sink("small", "small", "router", **TEXT)
    topology.add_sink("rekeyed-out", "rekeyed", "rekey", **TEXT)
    topology.add_source("rekeyed-in", "rekeyed", **TEXT)
    topology.add_processor("join", Join, "rekeyed-in")
    topology.add_sink("joined", "joined", "join", **TEXT)
    topology.add_state_store(
        Stores.key_value_store_builder(latest, serdes.STRING, serdes.STRING), "keep", "join"
    )
    return topology


@pytest.mark.parametrize("build", [split, late_records, late_records_with_results, routed])
def test_a_part_leaves_out_branches_that_its_topic_does_not_need(
    build: Callable[[], Topology], tmp_path: Path
) -> None:
    timestamps = (1000, 1030, 1040, 1001, 1060)
    rows = rows_at(*timestamps)

    results = run(build(), NO_CACHE, rows, dict.fromkeys(TOPICS, 1), tmp_path / "backfill")

    found, live = outcome_of(results), live_run(build(), NO_CACHE, rows, tmp_path / "live")
    assert {"joined", "late" if "late" in build.__name__ else "small"} <= live.outputs.keys()
    assert found.outputs.keys() == live.outputs.keys()
    assert found.outputs.get("small") == live.outputs.get("small")
    assert found.outputs.get("late") == live.outputs.get("late")


def test_a_part_refuses_a_child_that_a_node_does_not_have(tmp_path: Path) -> None:
    rows = rows_at(1000, 1001, 1002, 1003, 1004)

    with pytest.raises(StreamsError) as refused:
        run(routed(Stranger), NO_CACHE, rows, dict.fromkeys(TOPICS, 1), tmp_path)

    found: BaseException | None = refused.value
    told = []
    while found is not None:
        told.append(str(found))
        found = found.__cause__
    assert (
        "processor 'router' forwards to 'keep', which is none of its children ['rekey', 'small']"
    ) in " ".join(told)
