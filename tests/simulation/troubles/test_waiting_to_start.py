"""Tasks that can't start: the broker does not tell, or refuses for now, what they have to know."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from pystreams.errors import BrokerNotAvailableError, RetriableClientError
from pystreams.testing.simulation.faults import NO_FAULTS
from tests.simulation.applications import CHANGELOG, Application, running_tasks, stored_counts

if TYPE_CHECKING:
    from pathlib import Path

    from pystreams.testing.simulation import SimulatedProcess

pytestmark = pytest.mark.simulation

TIMEOUT_MS = 20_000
REFUSED = RetriableClientError("the coordinator is loading")
STILL_WAITS = rf"task 0_0: .* for {TIMEOUT_MS} ms \(task\.timeout\.ms\).*coordinator is loading"


def _fail_for_ever(app: Application, call: str) -> None:
    for _ in range(10_000):
        app.faults.fail_next(call, REFUSED)


def _step_until_it_ends(app: Application, process: SimulatedProcess) -> None:
    """Step on, and check that the thread ends as its task waits in vain."""
    with pytest.raises(BrokerNotAvailableError, match=STILL_WAITS):
        _step_for(app, 10 * TIMEOUT_MS, process)


def _step_for(app: Application, ms: float, process: SimulatedProcess) -> None:
    until_ms = app.clock.monotonic_ms() + ms
    while app.clock.monotonic_ms() < until_ms:
        process.step()
        app.clock.advance_ms(10)


def _with_a_changelog(tmp_path: Path, guarantee: str = "exactly_once_v2") -> Application:
    """Return an application whose state is in its changelog alone."""
    app = Application(tmp_path, guarantee, task_timeout_ms=TIMEOUT_MS)
    first = app.process("first")
    first.start()
    app.feed(*"aab")
    app.run_until_processed(first)
    first.stop(leave_group=True)
    return app


@pytest.mark.parametrize("call", ["committed", "offset_ranges", "topic_ids", "start_at"])
def test_a_task_that_never_starts_ends_its_thread_after_the_task_timeout_with_the_cause(
    tmp_path: Path, call: str
) -> None:
    app = Application(tmp_path, "at_least_once", task_timeout_ms=TIMEOUT_MS)
    process = app.process()
    process.start()
    _fail_for_ever(app, call)
    began_ms = app.clock.monotonic_ms()

    with pytest.raises(BrokerNotAvailableError, match=STILL_WAITS) as raised:
        _step_for(app, 10 * TIMEOUT_MS, process)

    assert raised.value.__cause__ is REFUSED
    assert TIMEOUT_MS < app.clock.monotonic_ms() - began_ms < 2 * TIMEOUT_MS


def test_a_producer_that_never_gets_its_epoch_ends_its_thread_after_the_task_timeout(
    tmp_path: Path,
) -> None:
    app = Application(tmp_path, "exactly_once_v2", task_timeout_ms=TIMEOUT_MS)
    process = app.process()
    _fail_for_ever(app, "init_transactions")
    process.start()

    _step_until_it_ends(app, process)


def test_a_task_that_goes_back_to_its_last_commit_and_never_starts_again_ends_its_thread(
    tmp_path: Path,
) -> None:
    app = Application(tmp_path, "exactly_once_v2", task_timeout_ms=TIMEOUT_MS)
    process = app.process()
    process.start()
    app.feed("a")
    app.run_until_processed(process)
    app.faults.fail_next("flush", REFUSED)
    _fail_for_ever(app, "committed")
    app.feed("a")

    _step_until_it_ends(app, process)


def test_a_task_that_only_finds_markers_in_its_changelog_makes_no_progress_by_that(
    tmp_path: Path,
) -> None:
    """Its restore comes to the end each time, and begins again when the task can't start."""
    app = Application(tmp_path, "exactly_once_v2", task_timeout_ms=TIMEOUT_MS)
    process = app.process()
    process.start()
    app.feed("a")
    app.run_until_processed(process)
    process.stop()
    process.start()
    _fail_for_ever(app, "start_at")

    _step_until_it_ends(app, process)
    assert not process.restored_records()


def test_the_time_begins_anew_with_a_restored_record(tmp_path: Path) -> None:
    app = _with_a_changelog(tmp_path)
    process = app.process("second")
    process.start()
    _fail_for_ever(app, "committed")
    _step_for(app, 0.8 * TIMEOUT_MS, process)
    app.faults.forget_scripted("committed")
    _fail_for_ever(app, "start_at")
    _step_for(app, 0.8 * TIMEOUT_MS, process)
    assert process.restored_records() == 3
    app.faults.forget_scripted("start_at")
    app.feed("a")
    app.run_until_processed(process)

    assert stored_counts(process) == {"a": 3, "b": 1}


def test_a_task_that_starts_between_two_troubles_waits_for_the_whole_time_in_each(
    tmp_path: Path,
) -> None:
    app = Application(tmp_path, "exactly_once_v2", task_timeout_ms=TIMEOUT_MS)
    process = app.process()
    process.start()
    for _ in range(3):
        _fail_for_ever(app, "committed")
        _step_for(app, 0.8 * TIMEOUT_MS, process)
        assert not running_tasks(process)
        app.faults.forget_scripted("committed")
        app.feed("a")
        app.run_until_processed(process)
        app.faults.fail_next("flush", REFUSED)
        app.feed("a")
        while running_tasks(process):
            process.step()

    app.run_until_processed(process)
    assert app.outputs() == [("a", count) for count in range(1, 7)]


def test_a_restore_whose_changelog_was_cut_off_and_is_not_described_ends_its_thread(
    tmp_path: Path,
) -> None:
    app = Application(tmp_path, "exactly_once_v2", task_timeout_ms=TIMEOUT_MS)
    first, second = app.process("first"), app.process("second")
    first.start()
    app.feed(*(f"key-{number}" for number in range(40)))
    app.run_until_processed(first)
    first.stop(leave_group=True)
    app.faults.rates = replace(NO_FAULTS, short_poll=1)
    second.start()
    while not second.restored_records():
        second.step()
    app.broker.log(CHANGELOG).delete_before(35)
    _fail_for_ever(app, "offset_ranges")

    with pytest.raises(BrokerNotAvailableError, match=STILL_WAITS):
        _step_for(app, 10 * TIMEOUT_MS, second)
