"""Commits that fail one after the other: each task pauses for itself, the thread once for all."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pystreams import Processor, PunctuationType, Record, StreamsBuilder, Topology, serdes
from pystreams.errors import BrokerNotAvailableError, TransactionAbortableError
from tests.simulation.applications import Application, running_tasks
from tests.variants import first_of

if TYPE_CHECKING:
    from pathlib import Path

    from pystreams import ProcessorContext
    from pystreams.testing.simulation import SimulatedProcess

pytestmark = pytest.mark.simulation

TASKS = 4


def test_tasks_whose_commits_fail_again_wait_together_and_not_one_after_the_other(
    tmp_path: Path,
) -> None:
    app = Application(tmp_path, "exactly_once", partitions=TASKS, commit_interval_ms=9000)
    process = app.process()
    process.start()
    while len(running_tasks(process)) < TASKS:
        process.step()
    app.feed(*(f"key-{number}" for number in range(20 * TASKS)))
    [thread] = process.threads

    def commit_in_vain() -> float:
        while sum(task.needs_commit() for task in thread._manager.running()) < TASKS:
            process.step()
        for _ in range(TASKS):
            app.faults.fail_next("flush", TransactionAbortableError("refused"))
        before = app.clock.monotonic_ms()
        assert not thread._commit()
        return app.clock.monotonic_ms() - before

    first = commit_in_vain()
    app.clock.advance_ms(2000)
    second = commit_in_vain()

    assert first == 0
    assert 200 <= second < 2 * 200
    process.stop()


class EveryTenSeconds(Processor[str, str, str, str]):
    """Tells something by the wall clock, and passes records on."""

    def init(self, context: ProcessorContext[str, str]) -> None:
        self._context = context
        context.schedule(10_000, PunctuationType.WALL_CLOCK_TIME, self.tell)

    def process(self, record: Record[str, str]) -> None:
        self._context.forward(record)

    def tell(self, now_ms: int) -> None:
        self._context.forward(Record("report", "x", now_ms))


def reporting() -> Topology:
    builder = StreamsBuilder()
    stream = builder.stream("in", key_serde=serdes.STRING, value_serde=serdes.STRING)
    stream.process(EveryTenSeconds).to("out", key_serde=serdes.STRING, value_serde=serdes.STRING)
    return builder.build()


def step_for(app: Application, process: SimulatedProcess, ms: int) -> None:
    until_ms = app.clock.monotonic_ms() + ms
    while app.clock.monotonic_ms() < until_ms:
        process.step()


@pytest.mark.parametrize("guarantee", first_of("exactly_once_v2", "exactly_once", "at_least_once"))
def test_commits_that_fail_once_each_with_nothing_to_commit_in_between_end_nothing(
    tmp_path: Path, guarantee: str
) -> None:
    app = Application(tmp_path, guarantee, task_timeout_ms=5000)
    process = app.process(topology=reporting())
    process.start()
    for _ in range(3):
        app.faults.fail_next("flush", TransactionAbortableError("the leader moved"))
        step_for(app, process, 14_000)
        assert not app.faults.forget_scripted("flush")

    assert running_tasks(process) == ["0_0"]
    process.stop()


def test_a_task_whose_every_commit_fails_ends_its_thread_though_it_begins_anew_each_time(
    tmp_path: Path,
) -> None:
    app = Application(tmp_path, "exactly_once_v2", task_timeout_ms=5000)
    process = app.process(topology=reporting())
    process.start()
    app.feed("a")
    for _ in range(1000):
        app.faults.fail_next("flush", TransactionAbortableError("the leader moved"))

    with pytest.raises(BrokerNotAvailableError, match="no commit succeeded for 5000 ms"):
        step_for(app, process, 60_000)
