"""A history that workers read themselves, as they do Kafka's, gives what Spark's rows give."""

from __future__ import annotations

import random
from collections.abc import Generator, Mapping, Sequence
from dataclasses import astuple, dataclass, field
from pathlib import Path
from typing import Any

import pytest

from pystreams import StreamsError, TopicPartition, Topology
from pystreams.backfill import History
from pystreams.backfill import run as run_backfill
from pystreams.backfill.plan.partition_bounds import PartitionBounds
from pystreams.backfill.plan.rows import HISTORY_TYPE, HistoryMessage, Result
from pystreams.backfill.sources.history import WantedTopics
from pystreams.backfill.spark.failures import BackfillTaskError
from pystreams.backfill.spark.pickling import pack, unpack
from pystreams.backfill.tasks.record_counts import StageCounts, TakenRecords
from pystreams.backfill.tasks.task_input import fed_by_reader
from pystreams.testing.simulation import ManualClock
from tests.backfill.in_process import Row, run
from tests.backfill.sources.covered import BOTH, CASES, CONFIG, LEFT, ON_SPARK_IN_CI, made_up
from tests.backfill.spark.on_spark import results_of
from tests.backfill.spark.test_on_spark import in_order, without_unread_ends
from tests.backfill.test_history_task import counting_task
from tests.variants import first_of, swept

BEHIND = 5
"""Offsets behind the last record of a partition, where the records of aborted transactions were."""


@dataclass
class RowReader:
    """Gives rows as a reader of Kafka's partitions would, in batches of any size.

    Attributes:
        seed: Draws how many come together.
        broken: A partition that gives two records and no more.
        closed: Partitions that are not being read any more.
    """

    rows: Sequence[Row]
    seed: int = 1
    broken: TopicPartition | None = None
    closed: list[TopicPartition] = field(default_factory=list)

    def read(
        self, partition: TopicPartition, bounds: PartitionBounds
    ) -> Generator[Sequence[HistoryMessage]]:
        draw = random.Random(f"{self.seed} {partition}")
        own = sorted(
            (row for row in self.rows if (row.topic, row.partition) == partition),
            key=lambda row: row.offset,
        )
        try:
            while own:
                if partition == self.broken:
                    yield [row.message() for row in own[:2]]
                    raise StreamsError(f"{partition} is gone")
                count = draw.choice([1, 2, 7, 100])
                yield [row.message() for row in own[:count]]
                own = own[count:]
        finally:
            self.closed.append(partition)


@dataclass(frozen=True)
class ReadInWorkers:
    """A source as Kafka is: known are the bounds.

    Attributes:
        num_partitions: Partition counts.
        aborted: Partitions that hold nothing but records of aborted transactions.
        broken: See `RowReader`.
    """

    rows: Sequence[Row]
    num_partitions: Mapping[str, int]
    aborted: frozenset[TopicPartition] = frozenset()
    broken: TopicPartition | None = None

    def read(self, spark: Any, wanted: WantedTopics) -> History:
        bounds = {}
        for topic, count in self.num_partitions.items():
            for number in range(count):
                partition = TopicPartition(topic, number)
                own = [row for row in self.rows if (row.topic, row.partition) == partition]
                end = max((row.offset + 1 + BEHIND for row in own), default=0)
                end = BEHIND if partition in self.aborted else end
                bounds[partition] = PartitionBounds(0, end, end)
        values = [(*row[:6], list(row[6]) or None) for row in map(astuple, self.rows)]
        frame = spark.createDataFrame(values, HISTORY_TYPE)
        reader = RowReader(self.rows, broken=self.broken)
        return History(lambda: frame, bounds, self.num_partitions, True, reader)


def backfilled(topology: Topology, source: ReadInWorkers, directory: Path) -> list[Result]:
    return results_of(run_backfill(topology, CONFIG, source=source, output=directory / "staging"))


def expected(topology: Topology, source: ReadInWorkers, directory: Path) -> list[Result]:
    return run(topology, CONFIG, source.rows, source.num_partitions, directory / "expected")


def without_ends(results: Sequence[Result]) -> list[Result]:
    return [result for result in in_order(results) if result.kind.name != "END"]


def with_gaps(rows: Sequence[Row]) -> list[Row]:
    """Rows without every seventh, as compaction leaves them."""
    return [row for row in rows if row.offset % 7 != 3]


