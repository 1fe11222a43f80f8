"""What Spark's workers give is what the same tasks give in one process."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from pystreams import ConfigError
from pystreams.backfill.plan.rows import Result, ResultKind
from pystreams.backfill.spark.session import spark_session
from pystreams.backfill.spark.shuffle_salts import salts_of, spark_hash
from pystreams.topology.plan.topology_plan import TopologyPlan
from tests.backfill.in_process import run
from tests.backfill.sources.covered import (
    CASES,
    CONFIG,
    ON_SPARK_IN_CI,
    SPREAD_CASES,
    Case,
    made_up,
)
from tests.backfill.spark.on_spark import run_on_spark


def in_order(results: Sequence[Result]) -> list[Result]:
    """Results by task, kind, name and partition; what a task wrote there stays in its order.

    Where a partitioner of the user's own chooses, the order between partitions is that of batches;
    so outputs are compared without the numbers that stand for it.
    """
    comparable = [
        result._replace(sequence=-1) if result.kind is ResultKind.OUTPUT else result
        for result in results
    ]
    return sorted(
        comparable, key=lambda result: (result.task, result.kind, result.name, result.partition)
    )


def without_unread_ends(results: Sequence[Result]) -> list[Result]:
    """Without the ends of partitions that have no records, which only Spark's run tells."""
    return [
        result for result in results if result.kind is not ResultKind.END or result.timestamp >= 0
    ]


def outputs_are_numbered(results: Sequence[Result]) -> bool:
    """Whether the outputs of each task come in the order of their numbers, from 0 a topic."""
    numbers: dict[tuple[int, str], list[int]] = {}
    for result in results:
        if result.kind is ResultKind.OUTPUT:
            if result.sequence == 0:
                numbers[result.task, result.name] = []
            numbers[result.task, result.name].append(result.sequence)
    return all(found == list(range(len(found))) for found in numbers.values())


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[] if name in ON_SPARK_IN_CI else [pytest.mark.sweep])
        for name in CASES
    ],
)
def test_outputs_and_stores_equal_those_of_tasks_without_spark(
    name: str, spark: Any, tmp_path: Path
) -> None:
    check_equality(CASES[name], tmp_path)


@pytest.mark.sweep
@pytest.mark.parametrize("name", SPREAD_CASES)
def test_parity_topologies_give_the_same_over_several_partitions(
    name: str, spark: Any, tmp_path: Path
) -> None:
    check_equality(SPREAD_CASES[name], tmp_path)


def check_equality(case: Case, tmp_path: Path) -> None:
    config = {**CONFIG, **case.config}

    rows = case.in_event_time or case.rows
    expected = run(case.build(), config, rows, case.num_partitions, tmp_path / "expected")
    done, found = run_on_spark(case.build(), config, case.rows, case.num_partitions, tmp_path)

    plan = TopologyPlan(case.build(), "app")
    assert {stage.subtopology for stage in done.stages} == plan.by_id.keys()
    assert in_order(without_unread_ends(found)) == in_order(without_unread_ends(expected))
    assert outputs_are_numbered(found)


def test_task_without_records_runs_and_tells_its_end(spark: Any, tmp_path: Path) -> None:
    rows = made_up("left", 5, 30, num_partitions=1)

    _, found = run_on_spark(CASES["ticks"].build(), CONFIG, rows, {"left": 3}, tmp_path)

    ends = {
        result.partition: (result.sequence, result.timestamp)
        for result in found
        if result.kind is ResultKind.END
    }
    latest = max(row.timestamp for row in rows)
    assert ends == {0: (30, latest), 1: (0, -1), 2: (0, -1)}


def test_active_session_with_another_master_is_not_taken_for_it(spark: Any) -> None:
    with pytest.raises(ConfigError, match=r"master 'local\[2,2\]' is active.*stop the session"):
        spark_session("local[7]").__enter__()


def test_each_task_s_salt_hashes_to_its_own_place(spark: Any) -> None:
    for num_tasks in (1, 2, 7, 64):
        salts = salts_of(num_tasks)
        rows = spark.createDataFrame([(salt,) for salt in salts], "salt int")
        hashed = rows.selectExpr(f"pmod(hash(salt), {num_tasks})", "hash(salt)").collect()

        assert [place for place, _ in hashed] == list(range(num_tasks))
        assert [value for _, value in hashed] == [spark_hash(salt) for salt in salts]


def test_worker_is_born_with_what_tasks_need(spark: Any) -> None:
    def look(_numbers: Iterator[int]) -> Iterator[Any]:
        main = sys.modules["__main__"].__spec__
        yield main.name, set(sys.modules), list(sys.path)  # type: ignore[union-attr]

    [(daemon, modules, paths)] = (
        spark.sparkContext.parallelize([1], 1).mapPartitions(look).collect()
    )

    assert daemon == "pystreams.backfill.spark.worker_daemon"
    assert modules >= {"pandas", "pyarrow", "pystreams.backfill.tasks.worker"}
    assert not [path for path in paths if Path(path).is_file()], "archives are read in each task"
