"""Fetches that have no answers, while all other requests have: what waits is told all the same."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest

from pystreams.errors import RetriableClientError
from pystreams.runtime.application.watchdog import TroubleKind, Watchdog
from tests.simulation.applications import Application, tasks_of
from tests.variants import first_of

if TYPE_CHECKING:
    from pathlib import Path

    from pystreams.runtime.loop.stream_thread import StreamThread
    from pystreams.testing.simulation import SimulatedProcess

pytestmark = pytest.mark.simulation

STEP_MS = 500
GUARANTEES = first_of("exactly_once_v2", "at_least_once", "exactly_once")


def fetch_in_vain(thread: StreamThread) -> None:
    consumer: Any = thread._consumer
    consumer.fetch_in_vain()


def run_for(app: Application, process: SimulatedProcess, seconds: int) -> None:
    for _ in range(seconds * 1000 // STEP_MS):
        app.clock.advance_ms(STEP_MS)
        process.step()


@pytest.mark.parametrize("guarantee", GUARANTEES)
def test_records_that_wait_are_lag_and_their_task_makes_no_progress(
    guarantee: str, tmp_path: Path
) -> None:
    app = Application(tmp_path, guarantee, partitions=2)
    process = app.process()
    app.feed("a", "b")
    process.start()
    app.run_until_processed(process)
    [thread] = process.threads
    fetch_in_vain(thread)
    app.feed("a", "a", "a")
    watchdog = Watchdog(app.clock, threading.Event())

    run_for(app, process, 31)
    watchdog.look([thread.metadata()])
    assert thread.statistics().lag_records == 3
    assert not watchdog.troubles

    run_for(app, process, 61)
    watchdog.look([thread.metadata()])
    [trouble] = watchdog.troubles
    assert trouble.kind is TroubleKind.STALLED_TASK
    assert "3 records wait" in trouble.text
    assert "does not answer fetches" in trouble.text


def test_they_are_lag_from_the_start_where_no_fetch_was_ever_answered(tmp_path: Path) -> None:
    app = Application(tmp_path)
    process = app.process()
    app.feed("a", "b")
    process.start()
    fetch_in_vain(process.threads[0])
    while not tasks_of(process):
        process.step()

    run_for(app, process, 31)
    assert process.threads[0].statistics().lag_records == 2


def test_question_without_an_answer_is_asked_again(tmp_path: Path) -> None:
    app = Application(tmp_path)
    process = app.process()
    app.feed("a")
    process.start()
    app.run_until_processed(process)
    app.faults.fail_next("offset_ranges", RetriableClientError("no answer in time"))
    run_for(app, process, 31)
    app.feed("a")
    app.run_until_processed(process)
    fetch_in_vain(process.threads[0])
    app.feed("a")

    run_for(app, process, 31)
    assert process.threads[0].statistics().lag_records == 1
