"""Topologies with histories that are backfilled on Spark: between them, all operators."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from pystreams import (
    BufferConfig,
    ConsumerRecord,
    JoinWindows,
    Materialized,
    Processor,
    ProcessorContext,
    PunctuationType,
    Record,
    Retry,
    StoreEngine,
    Stores,
    StreamsBuilder,
    Suppressed,
    TimeWindows,
    Topology,
    aggregations,
    serdes,
)
from pystreams.kernel.partitioner import partition_of
from tests.backfill.global_topologies import global_tables
from tests.backfill.in_process import Row
from tests.backfill.own_topics.own_topologies import own_records
from tests.backfill.session_topologies import cogroups, final_sessions, sessions
from tests.backfill.table_topologies import foreign_key_joins, table_joins
from tests.backfill.test_history_task import history_of
from tests.backfill.window_topologies import sliding_windows, time_windows
from tests.every_store import BUILDERS, IN_MEMORY, WriteInMemory, cached, everywhere
from tests.parity.golden import Observations
from tests.parity.topologies import TOPOLOGIES

TEXT: Any = {"key_serde": serdes.STRING, "value_serde": serdes.STRING}
COUNT: Any = {"key_serde": serdes.STRING, "value_serde": serdes.LONG}
CONFIG = {
    "application.id": "app",
    "default.key.serde": "string",
    "default.value.serde": "string",
    "statestore.cache.max.bytes": 0,
}


@dataclass(frozen=True)
class Case:
    """One backfill.

    Attributes:
        build: Makes the topology.
        rows: Its history.
        num_partitions: Partition counts.
        config: More configuration.
        in_event_time: The history with the timestamps that the topology's extractors give, where
            it has any: the order of tasks without Spark is by the rows' own.
    """

    build: Callable[[], Topology]
    rows: list[Row]
    num_partitions: Mapping[str, int]
    config: Mapping[str, object] = field(default_factory=dict)
    in_event_time: list[Row] | None = None


def spread(rows: list[Row], count: int) -> list[Row]:
    """Spread rows over partitions by key, as a producer would."""
    spread_rows, offsets = [], dict[tuple[str, int], int]()
    for row in rows:
        number = 0 if row.key is None else partition_of(row.key, count)
        offset = offsets.get((row.topic, number), 0)
        offsets[row.topic, number] = offset + 1
        spread_rows.append(
            Row(row.topic, number, offset, row.timestamp, row.key, row.value, row.headers)
        )
    return spread_rows


def made_up(topic: str, seed: int, count: int, *, keys: int = 40, num_partitions: int = 3) -> Any:
    """Records with timestamps that go back and forth, a few keys much more often than others."""
    chance = random.Random(seed)
    rows = []
    for number in range(count):
        key = f"k{min(int(chance.expovariate(6 / keys)), keys - 1)}".encode()
        timestamp = max(0, 1000 * number + chance.randint(-20_000, 5_000))
        headers = (("n", str(number).encode()),) if number % 5 == 0 else ()
        value = None if chance.random() < 0.05 else f"v{chance.randint(0, 9)}".encode()
        rows.append(Row(topic, 0, 0, timestamp, key, value, headers))
    return spread(rows, num_partitions)


def parity_case(name: str, num_partitions: int) -> Case:
    rows = spread(history_of(name), num_partitions)
    topics = {row.topic for row in rows}
    counts = dict.fromkeys(topics, num_partitions)
    return Case(lambda: TOPOLOGIES[name](Observations()), rows, counts)


def temporal_join() -> Topology:
    """A stream and a versioned table, whose records arrive out of order, with grace."""
    builder = StreamsBuilder()
    stream = builder.stream("left", **TEXT)
    table = builder.table(
        "right", materialized=Materialized(name="history", history_retention_ms=100_000), **TEXT
    )
    joined = stream.join(table, lambda value, row: f"{value}{row}", grace_period_ms=5_000)
    joined.to("joined", **TEXT)
    return builder.build()


def stream_joins() -> Topology:
    """An inner join and an outer one, whose records arrive out of order, some later than kept."""
    builder = StreamsBuilder()
    left, right = builder.stream("left", **TEXT), builder.stream("right", **TEXT)
    windows = JoinWindows.of_time_difference_and_grace(7_000, 3_000)
    left.join(right, lambda value, other: f"{value}{other}", windows).to("joined", **TEXT)
    left.outer_join(
        right, lambda value, other: f"{value}{other}", windows.before(1_000), name="all"
    ).to("all", **TEXT)
    return builder.build()


class KeepingRows(Processor[str, str, str, str]):
    def init(self, context: ProcessorContext[str, str]) -> None:
        self._rows: Any = context.get_state_store("kept")

    def process(self, record: Record[str, str]) -> None:
        self._rows.put(record.key, record.value)


def optimized() -> Topology:
    """A self-join in one store, a table and a read-only store without changelogs."""
    builder = StreamsBuilder()
    left, table = builder.stream("left", **TEXT), builder.table("right", **TEXT)
    windows = JoinWindows.of_time_difference_and_grace(7_000, 3_000)
    left.join(left, lambda value, other: f"{value}{other}", windows).to("joined", **TEXT)
    left.join(table, lambda value, row: f"{value}{row}").to("looked-up", **TEXT)
    topology = builder.build({"topology.optimization": "all"})
    kept = Stores.key_value_store_builder(
        Stores.persistent_key_value_store("kept"), serdes.STRING, serdes.STRING
    )
    return topology.add_read_only_state_store(
        kept, "read-rows", "rows", "keep-rows", KeepingRows, **TEXT
    )


def suppressions() -> Topology:
    """Tables whose changes wait: by time, by room, in memory, and until windows close."""
    builder = StreamsBuilder()
    table = builder.table("left", **TEXT)
    limits = Suppressed.until_time_limit
    timed = table.suppress(limits(9_000, BufferConfig.unbounded()).with_name("timed"))
    timed.to_stream().to("timed", **TEXT)
    few = BufferConfig.max_records(5, store_type=StoreEngine.IN_MEMORY)
    full = timed.suppress(limits(10**9, few).with_name("full"))
    full.to_stream().to("full", **TEXT)
    stream = builder.stream("right", **TEXT).filter(lambda _, value: value is not None)
    windowed = stream.group_by_key().windowed_by(TimeWindows.of_size_and_grace(10_000, 5_000))
    closed = windowed.count().suppress(Suppressed.until_window_closes(BufferConfig.unbounded()))
    closed.to_stream(lambda windowed, _: str(windowed)).to("closed", **COUNT)
    return builder.build()


def expiring_tables() -> Topology:
    """Tables and an aggregation whose rows expire, one behind the other; sums over them."""
    builder = StreamsBuilder()
    kept: Any = {"ttl_ms": 20_000, **TEXT}
    table = builder.table("left", materialized=Materialized(name="kept", **kept), **TEXT)
    lengths = table.group_by(lambda _, value: ("all", len(value)), **COUNT)
    lengths.reduce(lambda a, b: a + b, lambda a, b: a - b).to_stream().to("sums", **COUNT)
    doubled = table.map_values(
        lambda value: 2 * value, name="doubled", **(kept | {"ttl_ms": 9_000})
    )
    counts = builder.stream("right", **TEXT).group_by_key().count(name="counted", ttl_ms=5_000)
    doubled.outer_join(counts, lambda a, b: f"{a}{b}").to_stream().to("joined", **TEXT)
    return builder.build()


def two_repartitions(wide_partitions: int = 5, narrow_partitions: int = 2) -> Topology:
    """Three partitions become five, and five become two, with a count after each."""
    builder = StreamsBuilder()
    stream = builder.stream("left", **TEXT).filter(lambda _, value: value is not None)
    wide = stream.select_key(lambda _, value: value).repartition(
        name="wide", num_partitions=wide_partitions, **TEXT
    )
    counts = wide.group_by_key().count(name="by-value").to_stream()
    by_count = counts.map(lambda key, value: (str(value % 3), key)).repartition(
        name="narrow", num_partitions=narrow_partitions, **TEXT
    )
    by_count.group_by_key().count(name="by-count").to_stream().to("counts", **COUNT)
    counts.to("values", **COUNT)
    return builder.build()


def event_time(record: ConsumerRecord, partition_time: int) -> int:
    """A time from the value: the records' own timestamps say nothing of the order."""
    if record.value is None:
        return partition_time
    return int(record.value[1:]) * 1000 + record.offset % 7


