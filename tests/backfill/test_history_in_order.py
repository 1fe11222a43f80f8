"""A history whose partitions come in order, as Kafka's do, is processed without a shuffle."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from pystreams.backfill.execution import BackfillError
from pystreams.backfill.history import History, PartitionBounds, WantedTopics
from pystreams.backfill.rows import HISTORY_TYPE, Result
from pystreams.backfill.running import run as run_backfill
from pystreams.backfill.stage_rows import StageInput, in_task_order
from pystreams.ids import TopicPartition
from pystreams.topology.topology import Topology
from tests.backfill.covered import BOTH, CASES, CONFIG, LEFT, RIGHT, made_up
from tests.backfill.in_process import Row, run
from tests.backfill.on_spark import results_of
from tests.backfill.test_on_spark import in_order

BEHIND = 5
"""Offsets behind the last record of a partition, where the records of aborted transactions were."""


@dataclass(frozen=True)
class InOrder:
    """Rows as a Kafka topic gives them: a Spark partition a partition that holds anything.

    Attributes:
        rows: The rows.
        num_partitions: Partition counts.
        aborted: Partitions that hold nothing but records of aborted transactions.
        pieces: How many Spark partitions a partition is read in.
    """

    rows: Sequence[Row]
    num_partitions: Mapping[str, int]
    aborted: frozenset[TopicPartition] = frozenset()
    pieces: int = 1

    def read(self, spark: Any, wanted: WantedTopics) -> History:
        frame = spark.createDataFrame([], HISTORY_TYPE)
        bounds = {}
        for topic in sorted(self.num_partitions):
            for number in range(self.num_partitions[topic]):
                partition = TopicPartition(topic, number)
                own = sorted(
                    (row for row in self.rows if (row.topic, row.partition) == partition),
                    key=lambda row: row.offset,
                )
                if own or partition in self.aborted:
                    frame = frame.unionByName(self._of_partition(spark, own))
                end = own[-1].offset + 1 + BEHIND if own else BEHIND * (partition in self.aborted)
                bounds[partition] = PartitionBounds(0, end, end)
        return History(frame, bounds, self.num_partitions, True, partitions_in_order=True)

    def _of_partition(self, spark: Any, own: Sequence[Row]) -> Any:
        length = max(1, -(-len(own) // self.pieces))
        pieces = [own[begin : begin + length] for begin in range(0, len(own), length)] or [own]
        found = None
        for piece in pieces:
            values = [
                (
                    row.topic,
                    row.partition,
                    row.offset,
                    row.timestamp,
                    row.key,
                    row.value,
                    list(row.headers) or None,
                )
                for row in piece
            ]
            one = spark.createDataFrame(values, HISTORY_TYPE).coalesce(1)
            found = one if found is None else found.unionByName(one)
        return found


def backfilled(topology: Topology, source: InOrder, directory: Path) -> list[Result]:
    return results_of(run_backfill(topology, CONFIG, source=source, output=directory / "staging"))


def expected(topology: Topology, source: InOrder, directory: Path) -> list[Result]:
    return run(topology, CONFIG, source.rows, source.num_partitions, directory / "expected")


def without_ends(results: Sequence[Result]) -> list[Result]:
    return [one for one in in_order(results) if one.kind.name != "END"]


def with_gaps(rows: Sequence[Row]) -> list[Row]:
    """Rows without every seventh, as compaction leaves them."""
    return [row for row in rows if row.offset % 7 != 3]


@pytest.mark.parametrize("name", ["ticks", "two_repartitions", "every_store"])
def test_timestamps_out_of_order_and_gaps_give_what_the_tasks_give(
    name: str, spark: Any, tmp_path: Path
) -> None:
    source = InOrder(with_gaps(LEFT), CASES[name].num_partitions)

    found = backfilled(CASES[name].build(), source, tmp_path)

    assert without_ends(found) == without_ends(expected(CASES[name].build(), source, tmp_path))


def test_several_topics_of_a_task_are_merged_all_the_same(spark: Any, tmp_path: Path) -> None:
    source = InOrder(with_gaps(LEFT + RIGHT), BOTH)

    found = backfilled(CASES["temporal_join"].build(), source, tmp_path)

    assert without_ends(found) == without_ends(
        expected(CASES["temporal_join"].build(), source, tmp_path)
    )


def test_task_without_records_runs_and_tells_its_end(spark: Any, tmp_path: Path) -> None:
    """An empty partition has no Spark partition; one of aborted records has one without rows."""
    rows = made_up("left", 5, 30, num_partitions=1)
    aborted = frozenset({TopicPartition("left", 2)})
    source = InOrder(rows, {"left": 4, "busy": 1, "quiet": 1}, aborted)

    found = backfilled(CASES["ticks"].build(), source, tmp_path)

    ends = {one.partition: (one.sequence, one.timestamp) for one in found if one.kind.name == "END"}
    latest = max(row.timestamp for row in rows)
    assert ends == {0: (30, latest), 1: (0, -1), 2: (0, -1), 3: (0, -1)}


def test_source_that_splits_a_partition_after_all_is_found_out(spark: Any, tmp_path: Path) -> None:
    source = InOrder(LEFT, {"left": 3}, pieces=2)

    with pytest.raises(BackfillError, match="more than one Spark partition"):
        backfilled(CASES["every_store"].build(), source, tmp_path)


def test_one_topic_in_order_needs_no_shuffle_and_no_sort(spark: Any) -> None:
    history = InOrder(LEFT, BOTH).read(spark, WantedTopics(("left",), ())).frame

    def plan(*, num_topics: int, partitions_in_order: bool) -> str:
        given = StageInput(history, None, num_topics, 3, partitions_in_order=partitions_in_order)
        return str(in_task_order(spark, given)._jdf.queryExecution().executedPlan())

    direct = plan(num_topics=1, partitions_in_order=True)
    assert "Exchange" not in direct
    assert "Sort" not in direct
    assert "Exchange" in plan(num_topics=1, partitions_in_order=False)
    assert "Exchange" in plan(num_topics=2, partitions_in_order=True)
