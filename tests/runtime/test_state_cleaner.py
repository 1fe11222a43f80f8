"""State of tasks that moved away is removed when its time has come, and never under a holder."""

from __future__ import annotations

import errno
import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from pystreams import TaskId
from pystreams.runtime.adapters.state_directory import StateDirectory
from pystreams.runtime.maintenance.state_cleaner import StateCleaner
from pystreams.testing.simulation.clock import ManualClock

DELAY_MS = 600_000
MINUTE_MS = 60_000
HERE, AWAY, LATER = TaskId(0, 0), TaskId(0, 1), TaskId(0, 2)
MOVED = "removed the state of a task that moved away"
OLD = "removed state that was not used for too long"


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[StateDirectory]:
    """A state directory that holds the task 0_0."""
    directory = StateDirectory(tmp_path, "app")
    (directory.lock_task(HERE) / "state").write_text("state")
    yield directory
    directory.close()


@pytest.fixture
def clock() -> ManualClock:
    """A clock whose start is now: files get the machine's time."""
    return ManualClock(time.time_ns() // 1_000_000)


def leave(directory: StateDirectory, task_id: TaskId, used_ms: int) -> Path:
    """Leave the directory of a task behind, last used at a time."""
    home = directory.lock_task(task_id)
    (home / "state").write_text("state")
    directory.unlock_task(task_id)
    age(home, used_ms)
    return home


def age(home: Path, used_ms: int) -> None:
    for path in (home / ".lock", home):
        os.utime(path, ns=(used_ms * 1_000_000, used_ms * 1_000_000))


def clean_after(cleaner: StateCleaner, clock: ManualClock, after_ms: int) -> None:
    clock.advance_ms(after_ms)
    cleaner.maybe_clean(running=True)


def test_directory_goes_when_the_delay_has_passed_since_its_task_left(
    directory: StateDirectory, clock: ManualClock
) -> None:
    cleaner = StateCleaner(directory, DELAY_MS, clock)
    clean_after(cleaner, clock, DELAY_MS)
    leave(directory, AWAY, clock.now_ms())
    leave(directory, LATER, clock.now_ms() + MINUTE_MS)

    with capture_logs() as logs:
        for _ in range(9):
            clean_after(cleaner, clock, MINUTE_MS)
        assert directory.task_ids() == [HERE, AWAY, LATER]
        clean_after(cleaner, clock, MINUTE_MS)
        assert directory.task_ids() == [HERE, LATER]
        clean_after(cleaner, clock, MINUTE_MS)
        assert directory.task_ids() == [HERE]

    told = [(line["task"], line["age_ms"]) for line in logs if line["event"] == MOVED]
    assert told == [("0_1", DELAY_MS), ("0_2", DELAY_MS)]


def test_nothing_goes_in_the_first_delay_after_the_start(
    directory: StateDirectory, clock: ManualClock
) -> None:
    """A restarted host finds its directories older than the delay, and gets its tasks back soon."""
    leave(directory, AWAY, clock.now_ms() - 10 * DELAY_MS)
    cleaner = StateCleaner(directory, DELAY_MS, clock)
    cleaner.clean_at_start(-1)
    clean_after(cleaner, clock, DELAY_MS - 1)
    assert directory.task_ids() == [HERE, AWAY]

    clean_after(cleaner, clock, MINUTE_MS)
    assert directory.task_ids() == [HERE]


def test_nothing_goes_while_tasks_restore(directory: StateDirectory, clock: ManualClock) -> None:
    leave(directory, AWAY, clock.now_ms())
    cleaner = StateCleaner(directory, DELAY_MS, clock)
    clock.advance_ms(2 * DELAY_MS)
    cleaner.maybe_clean(running=False)
    assert directory.task_ids() == [HERE, AWAY]

    clean_after(cleaner, clock, MINUTE_MS)
    assert directory.task_ids() == [HERE]


def test_held_directories_stay_however_old_they_look(
    directory: StateDirectory, clock: ManualClock
) -> None:
    elsewhere = StateDirectory(directory.directory.parent, "app")
    elsewhere.lock_task(AWAY)
    cleaner = StateCleaner(directory, DELAY_MS, clock)
    clock.advance_ms(2 * DELAY_MS)
    for task_id in (HERE, AWAY):
        age(directory.directory / str(task_id), 0)
    cleaner.clean_at_start(0)
    cleaner.maybe_clean(running=True)

    assert directory.task_ids() == [HERE, AWAY]
    assert (directory.directory / "0_0" / "state").exists()
    elsewhere.close()


def test_directory_of_a_killed_process_is_as_old_as_its_last_minute(
    directory: StateDirectory, clock: ManualClock
) -> None:
    """Its lock ends with it, and nothing else says how long it was in use."""
    age(directory.directory / "0_0", clock.now_ms() - 10 * DELAY_MS)
    clean_after(StateCleaner(directory, DELAY_MS, clock), clock, MINUTE_MS)
    directory.close()

    back = StateDirectory(directory.directory.parent, "app")
    StateCleaner(back, DELAY_MS, clock).clean_at_start(2 * MINUTE_MS)
    assert back.task_ids() == [HERE]
    back.close()


def test_too_old_directories_go_at_the_start(directory: StateDirectory, clock: ManualClock) -> None:
    leave(directory, AWAY, clock.now_ms() - 1000)
    leave(directory, LATER, clock.now_ms() - 999)
    with capture_logs() as logs:
        StateCleaner(directory, DELAY_MS, clock).clean_at_start(1000)

    assert directory.task_ids() == [HERE, LATER]
    assert [line["task"] for line in logs if line["event"] == OLD] == ["0_1"]


def test_a_short_delay_is_looked_for_as_often(
    directory: StateDirectory, clock: ManualClock
) -> None:
    assert StateCleaner(directory, 500, clock).interval_s == 0.5
    assert StateCleaner(directory, DELAY_MS, clock).interval_s == 60


def test_what_can_not_be_removed_is_told_once_and_goes_later(
    directory: StateDirectory, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that fails does not keep the others."""
    leave(directory, AWAY, clock.now_ms())
    leave(directory, LATER, clock.now_ms())
    cleaner = StateCleaner(directory, DELAY_MS, clock)
    rmtree = shutil.rmtree

    def refuse_one(path: Path) -> None:
        if path.name.startswith("0_1"):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        rmtree(path)

    with capture_logs() as logs, monkeypatch.context() as patch:
        patch.setattr(shutil, "rmtree", refuse_one)
        for _ in range(3):
            clean_after(cleaner, clock, DELAY_MS)
    assert directory.task_ids() == [HERE]
    [leftover] = directory.leftovers()
    warnings = [line for line in logs if line["log_level"] == "warning"]
    assert {line["event"] for line in warnings} == {"can't remove old state"}
    assert [line.get("task", line.get("directory")) for line in warnings] == ["0_1", leftover.name]
    assert all("give this user write access" in line["why"] for line in warnings)

    clean_after(cleaner, clock, MINUTE_MS)
    assert directory.leftovers() == []


def test_a_state_directory_that_is_gone_is_a_warning(
    directory: StateDirectory, clock: ManualClock
) -> None:
    cleaner = StateCleaner(directory, DELAY_MS, clock)
    shutil.rmtree(directory.directory)
    with capture_logs() as logs:
        clean_after(cleaner, clock, DELAY_MS)

    assert [line["log_level"] for line in logs] == ["warning"]
    assert str(directory.directory) in logs[0]["why"]
