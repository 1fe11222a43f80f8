"""Commits that fail one after the other: each task pauses for itself, the thread once for all."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pystreams.errors import TransactionAbortableError
from tests.simulation.applications import Application, running_tasks

if TYPE_CHECKING:
    from pathlib import Path

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
