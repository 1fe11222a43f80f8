"""Which tasks the loop goes over: those that have something to do, in turn."""

from __future__ import annotations

import gc
import weakref
from pathlib import Path

from pystreams import (
    Processor,
    ProcessorContext,
    PunctuationType,
    Record,
    StreamsBuilder,
    Topology,
    serdes,
)
from pystreams.runtime.core.task import StreamTask
from pystreams.runtime.tasks.active_tasks import ActiveTasks
from tests.runtime.running_task import RunningTask

INTERVAL_MS = 100


class Ticking(Processor[str, str, str, str]):
    """Does something every tenth of a second, and asks for a commit at the record `commit`."""

    def init(self, context: ProcessorContext[str, str]) -> None:
        self._context = context
        context.schedule(INTERVAL_MS, PunctuationType.WALL_CLOCK_TIME, lambda _: None)

    def process(self, record: Record[str, str]) -> None:
        if record.value == "commit":
            self._context.commit()


def ticking() -> Topology:
    builder = StreamsBuilder()
    stream = builder.stream("in", key_serde=serdes.STRING, value_serde=serdes.STRING)
    stream.process(Ticking)
    return builder.build()


def noted(active: ActiveTasks, directory: Path, number: int = 0) -> RunningTask:
    running = RunningTask(ticking(), partition=number, directory=directory / str(number))
    active.note(running.task)
    return running


def process(active: ActiveTasks, running: RunningTask, limit: int = 1000) -> None:
    running.run(limit=limit)
    active.ran(running.task)


def numbers(tasks: list[StreamTask]) -> list[int]:
    return [task.task_id.partition for task in tasks]


def test_tasks_take_turns_and_rest_when_they_have_no_records(tmp_path: Path) -> None:
    active = ActiveTasks()
    first, second, third = tasks = [noted(active, tmp_path, number) for number in range(3)]
    assert numbers(active.in_turn()) == []
    for task in tasks:
        task.read(("k", "v", 0), ("k", "v", 1))
        active.note(task.task)

    process(active, first, limit=1)
    assert numbers(active.in_turn()) == [1, 2, 0]
    process(active, second)
    assert numbers(active.in_turn()) == [2, 0]
    second.read(("k", "v", 2))
    active.note(second.task)
    active.note(third.task)
    assert numbers(active.in_turn()) == [2, 0, 1]


def test_what_is_processed_is_to_be_committed_once(tmp_path: Path) -> None:
    active = ActiveTasks()
    tasks = [noted(active, tmp_path, number) for number in (1, 0)]
    for task in tasks:
        task.read(("k", "v", 0))
        process(active, task)
    assert numbers(active.uncommitted()) == [0, 1]

    tasks[0].commit()
    active.note(tasks[0].task)
    assert numbers(active.uncommitted()) == [0]


def test_a_commit_is_asked_for_until_it_has_come(tmp_path: Path) -> None:
    active = ActiveTasks()
    task = noted(active, tmp_path)
    task.read(("k", "commit", 0))
    process(active, task)
    assert active.commit_requested

    task.commit()
    active.note(task.task)
    assert not active.commit_requested


def test_a_punctuation_is_due_until_it_has_fired(tmp_path: Path) -> None:
    active = ActiveTasks()
    task = noted(active, tmp_path).task

    assert active.punctuations_due(INTERVAL_MS - 1) == []
    assert active.punctuations_due(INTERVAL_MS) == [task]
    assert active.punctuations_due(INTERVAL_MS) == [task], "it could not fire: a commit failed"
    task.punctuate_wall_clock(INTERVAL_MS)
    active.note(task)
    assert active.punctuations_due(2 * INTERVAL_MS - 1) == []
    assert active.punctuations_due(2 * INTERVAL_MS) == [task]


def test_a_task_that_has_gone_is_not_kept_for_what_was_due(tmp_path: Path) -> None:
    active = ActiveTasks()
    running = noted(active, tmp_path)
    running.read(("k", "commit", 0))
    process(active, running)
    active.forget(running.task)
    gone = weakref.ref(running.task)
    running.task.close()
    del running
    gc.collect()

    assert gone() is None
    assert (active.in_turn(), active.uncommitted(), active.punctuations_due(10**9)) == ([], [], [])
    assert not active.commit_requested
