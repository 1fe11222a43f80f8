"""Tasks whose commits fail: tried again after longer and longer pauses, not for ever."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pystreams import BrokerNotAvailableError, StreamsBuilder, serdes
from pystreams.errors import RetriableClientError
from pystreams.runtime.tasks.failing_tasks import FailingTasks
from pystreams.testing.simulation.clock import ManualClock
from tests.runtime.running_task import RunningTask

if TYPE_CHECKING:
    from pystreams.runtime.core.task import StreamTask

TIMEOUT_MS = 60_000
ERROR = RetriableClientError("no leader")


@pytest.fixture
def task() -> StreamTask:
    builder = StreamsBuilder()
    builder.stream("in", key_serde=serdes.STRING, value_serde=serdes.STRING).to("out")
    return RunningTask(builder.build()).task


def test_the_first_failure_costs_no_pause_and_later_ones_a_tenth_of_the_time_up_to_a_second(
    task: StreamTask,
) -> None:
    clock = ManualClock()
    failing = FailingTasks(clock, TIMEOUT_MS)
    pauses = []
    for advance_ms in (0, 2000, 3000, 20_000):
        clock.advance_ms(advance_ms)
        pauses.append(failing.note(ERROR, [task]))

    assert pauses == [0, 0.2, 0.5, 1.0]


def test_a_commit_that_succeeds_is_a_new_beginning(task: StreamTask) -> None:
    clock = ManualClock()
    failing = FailingTasks(clock, TIMEOUT_MS)
    failing.note(ERROR, [task])
    clock.advance_ms(TIMEOUT_MS)
    failing.keep({task.task_id: task}, {task.task_id}, lambda _: 1)
    clock.advance_ms(TIMEOUT_MS)

    assert failing.note(ERROR, [task]) == 0


def test_a_task_that_fails_for_longer_than_its_timeout_ends_the_thread(task: StreamTask) -> None:
    clock = ManualClock()
    failing = FailingTasks(clock, TIMEOUT_MS)
    failing.note(ERROR, [task])
    clock.advance_ms(TIMEOUT_MS)
    failing.note(ERROR, [task])
    failing.keep({task.task_id: task}, (), lambda _: 1)
    clock.advance_ms(1)

    with pytest.raises(
        BrokerNotAvailableError, match=r"task 0_0: no commit succeeded for 60000 ms .*start again"
    ):
        failing.note(ERROR, [task])
