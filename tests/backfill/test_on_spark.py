"""What Spark's workers give is what the same tasks give in one process."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import pystreams.topology.processors
from pystreams.backfill.rows import Result, ResultKind
from pystreams.backfill.salts import salts_of, spark_hash
from pystreams.topology.nodes import ProcessorNode
from pystreams.topology.processors.table_view import TableOperator
from tests.backfill.covered import CASES, CONFIG
from tests.backfill.in_process import run
from tests.backfill.on_spark import run_on_spark


def in_order(results: Sequence[Result]) -> list[Result]:
    """Results by task, kind and name; what a task wrote stays in its order."""
    return sorted(results, key=lambda one: (one.task, one.kind, one.name))


def without_unread_ends(results: Sequence[Result]) -> list[Result]:
    """Without the ends of partitions that have no records, which only Spark's run tells."""
    return [one for one in results if one.kind is not ResultKind.END or one.timestamp >= 0]


@pytest.mark.parametrize("name", CASES)
def test_outputs_and_stores_equal_those_of_tasks_without_spark(
    name: str, spark: Any, tmp_path: Path
) -> None:
    case = CASES[name]
    config = {**CONFIG, **case.config}

    rows = case.in_event_time or case.rows
    expected = run(case.build(), config, rows, case.num_partitions, tmp_path / "expected")
    done, found = run_on_spark(case.build(), config, case.rows, case.num_partitions, tmp_path)

    by_stage = [stage.subtopology for stage in done.stages]
    assert sorted(set(by_stage)) == list(range(len(set(by_stage))))
    assert in_order(without_unread_ends(found)) == in_order(without_unread_ends(expected))


def test_every_operator_is_in_a_topology_that_is_backfilled() -> None:
    """One added later fails here until a case of `covered` has it."""
    covered = {
        type(node.operator)
        for case in CASES.values()
        for node in case.build().nodes.values()
        if isinstance(node, ProcessorNode)
    }

    assert operators() - covered == set()


def operators() -> set[type]:
    """All classes that can be attached to a node."""
    package = pystreams.topology.processors
    found = set()
    for module in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
        for name, member in vars(importlib.import_module(module.name)).items():
            own = inspect.isclass(member) and member.__module__ == module.name
            if own and hasattr(member, "attach") and not name.startswith("_"):
                found.add(member)
    return found - {TableOperator}


def test_each_task_s_salt_hashes_to_its_own_place(spark: Any) -> None:
    for num_tasks in (1, 2, 7, 64):
        salts = salts_of(num_tasks)
        rows = spark.createDataFrame([(salt,) for salt in salts], "salt int")
        hashed = rows.selectExpr(f"pmod(hash(salt), {num_tasks})", "hash(salt)").collect()

        assert [place for place, _ in hashed] == list(range(num_tasks))
        assert [value for _, value in hashed] == [spark_hash(salt) for salt in salts]