def with_event_times(rows: list[Row]) -> list[Row]:
    """The rows with the timestamps that `event_time` gives them."""
    found, highest = [], dict[tuple[str, int], int]()
    for row in rows:
        key = (row.topic, row.partition)
        asked = ConsumerRecord(
            row.topic,
            row.partition,
            row.offset,
            row.key,
            row.value and row.value.decode(),
            row.timestamp,
            (),
            0,
        )
        timestamp = event_time(asked, highest.get(key, -1))
        highest[key] = max(highest.get(key, -1), timestamp)
        found.append(replace(row, timestamp=timestamp))
    return found


def own_timestamps() -> Topology:
    """Two topics that meet in a table lookup, in the order of an extractor of the user's own."""
    builder = StreamsBuilder()
    stream = builder.stream("left", timestamp_extractor=event_time, **TEXT)
    table = builder.table("right", timestamp_extractor=event_time, **TEXT)
    stream.left_join(table, lambda value, row: f"{value}/{row}").to("joined", **TEXT)
    return builder.build()


class Ticking(Processor[str, str, str, str]):
    """Tells how many records came since the last tick, and that it lives, from the first on.

    Its store has the time of the last tick that told a number.
    """

    def init(self, context: ProcessorContext[str, str]) -> None:
        self.context = context
        self.times: Any = context.get_state_store("times")
        self.count = 0
        context.schedule(10_000, PunctuationType.STREAM_TIME, self.tick)
        context.schedule(1, PunctuationType.WALL_CLOCK_TIME, self.never)

    def process(self, record: Record[str, str]) -> None:
        self.count += 1

    def tick(self, time_ms: int) -> None:
        self.context.forward(Record("tick", str(self.count), time_ms))
        self.times.put(str(self.count), time_ms)
        self.count = 0

    def never(self, time_ms: int) -> None:
        raise AssertionError("wall-clock punctuations do not fire in a backfill")


