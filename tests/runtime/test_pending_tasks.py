"""Tasks that wait to start: who is tried next, and when again."""

from __future__ import annotations

import pytest

from pystreams.errors import BrokerNotAvailableError, RetriableClientError
from pystreams.ids import TaskId
from pystreams.runtime.tasks.pending_tasks import PendingTasks
from pystreams.testing.simulation.clock import ManualClock

FIRST, SECOND = TaskId(0, 0), TaskId(0, 1)
ERROR = RetriableClientError("no leader")


def _pending(clock: ManualClock, timeout_ms: int = 60_000) -> PendingTasks:
    pending = PendingTasks(clock, timeout_ms)
    for task_id in (FIRST, SECOND):
        pending.add(task_id)
    return pending


def _ask_in_vain(pending: PendingTasks, clock: ManualClock, ms: float) -> bool:
    asked_ms = clock.monotonic_ms()
    clock.advance_ms(ms)
    return pending.failed(FIRST, ERROR, asked_ms)


def test_one_that_has_waited_in_vain_goes_behind_the_others() -> None:
    clock = ManualClock()
    pending = _pending(clock)

    assert pending.due() == [FIRST, SECOND]
    assert _ask_in_vain(pending, clock, 5000)
    clock.advance_ms(60_000)

    assert pending.due() == [SECOND, FIRST]


@pytest.mark.parametrize(("took_ms", "pause_ms"), [(0, 200), (1000, 200), (8000, 7000)])
def test_what_took_seconds_to_fail_leaves_about_as_long_to_the_tasks_that_run(
    took_ms: float, pause_ms: float
) -> None:
    clock = ManualClock()
    pending = _pending(clock)
    _ask_in_vain(pending, clock, took_ms)
    clock.advance_ms(pause_ms - 1)
    assert pending.due() == [SECOND]
    clock.advance_ms(1)

    assert pending.due() == [SECOND, FIRST]


def test_one_that_was_closed_and_comes_back_has_its_whole_time() -> None:
    clock = ManualClock()
    pending = _pending(clock)
    _ask_in_vain(pending, clock, 1)
    pending.forget(FIRST)
    pending.add(FIRST)
    clock.advance_ms(60_001)
    _ask_in_vain(pending, clock, 1)
    clock.advance_ms(60_001)

    with pytest.raises(BrokerNotAvailableError, match=r"task 0_0: .*no leader"):
        _ask_in_vain(pending, clock, 1)


def test_the_time_in_which_one_restores_without_a_record_does_not_count() -> None:
    """As where an open transaction is waited for, between two answers that came late."""
    clock = ManualClock()
    pending = _pending(clock)
    _ask_in_vain(pending, clock, 1)
    clock.advance_ms(40_000)
    pending.began(FIRST)
    pending.restores(FIRST)
    clock.advance_ms(600_000)
    _ask_in_vain(pending, clock, 1)
    clock.advance_ms(19_000)
    _ask_in_vain(pending, clock, 1)
    clock.advance_ms(2_000)

    with pytest.raises(BrokerNotAvailableError, match=r"60000 ms \(task.timeout.ms\)"):
        _ask_in_vain(pending, clock, 1)
