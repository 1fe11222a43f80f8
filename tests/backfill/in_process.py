"""A backfill without Spark: the same stages, tasks and order, over lists in one process."""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import Any

import pyarrow as pa

from pystreams import Headers, StreamsConfig, TaskId, TopicPartition, Topology
from pystreams.backfill import PartitionReader
from pystreams.backfill.plan.backfill_plan import BackfillPlan
from pystreams.backfill.plan.partition_bounds import PartitionBounds
from pystreams.backfill.plan.rows import HistoryMessage, Result, ResultBatch, ResultKind
from pystreams.backfill.plan.stages import stages_of
from pystreams.backfill.plan.turns import has_turn, in_order_of_stages, turn_in
from pystreams.backfill.tasks.global_history import FilledGlobalStores, GlobalHistory
from pystreams.backfill.tasks.history_task import HistoryTask, HistoryTaskSettings
from pystreams.backfill.tasks.record_counts import TakenRecords
from pystreams.backfill.tasks.task_input import fed_by_reader, fed_with_rows
from pystreams.kernel.partitioner import partition_of
from pystreams.runtime.core.global_stores import GlobalStores
from pystreams.runtime.settings import task_settings
from pystreams.testing.simulation import ManualClock
from pystreams.testing.simulation.calls import InlineCalls
from pystreams.topology.plan.partition_plan import plan_partitions
from pystreams.topology.plan.topology_plan import TopologyPlan

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
SCHEMA = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.int64()),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("headers", HEADERS),
    ]
)


@dataclass(frozen=True)
class Row:
    """One record of the history."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()

    def message(self) -> HistoryMessage:
        headers = list(self.headers) or None
        place = self.topic, self.partition, self.offset, self.timestamp
        return HistoryMessage((*place, self.key, self.value, headers))


@dataclass(frozen=True)
class GlobalRows:
    """Reads the rows of global tables, a few at a time; implements `PartitionReader`."""

    rows: Sequence[Row]

    @staticmethod
    def of(plan: TopologyPlan, history: Sequence[Row]) -> GlobalHistory:
        rows = [row for row in history if row.topic in plan.global_topics()]
        partitions = {TopicPartition(row.topic, row.partition) for row in rows}
        bounds = dict.fromkeys(partitions, PartitionBounds(0, len(rows), len(rows)))
        return GlobalHistory("the only one", GlobalRows(rows), bounds)

    def read(
        self, partition: TopicPartition, bounds: PartitionBounds
    ) -> Generator[Sequence[HistoryMessage]]:
        own = [row for row in self.rows if (row.topic, row.partition) == partition]
        own.sort(key=lambda row: row.offset)
        for start in range(0, len(own), 50):
            yield [row.message() for row in own[start : start + 50]]


def run(
    topology: Topology,
    config: Mapping[str, object],
    history: Sequence[Row],
    num_partitions: Mapping[str, int],
    directory: Path,
    reader: PartitionReader | None = None,
    run_records: int = 1000,
    rows_at_a_time: int = 50,
) -> list[Result]:
    """Return all results, stage by stage and task by task.

    With a reader, stages that read nothing but history take it from there.
    """
    settings = StreamsConfig.of({"bootstrap.servers": "none:9092", **config})
    plan = TopologyPlan(topology, settings.application_id)
    partitions = plan_partitions(plan, num_partitions)
    counts = {**num_partitions, **partitions.num_partitions}
    directory.mkdir(exist_ok=True)

    def choose(topic: str, keys: Sequence[bytes | None], task: int) -> list[int]:
        count = counts.get(topic, 1)
        return [task % count if key is None else partition_of(key, count) for key in keys]

    tasks = task_settings(
        settings, async_calls=InlineCalls, num_partitions=lambda topic: counts[topic]
    )
    stores = FilledGlobalStores(
        BackfillPlan.of(plan, settings, num_partitions),
        tasks,
        GlobalRows.of(plan, history),
        now_ms=0,
        root=lambda: directory.parent,
    )
    shared = HistoryTaskSettings(
        replace(tasks, global_stores=GlobalStores(stores.find)),
        choose,
        settings.statestore_uncommitted_max_bytes,
        settings.statestore_cache_max_bytes,
        now_ms=0,
        run_records=run_records,
    )
    known = set(history)
    stages = stages_of(plan, counts)
    in_turn = in_order_of_stages(plan, stages)
    results: list[Result] = []
    sequences: list[list[Result]] = []
    for position, stage in enumerate(stages):
        topics = stage.topics
        rows = [*history, *written(sequences, history, in_turn)]
        for number in range(partitions.num_tasks[stage.subtopology.id]):
            task_id = TaskId(stage.subtopology.id, number)
            home = directory / f"{position}-{task_id}"
            home.mkdir(parents=True)
            mine = [row for row in rows if row.topic in topics and row.partition == number]
            own = [
                TopicPartition(topic, number) for topic in topics if number < counts.get(topic, 1)
            ]
            task = HistoryTask(task_id, plan, stage, own, home, shared, {})
            batches: list[ResultBatch] = []
            if reader is not None and known.issuperset(mine):
                bounds = {
                    partition: PartitionBounds(0, len(of_topic), len(of_topic))
                    for partition in own
                    if (of_topic := [row for row in mine if row.topic == partition.topic])
                }
                batches += fed_by_reader(task, reader, bounds, TakenRecords(home, ManualClock()))
                mine = []
            given = in_order(mine, in_turn)
            batches += fed_with_rows(
                task,
                number,
                [
                    batch_of(given[at : at + rows_at_a_time])
                    for at in range(0, len(given), rows_at_a_time)
                ],
                gaps_allowed=True,
            )
            batches += task.finish()
            found = [row for batch in batches for row in rows_of(batch)]
            results += found
            sequences.append([result for result in found if result.kind is ResultKind.OUTPUT])
    stores.close()
    return results


def rows_of(batch: ResultBatch) -> list[Result]:
    """Return the rows of a batch, one by one."""
    numbered = enumerate(zip(batch.partitions, batch.records, strict=True), batch.sequence)
    return [
        Result(batch.kind, batch.task, batch.name, partition, sequence, timestamp, key, value, own)
        for sequence, (partition, (key, value, timestamp, own)) in numbered
    ]


def batch_of(rows: Sequence[Row | tuple[Any, ...]]) -> pa.RecordBatch:
    """Return rows as Spark gives them."""
    columns: Any = zip(*map(values_of, rows), strict=True)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, SCHEMA, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)


def values_of(row: Row | tuple[Any, ...]) -> tuple[Any, ...]:
    if isinstance(row, tuple):
        return row
    headers = [{"key": key, "value": value} for key, value in row.headers] or None
    return row.topic, row.partition, row.offset, row.timestamp, row.key, row.value, headers


def waiting_times(timestamps: Iterable[int]) -> Iterator[int]:
    """Return for each record of one partition the highest timestamp up to it (ms)."""
    highest = -1
    for timestamp in timestamps:
        highest = max(highest, timestamp)
        yield highest


def time_of(row: Row | Result, in_turn: Collection[str]) -> int:
    """Return a record's timestamp, or its turn."""
    topic = row.topic if isinstance(row, Row) else row.name
    return turn_in(row.headers) if topic in in_turn and has_turn(row.headers) else row.timestamp