@pytest.mark.parametrize(
    "name", [*sorted(CASES.keys() - ON_SPARK_IN_CI), *swept(*sorted(ON_SPARK_IN_CI))]
)
@pytest.mark.parametrize("seed", first_of(1, 2))
def test_batches_of_any_size_are_merged_as_their_heads_say(
    name: str, seed: int, tmp_path: Path
) -> None:
    case = CASES[name]
    config = {**CONFIG, **case.config}
    rows = case.in_event_time or case.rows
    reader = RowReader(case.rows, seed)

    sent = unpack(pack(case.build(), "the topology"))
    found = run(sent, config, case.rows, case.num_partitions, tmp_path / "found", reader=reader)

    results = run(case.build(), config, rows, case.num_partitions, tmp_path / "expected")
    assert in_order(without_unread_ends(found)) == in_order(without_unread_ends(results))
    assert reader.closed


@pytest.mark.parametrize(
    "name", ["ticks", "two_repartitions", "temporal_join", "topic_with_a_history"]
)
def test_tasks_that_read_themselves_give_what_tasks_without_spark_give(
    name: str, spark: Any, tmp_path: Path
) -> None:
    case = CASES[name]
    rows = with_gaps(case.rows)
    source = ReadInWorkers(rows, case.num_partitions)

    found = backfilled(case.build(), source, tmp_path)

    assert without_ends(found) == without_ends(expected(case.build(), source, tmp_path))


def test_stage_that_reads_itself_needs_no_query_and_its_tasks_run_side_by_side(
    spark: Any, tmp_path: Path
) -> None:
    """Java takes seconds to get ready for the first query of a session."""
    rows = made_up("left", 5, 30, num_partitions=4)
    source = ReadInWorkers(rows, {"left": 4, "busy": 1, "quiet": 1})
    executed = spark._jsparkSession.sharedState().statusStore()
    before = executed.executionsCount()

    backfilled(CASES["ticks"].build(), source, tmp_path)

    assert executed.executionsCount() == before
    ends = (tmp_path / "staging" / "stage-0").glob("kind=2/name=*/task=*/*.parquet")
    runs = {file.stem.partition("-")[2] for file in ends}
    assert len(runs) == 4, "each task has a Spark partition of its own"


def test_task_without_records_runs_and_tells_its_end(spark: Any, tmp_path: Path) -> None:
    rows = made_up("left", 5, 30, num_partitions=1)
    aborted = frozenset({TopicPartition("left", 2)})
    source = ReadInWorkers(rows, {"left": 4, "busy": 1, "quiet": 1}, aborted)

    found = backfilled(CASES["ticks"].build(), source, tmp_path)

    ends = {
        result.partition: (result.sequence, result.timestamp)
        for result in found
        if result.kind.name == "END"
    }
    latest = max(row.timestamp for row in rows)
    assert ends == {0: (30, latest), 1: (0, -1), 2: (0, -1), 3: (0, -1)}


def test_partition_that_can_not_be_read_to_its_end_leaves_nothing(
    spark: Any, tmp_path: Path
) -> None:
    source = ReadInWorkers(LEFT, BOTH, broken=TopicPartition("left", 1))

    with pytest.raises(BackfillTaskError, match="left-1 is gone"):
        backfilled(CASES["every_store"].build(), source, tmp_path)

    assert not (tmp_path / "staging" / "manifest.json").exists()
    assert not (tmp_path / "staging" / "stage-0").exists()


def test_reading_ends_for_all_partitions_when_one_of_them_fails(tmp_path: Path) -> None:
    case = CASES["temporal_join"]
    reader = RowReader(case.rows, broken=TopicPartition("left", 0))

    with pytest.raises(StreamsError, match="left-0 is gone"):
        run(case.build(), CONFIG, case.rows, case.num_partitions, tmp_path, reader=reader)

    assert set(reader.closed) == {TopicPartition("left", 0), TopicPartition("right", 0)}


def test_records_that_workers_read_are_counted(tmp_path: Path) -> None:
    rows = [Row("in", 0, offset, offset, b"k", b"v") for offset in range(500)]
    bounds = {TopicPartition("in", 0): PartitionBounds(0, len(rows), len(rows))}
    counts = StageCounts(tmp_path / "counts")
    counts.prepare()
    taken = TakenRecords(counts.directory / "0", ManualClock())

    task = counting_task(tmp_path, {})
    for _ in fed_by_reader(task, RowReader(rows), bounds, taken):
        pass
    task.close()
    taken.end()

    assert counts.records() == len(rows)
