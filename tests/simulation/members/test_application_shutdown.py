"""SHUTDOWN_APPLICATION: one process has all of its group end, and nobody else."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from tests.simulation.applications import Application, running_tasks

if TYPE_CHECKING:
    from pathlib import Path

    from pystreams.runtime.loop.membership.application_shutdown import ApplicationShutdown
    from pystreams.testing.simulation import SimulatedProcess

pytestmark = pytest.mark.simulation

each_protocol = pytest.mark.parametrize("incremental", [False, True])
PATIENCE = 2_000


class Group:
    """Three processes of one application, the first of which asks the others to end."""

    def __init__(self, root: Path, *, incremental: bool) -> None:
        self.app = Application(root, "at_least_once", partitions=6, incremental=incremental)
        self.failing, *self.others = (self.app.process(f"p{number}") for number in range(3))
        for process in (self.failing, *self.others):
            process.start()
        self.step_until(lambda: self.running_tasks() == 6, "all tasks")

    def running_tasks(self) -> int:
        processes = (self.failing, *self.others)
        return sum(len(running_tasks(process)) for process in processes)

    def step_until(
        self,
        condition: Callable[[], bool],
        what: str,
        request: ApplicationShutdown | None = None,
        started: SimulatedProcess | None = None,
    ) -> None:
        for _ in range(PATIENCE):
            if condition():
                return
            for process in (self.failing, *self.others, *([started] if started else ())):
                for index in range(len(process.threads)):
                    process.step(index)
                    if not process.running:
                        break
            if request is not None and request.step():
                request.close()
                request = None
        raise AssertionError("\n".join([what, *self.app.faults.trace[-40:]]))


@each_protocol
def test_all_processes_commit_and_end_with_an_error_that_names_who_asked(
    *, incremental: bool, tmp_path: Path
) -> None:
    group = Group(tmp_path, incremental=incremental)
    app = group.app
    request = group.failing.shut_down_application()
    app.feed("a", "b", "c", "a")

    group.step_until(
        lambda: not any(process.running for process in group.others),
        "the others have ended",
        request,
    )
    for process in group.others:
        assert "app-p0-StreamThread-1-ShutdownApplication" in str(process.told_to_end)
    assert [member for member in app.broker.group.members() if "Shutdown" not in member] == []


@each_protocol
def test_who_asks_leaves_when_the_others_have_and_a_restart_goes_on_without_a_loss(
    *, incremental: bool, tmp_path: Path
) -> None:
    group = Group(tmp_path, incremental=incremental)
    app = group.app
    app.feed("a", "b", "c", "a")
    request = group.failing.shut_down_application()
    group.step_until(lambda: app.broker.group.members() == [], "nobody in the group", request)

    app.feed("b", "d")
    for process in (group.failing, *group.others):
        process.start()
    app.run_until_processed(group.failing, *group.others)

    assert sorted(app.outputs()) == [("a", 1), ("a", 2), ("b", 1), ("b", 2), ("c", 1), ("d", 1)]
    assert [process.told_to_end for process in group.others] == [None, None]


@each_protocol
def test_one_that_starts_meanwhile_ends_too_and_holds_nobody_up(
    *, incremental: bool, tmp_path: Path
) -> None:
    group = Group(tmp_path, incremental=incremental)
    late = group.app.process("late")
    late.start()
    request = group.failing.shut_down_application()

    group.step_until(
        lambda: group.app.broker.group.members() == [], "nobody in the group", request, late
    )
    assert "SHUTDOWN_APPLICATION" in str(late.told_to_end)


@each_protocol
def test_a_request_whose_process_was_killed_ends_with_its_session(
    *, incremental: bool, tmp_path: Path
) -> None:
    group = Group(tmp_path, incremental=incremental)
    app = group.app
    request = group.failing.shut_down_application()
    group.step_until(
        lambda: any("Shutdown" in member for member in app.broker.group.members()),
        "the request in the group",
        request,
    )

    # From here nobody polls for it: it was killed.
    started = app.process("started")
    app.clock.advance_ms(3_500)
    app.broker.group.expire()
    started.start()
    app.feed("a")
    group.step_until(lambda: app.outputs() == [("a", 1)], "the first record", started=started)
    assert started.told_to_end is None