def ticks_to_chosen_topics() -> Topology:
    """A topic extractor and a partitioner, behind punctuations on stream time with a store."""
    topology = Topology()
    topology.add_source("source", "left", **TEXT)
    topology.add_processor("tick", Ticking, "source")
    times = Stores.key_value_store_builder(
        Stores.persistent_key_value_store("times"), serdes.STRING, serdes.LONG
    )
    topology.add_state_store(times).connect_processor_and_state_stores("tick", "times")
    topology.add_sink(
        "sink",
        lambda *found: "busy" if int(found[1]) > 9 else "quiet",
        "tick",
        partitioner=lambda *found: int(found[2]) % found[3],
        **TEXT,
    )
    return topology


def number_of(value: str) -> int:
    return int(value[1:])


def ready_aggregations() -> Topology:
    """Ready aggregations of a stream and of a table; records that repeat others are dropped."""
    builder = StreamsBuilder()
    stream = builder.stream("left", **TEXT)
    every = aggregations.several(
        count=aggregations.count(),
        sum=aggregations.sum(number_of),
        mean=aggregations.mean(lambda value: number_of(value) / 7),
        stddev=aggregations.stddev(number_of),
        least=aggregations.min(),
        most=aggregations.max(number_of),
        first=aggregations.first(),
        last=aggregations.last(serde=serdes.STRING),
        top=aggregations.top_n(3, number_of, by=lambda number: number % 5),
        all=aggregations.collect(5),
        distinct=aggregations.distinct_count(),
        about=aggregations.approx_distinct_count(),
        ranks=aggregations.percentiles((0.1, 0.9), number_of),
    )
    kept = stream.group_by_key().aggregate(every, name="every")
    kept.to_stream().to("every", key_serde=serdes.STRING, value_serde=serdes.JSON)
    means = stream.group_by_key().aggregate(aggregations.mean(number_of), name="means")
    by_whole = means.group_by(
        lambda _, mean: (str(round(mean)), mean), value_serde=serdes.DOUBLE, name="by-whole"
    )
    totals = by_whole.aggregate(aggregations.sum(), name="totals", value_serde=serdes.DOUBLE)
    totals.to_stream().to("totals", key_serde=serdes.STRING)
    stream.distinct(
        within_ms=9_000, grace_period_ms=5_000, by=lambda _, value: value, name="once"
    ).to("once", **TEXT)
    return builder.build()


