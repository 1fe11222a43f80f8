"""A coordinator of transactions that gives no answer holds up neither a stop nor other tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from structlog.testing import capture_logs

from pystreams.errors import FatalStreamsError, RetriableClientError
from pystreams.testing.simulation import InlineExecutor
from tests.simulation.applications import CHANGELOG, PATIENCE, Application, running_tasks
from tests.variants import first_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Future
    from pathlib import Path

    from pystreams.testing.simulation import ManualClock, SimulatedProcess

pytestmark = pytest.mark.simulation

STOP_MS = 25_000
"""How long a stop may take, as `--stop-timeout` has it."""
HOUR_MS = 3_600_000
MANY = 40


eos = pytest.mark.parametrize("guarantee", first_of("exactly_once_v2", "exactly_once"))


def with_open_transactions(app: Application, process: SimulatedProcess, tasks: int = 1) -> None:
    """Let each task of a process that just started have sent something that is not committed."""
    while len(running_tasks(process)) < tasks:
        process.step()
    app.feed(*(f"key-{number}" for number in range(20 * tasks)))
    [thread] = process.threads
    while sum(task.needs_commit() for task in thread.tasks.values()) < tasks:
        process.step()


def started_with_open_transactions(app: Application, tasks: int = 1) -> SimulatedProcess:
    process = app.process()
    process.start()
    with_open_transactions(app, process, tasks)
    return process


def stop_at(app: Application, process: SimulatedProcess, call: str) -> list[float]:
    """Let the process be told to stop while a call of a client waits; when, stands in the list."""
    stopped_ms: list[float] = []

    def stop() -> None:
        process.threads[0].stop()
        stopped_ms.append(app.clock.monotonic_ms())

    process.stand_still(call, stop)
    return stopped_ms


def check_what_comes_after(app: Application, process: SimulatedProcess, records: int = 20) -> None:
    """What was left open is ended by the next start, and each record is counted once."""
    again = app.process(config={"commit.interval.ms": 100}, disk=process.disk)
    again.start()
    app.run_until_processed(again)
    again.stop()
    app.broker.settle()
    assert sorted(app.outputs()) == sorted((f"key-{number}", 1) for number in range(records))


def left_open(logs: list[Any]) -> list[Any]:
    return [line for line in logs if line["event"].startswith("a transaction is left open")]


@eos
@pytest.mark.parametrize("transactions_only", [True, False])
def test_a_stop_behind_a_silent_coordinator_is_in_time_and_loses_nothing(
    guarantee: str, transactions_only: bool, tmp_path: Path
) -> None:
    app = Application(tmp_path, guarantee, commit_interval_ms=2000)
    process = started_with_open_transactions(app)
    app.broker.go_away(HOUR_MS, transactions_only=transactions_only)
    before_ms = app.clock.monotonic_ms()
    with capture_logs() as logs:
        process.stop()

    assert app.clock.monotonic_ms() - before_ms < STOP_MS
    assert len(left_open(logs)) == 1
    app.clock.advance_ms(HOUR_MS)
    check_what_comes_after(app, process)


@pytest.mark.parametrize("transactions_only", [True, False])
def test_a_stop_with_many_tasks_takes_no_longer(transactions_only: bool, tmp_path: Path) -> None:
    """Each has a producer of its own, with a transaction that nobody ends."""
    app = Application(tmp_path, commit_interval_ms=2000, partitions=MANY)
    process = started_with_open_transactions(app, tasks=MANY)
    app.broker.go_away(HOUR_MS, transactions_only=transactions_only)
    before_ms = app.clock.monotonic_ms()
    with capture_logs() as logs:
        process.stop()

    assert app.clock.monotonic_ms() - before_ms < STOP_MS
    assert len(left_open(logs)) == MANY
    app.clock.advance_ms(HOUR_MS)
    check_what_comes_after(app, process, records=20 * MANY)


@eos
def test_a_stop_that_comes_while_an_abort_waits_is_in_time_and_loses_nothing(
    guarantee: str, tmp_path: Path
) -> None:
    app = Application(tmp_path, guarantee, commit_interval_ms=2000)
    process = started_with_open_transactions(app)
    app.broker.go_away(HOUR_MS)
    stopped_ms = stop_at(app, process, "abort_transaction")
    with capture_logs() as logs:
        while not stopped_ms:
            process.step()
        process.stop()

    assert app.clock.monotonic_ms() - stopped_ms[0] < STOP_MS
    assert len(left_open(logs)) == 1
    app.clock.advance_ms(HOUR_MS)
    check_what_comes_after(app, process)


@eos
def test_a_stop_that_comes_while_a_commit_waits_is_in_time_and_loses_nothing(
    guarantee: str, tmp_path: Path
) -> None:
    app = Application(tmp_path, guarantee, commit_interval_ms=2000)
    process = started_with_open_transactions(app)
    app.broker.go_away(HOUR_MS, transactions_only=True)
    stopped_ms = stop_at(app, process, "commit_transaction")
    while not stopped_ms:
        process.step()
    process.stop()

    assert app.clock.monotonic_ms() - stopped_ms[0] < STOP_MS
    assert process.threads == []
    app.clock.advance_ms(HOUR_MS)
    check_what_comes_after(app, process)


@eos
def test_a_stop_that_comes_long_before_the_last_commit_does_not_lose_it(
    guarantee: str, tmp_path: Path
) -> None:
    """A slow function has taken the time."""
    app = Application(tmp_path, guarantee, commit_interval_ms=9000)
    process = started_with_open_transactions(app)
    process.threads[0].stop()
    app.clock.advance_ms(9500)
    app.broker.go_away(700, transactions_only=True)
    with capture_logs() as logs:
        process.stop()
    app.broker.settle()

    assert not left_open(logs)
    assert len(app.outputs()) == 20


@eos
def test_a_thread_that_an_error_ends_aborts_behind_a_coordinator_that_moves(
    guarantee: str, tmp_path: Path
) -> None:
    app = Application(tmp_path, guarantee, commit_interval_ms=9000)
    process = started_with_open_transactions(app)
    app.broker.go_away(12_000, transactions_only=True)
    [thread] = process.threads
    thread.error = FatalStreamsError("not this way")
    with capture_logs() as logs:
        thread.shut_down()

    assert not left_open(logs)


def test_an_error_that_ends_the_thread_is_told_though_another_commit_is_given_up(
    tmp_path: Path,
) -> None:
    app = Application(tmp_path, "exactly_once", partitions=2, commit_interval_ms=9000)
    process = started_with_open_transactions(app, tasks=2)
    [thread] = process.threads
    app.broker.go_away(HOUR_MS, transactions_only=True)
    app.faults.fail_next("flush", FatalStreamsError("topic 'out' does not take it"), after=1)
    with capture_logs() as logs:
        process.stop()

    assert "does not take it" in str(thread.error)
    assert [line["tasks"] for line in logs if line["event"] == "commit failed"] == ["0_0"]


class SideBySide(InlineExecutor):
    """Makes calls one after the other, and knows how much longer that took than side by side.

    Attributes:
        saved_ms: How much (ms).
    """

    def __init__(self, clock: ManualClock) -> None:
        self.saved_ms = 0.0
        self._clock = clock
        self._ended_ms = self._longest_ms = 0.0

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        began_ms = self._clock.monotonic_ms()
        if began_ms != self._ended_ms:  # Nobody has waited for those before.
            self._longest_ms = 0.0
        made = super().submit(fn, *args, **kwargs)
        self._ended_ms = self._clock.monotonic_ms()
        took_ms = self._ended_ms - began_ms
        self.saved_ms += min(took_ms, self._longest_ms)
        self._longest_ms = max(took_ms, self._longest_ms)
        return made


def test_tasks_that_are_lost_wait_for_a_silent_coordinator_together(tmp_path: Path) -> None:
    """What each has open is not aborted, and its producer tries that for seconds."""
    app = Application(tmp_path, "exactly_once", partitions=8, commit_interval_ms=9000)
    process = app.process()
    side_by_side = SideBySide(app.clock)
    process.make_waiting_pool = lambda: side_by_side
    process.start()
    with_open_transactions(app, process, tasks=8)
    app.broker.go_away(HOUR_MS, transactions_only=True)
    app.clock.advance_ms(4000)
    app.broker.tick()  # Its session has ended.
    before_ms, saved_before_ms = app.clock.monotonic_ms(), side_by_side.saved_ms
    with capture_logs() as logs:
        while running_tasks(process):
            process.step()
    took_ms = app.clock.monotonic_ms() - before_ms - side_by_side.saved_ms + saved_before_ms

    assert len(left_open(logs)) == 8
    assert took_ms < 2 * 3000
    process.crash()
    app.clock.advance_ms(HOUR_MS)
    check_what_comes_after(app, process, records=160)


RELEASE_MS = 3000
"""How long a producer is given that is released with an open transaction."""
SILENT_MS = 600_000
"""Longer than a task may fail."""


def test_a_thread_that_loses_tasks_with_an_open_transaction_goes_on_with_another_producer(
    tmp_path: Path,
) -> None:
    app = Application(tmp_path, "exactly_once_v2", partitions=2, commit_interval_ms=9000)
    process = started_with_open_transactions(app, tasks=2)
    app.broker.go_away(SILENT_MS, transactions_only=True)
    app.clock.advance_ms(4000)
    app.broker.tick()  # Its session has ended.
    before_ms = app.clock.monotonic_ms()
    with capture_logs() as logs:
        while running_tasks(process):
            process.step()

    assert len(left_open(logs)) == 1
    assert app.clock.monotonic_ms() - before_ms < 2 * RELEASE_MS
    app.broker.go_away(0, transactions_only=True)
    app.run_until_processed(process)
    process.stop()
    app.broker.settle()
    assert sorted(app.outputs()) == sorted((f"key-{number}", 1) for number in range(40))


def test_a_thread_that_loses_all_while_none_of_its_tasks_runs_goes_on(tmp_path: Path) -> None:
    """A chunk of a store that is logged anew could be neither flushed nor aborted."""
    app = Application(tmp_path, "exactly_once_v2")
    process = app.process()
    process.start()
    app.feed("a")
    app.run_until_processed(process)
    process.stop()
    app.broker.settle()
    log = app.broker.log(CHANGELOG)
    app.broker.append(CHANGELOG.topic, 0, [(b"x", bytes(8), 0, ())] * 5)
    log.delete_before(log.high_watermark - 1)

    process = app.process(config={"changelog.loss.policy": "keep"}, disk=process.disk)
    process.start()
    app.faults.fail_next("flush", RetriableClientError("no answer"))
    silent_since_ms: list[float] = []

    def be_silent() -> None:
        app.broker.go_away(SILENT_MS, transactions_only=True)
        silent_since_ms.append(app.clock.monotonic_ms())

    process.stand_still(f"send {CHANGELOG.topic}", be_silent)
    with capture_logs() as logs:
        for _ in range(PATIENCE):
            process.step()
            if any(line["event"] == "partitions lost" for line in logs):
                break

    assert len(left_open(logs)) == 1
    assert app.clock.monotonic_ms() - silent_since_ms[0] < SILENT_MS / 10
    app.broker.go_away(0, transactions_only=True)
    app.feed("a")
    app.run_until_processed(process)
    process.stop()
    app.broker.settle()
    assert app.outputs() == [("a", 1), ("a", 2)]
