"""A reader of keys answers as queries do, time and again, or leaves the question to a query."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import pytest

from pystreams import IsolationLevel, KeyQuery, Query, TaskId, TimestampedKeyQuery
from pystreams.runtime.core.task import StreamTask
from pystreams.runtime.queries.key_reader import KeyReader, Read, Unread
from tests.runtime.query.filing import SPECS, ask, filing
from tests.runtime.running_task import RunningTask

UNCOMMITTED, COMMITTED = IsolationLevel.READ_UNCOMMITTED, IsolationLevel.READ_COMMITTED


class Here:
    """The tasks of an instance."""

    def __init__(self, *running: RunningTask) -> None:
        self.tasks = {one.task.task_id: one.task for one in running}

    def find(self, task_id: TaskId) -> StreamTask | None:
        return self.tasks.get(task_id)

    def reader(
        self,
        store: str,
        query_of: Callable[[Any], Query[Any]] = KeyQuery,
        level: IsolationLevel = UNCOMMITTED,
    ) -> KeyReader:
        return KeyReader(SPECS[store], query_of, level, 0, self.find)


@pytest.mark.parametrize(
    ("store", "query_of"),
    [("plain", KeyQuery), ("timed", KeyQuery), ("timed", TimestampedKeyQuery)],
)
@pytest.mark.parametrize("level", [UNCOMMITTED, COMMITTED])
def test_it_answers_as_a_query_does_whatever_happens_in_between(
    store: str, query_of: Callable[[str], Query[Any]], level: IsolationLevel
) -> None:
    running = RunningTask(filing())
    reader = Here(running).reader(store, query_of, level)

    def compare() -> None:
        for key in ("a", "absent"):
            asked = ask([running], query_of(key), store, level=level)
            (found,) = asked.partition_results.values()
            assert reader.read(0, key) == Read(found.value, found.position)

    compare()
    running.run(("a", "one", 1))
    compare()
    running.commit()
    compare()
    running.run(("a", "two", 2), ("b", "two", 3))
    compare()
    running.restart(1)
    compare()
    running.run(("a", "three", 4))
    running.commit()
    compare()


def test_a_partition_without_a_task_is_elsewhere_until_it_comes() -> None:
    here = Here(RunningTask(filing()))
    reader, later = here.reader("plain"), RunningTask(filing(), partition=1)
    later.run(("b", "B", 0))
    assert reader.read(1, "b") is Unread.ELSEWHERE
    here.tasks[later.task.task_id] = later.task
    assert isinstance(found := reader.read(1, "b"), Read)
    assert found.value == "B"
    del here.tasks[later.task.task_id]
    later.task.close()
    assert reader.read(1, "b") is Unread.ELSEWHERE


def test_another_task_of_the_same_id_is_read_from_then_on() -> None:
    here = Here(first := RunningTask(filing()))
    first.run(("a", "old", 0))
    reader = here.reader("plain")
    assert reader.read(0, "a") != Unread.ELSEWHERE
    first.task.close()
    second = RunningTask(filing())
    second.run(("a", "new", 0))
    here.tasks[second.task.task_id] = second.task
    assert isinstance(found := reader.read(0, "a"), Read)
    assert found.value == "new"


def test_what_a_query_has_to_tell_of_is_left_to_it() -> None:
    here = Here(running := RunningTask(filing()))
    reader = here.reader("plain")
    assert reader.read(0, 7) is Unread.UNKNOWN  # The serde refuses it.
    assert here.reader("plain", TimestampedKeyQuery).read(0, "a") is Unread.UNKNOWN
    running.task.revive()
    assert reader.read(0, "a") is Unread.UNKNOWN
    running.task.start({}, 0)
    running.task.state_manager.stores()["plain"].close()
    assert reader.read(0, "a") is Unread.UNKNOWN


def test_a_reader_that_nobody_has_any_more_leaves_nothing_with_the_task() -> None:
    here = Here(running := RunningTask(filing()))
    for _ in range(3):
        assert isinstance(here.reader("plain").read(0, "a"), Read)
    gc.collect()
    assert not running.task.views