async def asked(value: str | None) -> str:
    await asyncio.sleep(0)
    return f"{value}?"


def held_values() -> Topology:
    """Batches and calls, one behind the other, in the order of the records: else runs differ."""
    builder = StreamsBuilder()
    scored = builder.stream("left", **TEXT).map_values_batch(
        lambda keys, values: [f"{key}={value}" for key, value in zip(keys, values, strict=True)],
        with_key=True,
        max_batch=7,
    )
    answered = scored.map_values_async(asked, max_in_flight=5)
    answered.map_values(str.strip, retry=Retry(on=OSError)).to("answers", **TEXT)
    again = answered.map_values_async(asked, max_in_flight=3).map_values_batch(lambda found: found)
    joined = again.group_by_key(**TEXT).reduce(lambda a, b: (a + b)[-200:], name="joined")
    joined.to_stream().to("joined", **TEXT)
    return builder.build()


def through_a_topic_with_a_history() -> Topology:
    """A topic that others have written to as well: what is written stands behind its history."""
    builder = StreamsBuilder()
    builder.stream("left", **TEXT).map_values(lambda value: value or "none").to("right", **TEXT)
    middle = builder.stream("right", **TEXT)
    other = builder.table("rows", **TEXT)
    middle.left_join(other, lambda value, row: f"{value}{row}").to("joined", **TEXT)
    return builder.build()


def at_own_times(rows: list[Row]) -> list[Row]:
    """The rows in the order of their times, each at a time of its own."""
    in_time = sorted(rows, key=lambda row: (row.timestamp, row.topic, row.partition, row.offset))
    offsets = dict[tuple[str, int], int]()
    found = []
    for number, row in enumerate(in_time):
        offset = offsets.get((row.topic, row.partition), 0)
        offsets[row.topic, row.partition] = offset + 1
        found.append(replace(row, offset=offset, timestamp=row.timestamp + number))
    return found