def in_order(rows: Sequence[Row], in_turn: Sequence[str] = ()) -> list[Row]:
    """Sort the rows of one task as `PartitionGroup` would take them; those in turn as they come."""
    keyed: list[tuple[tuple[int, int, str, int], Row]] = []
    ranks = {topic: rank for rank, topic in enumerate(in_turn, 1)}
    by_topic = sorted(rows, key=lambda row: (row.topic, row.offset))
    for topic, group in groupby(by_topic, key=lambda row: row.topic):
        own = list(group)
        for row, waits in zip(
            own, waiting_times(time_of(row, in_turn) for row in own), strict=True
        ):
            keyed.append(((waits, ranks.get(topic, 0), topic, row.offset), row))
    return [row for _, row in sorted(keyed, key=lambda pair: pair[0])]


def written(
    sequences: Sequence[Sequence[Result]],
    history: Sequence[Row],
    in_turn: Collection[str] = (),
) -> list[Row]:
    """Return output records as history for the stages that read them.

    What a task wrote into a partition is a sequence; sequences are merged by their heads.
    """
    keyed: dict[tuple[str, int], list[tuple[int, int, Result]]] = {}
    for place, sequence in enumerate(sequences):
        found: dict[tuple[str, int], list[Result]] = {}
        for result in sequence:
            found.setdefault((result.name, result.partition), []).append(result)
        for partition, own in found.items():
            times = waiting_times(time_of(result, in_turn) for result in own)
            keyed.setdefault(partition, []).extend(
                (waits, place, result) for waits, result in zip(times, own, strict=True)
            )
    rows = []
    for (topic, number), merged in keyed.items():
        before = [row.offset for row in history if (row.topic, row.partition) == (topic, number)]
        first = max(before, default=-1) + 1
        # What is equal is of one sequence, and stays in its order.
        for place, (_, _, row) in enumerate(sorted(merged, key=lambda key: key[:2])):
            offset = first + place
            rows.append(Row(topic, number, offset, row.timestamp, row.key, row.value, row.headers))
    return rows
