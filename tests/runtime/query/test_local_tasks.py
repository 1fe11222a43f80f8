"""Which tasks a question looks at."""

from __future__ import annotations

from collections.abc import ItemsView, Iterator, ValuesView

import pytest

from pystreams import TaskId
from pystreams.runtime.core.task import StreamTask
from pystreams.runtime.queries.local_tasks import local_tasks
from pystreams.topology.plan.topology_plan import TopologyPlan
from tests.runtime.query.filing import filing
from tests.runtime.running_task import RunningTask


class Untouched(dict[TaskId, StreamTask]):
    """Tasks that can be had by their id only."""

    def __iter__(self) -> Iterator[TaskId]:
        raise AssertionError("all tasks are gone through")

    def values(self) -> ValuesView[StreamTask]:  # type: ignore[override]
        raise AssertionError("all tasks are gone through")

    def items(self) -> ItemsView[TaskId, StreamTask]:  # type: ignore[override]
        raise AssertionError("all tasks are gone through")


@pytest.fixture
def plan() -> TopologyPlan:
    return TopologyPlan(filing(), "app")


@pytest.fixture
def tasks() -> dict[TaskId, StreamTask]:
    return {TaskId(0, number): RunningTask(filing(), partition=number).task for number in range(3)}


def test_a_question_for_a_partition_looks_at_no_other_task(
    plan: TopologyPlan, tasks: dict[TaskId, StreamTask]
) -> None:
    assert local_tasks(plan, Untouched(tasks), "plain", [1]) == [tasks[TaskId(0, 1)]]


def test_a_partition_that_is_elsewhere_has_no_task_here(
    plan: TopologyPlan, tasks: dict[TaskId, StreamTask]
) -> None:
    assert local_tasks(plan, tasks, "plain", [7, 2]) == [tasks[TaskId(0, 2)]]


def test_all_tasks_with_the_store_are_found_unless_some_are_named(
    plan: TopologyPlan, tasks: dict[TaskId, StreamTask]
) -> None:
    assert local_tasks(plan, tasks, "plain", None) == list(tasks.values())
    assert local_tasks(plan, tasks, "another", None) == []