LEFT, RIGHT = made_up("left", 1, 600), made_up("right", 2, 500)
BOTH = {"left": 3, "right": 3}
CASES: dict[str, Case] = {
    **{name: parity_case(name, 1) for name in TOPOLOGIES},
    "every_store": Case(partial(everywhere, "left", "counts"), LEFT, {"left": 3}),
    "temporal_join": Case(temporal_join, LEFT + RIGHT, BOTH),
    "stream_joins": Case(stream_joins, LEFT + RIGHT, BOTH),
    "sessions": Case(sessions, LEFT, {"left": 3, "counts": 3, "joined": 2}),
    "final_sessions": Case(
        final_sessions, LEFT, {"left": 3, "counts": 2}, {"window.emit.interval.ms": 0}
    ),
    "cogroups": Case(cogroups, LEFT + RIGHT, {**BOTH, "in-sessions": 3, "in-windows": 2}),
    "suppressions": Case(suppressions, LEFT + RIGHT, BOTH),
    "optimized": Case(optimized, LEFT + RIGHT + made_up("rows", 3, 200), {**BOTH, "rows": 3}),
    "table_joins": Case(table_joins, LEFT + RIGHT, BOTH),
    "expiring_tables": Case(expiring_tables, LEFT + RIGHT, {**BOTH, "sums": 2, "joined": 2}),
    "foreign_key_joins": Case(foreign_key_joins, at_own_times(LEFT + RIGHT), BOTH),
    "foreign_keys_of_late_rows": Case(foreign_key_joins, LEFT + RIGHT, BOTH),
    "sliding_windows": Case(sliding_windows, LEFT, {"left": 3, "counts": 2, "joined": 2}),
    "two_repartitions": Case(two_repartitions, LEFT, {"left": 3}),
    "time_windows": Case(time_windows, LEFT, {"left": 3, "counts": 3, "final": 2}),
    "own_timestamps": Case(
        own_timestamps, LEFT + RIGHT, BOTH, in_event_time=with_event_times(LEFT + RIGHT)
    ),
    "ready_aggregations": Case(ready_aggregations, LEFT, {"left": 3}),
    "own_records": Case(
        own_records, at_own_times(LEFT), {"left": 3, "alerts": 3, "numbered": 2, "alerted": 2}
    ),
    "held_values": Case(held_values, LEFT, {"left": 3, "answers": 3, "joined": 2}),
    "ticks": Case(ticks_to_chosen_topics, LEFT, {"left": 3, "busy": 2, "quiet": 2}),
    "global_tables": Case(
        global_tables,
        LEFT + RIGHT + made_up("rows", 3, 200, num_partitions=2) + made_up("more", 6, 200),
        {**BOTH, "rows": 2, "more": 3, "joined": 2},
    ),
    "topic_with_a_history": Case(
        through_a_topic_with_a_history,
        LEFT + RIGHT + made_up("rows", 3, 200),
        {**BOTH, "rows": 3},
    ),
    "state_larger_than_the_buffers": Case(
        partial(everywhere, "left", "counts"),
        made_up("left", 4, 1500, keys=900, num_partitions=1),
        {"left": 1},
        {"statestore.uncommitted.max.bytes": 20_000},
    ),
}
ON_SPARK_IN_CI = frozenset(
    {
        "cogroups",
        "foreign_key_joins",
        "global_tables",
        "held_values",
        "named_nodes",
        "optimized",
        "own_records",
        "own_timestamps",
        "ready_aggregations",
        "sliding_windows",
        "state_larger_than_the_buffers",
        "stream_joins",
        "suppressions",
        "table_group_by",
        "table_joins",
        "temporal_join",
        "ticks",
        "topic_with_a_history",
        "two_repartitions",
    }
)
"""Those that each run of the tests has on Spark: all operators, nodes and kinds of stores are in
them, and all that stages can be. The others go the same way, and run there with `-m sweep`; here
they are sent to a worker that is this process (`test_reading_in_workers`)."""
SPREAD_CASES: dict[str, Case] = {name: parity_case(name, 3) for name in TOPOLOGIES}
"""The parity topologies again, with their history in three partitions."""


NOT_COMPARED = {
    "foreign_keys_of_late_rows": "a live run answers between records that a backfill takes at one "
    "time; `test_foreign_key_joins` compares what comes of it",
    "topic_with_a_history": "what a backfill writes stands behind the topic's history; a live run "
    "writes between the records of others, as they come",
}
COMPARED = {name: case for name, case in CASES.items() if name not in NOT_COMPARED}
"""What gives the same as a live run: `test_history_task`, `test_live_gives_the_same`."""

CACHE: Mapping[str, object] = {"statestore.cache.max.bytes": 10 << 20}
_IN_MEMORY: Any = {"builders": IN_MEMORY, "write": WriteInMemory}
_CACHED_IN_MEMORY: Any = {"builders": cached(IN_MEMORY), "write": WriteInMemory}


def _writing_everywhere(config: Mapping[str, object] | None = None, **options: Any) -> Case:
    return Case(partial(everywhere, "left", "counts", **options), LEFT, {"left": 3}, config or {})


STORE_CASES: dict[str, Case] = {
    "in_memory": _writing_everywhere(**_IN_MEMORY),
    "in_memory_writing_through": _writing_everywhere(**_IN_MEMORY, transactional=False),
    "writing_through": _writing_everywhere(transactional=False),
    "cached": _writing_everywhere(CACHE, builders=cached(BUILDERS)),
    "cached_in_memory": _writing_everywhere(CACHE, **_CACHED_IN_MEMORY),
    "cached_writing_through": _writing_everywhere(
        CACHE, builders=cached(BUILDERS), transactional=False
    ),
}
"""Every kind of store again: in memory, of limited size, behind a record cache, not transactional.
"""
