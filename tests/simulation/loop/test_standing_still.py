"""A thread that is stopped in the middle of a call, and goes on when others have its tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.simulation.applications import Application, running_tasks

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.simulation


@pytest.mark.parametrize("guarantee", ["exactly_once", "exactly_once_v2"])
def test_the_first_commit_of_a_group_while_a_thread_stood_still_does_not_stop_it(
    guarantee: str, tmp_path: Path
) -> None:
    """It asked for offsets when there were none, and restores what was committed since."""
    app = Application(tmp_path, guarantee)
    stopped, other = app.process("p0"), app.process("p1")
    app.feed("a", "b")

    def meanwhile() -> None:
        app.clock.advance_ms(4000)
        other.start()
        app.run_until_processed(other)

    stopped.start()
    stopped.stand_still("offset_ranges", meanwhile)
    while not other.running:
        stopped.step()
    app.feed("a")
    app.run_until_processed(stopped, other)
    assert running_tasks(stopped) + running_tasks(other) == ["0_0"]
    stopped.stop()
    other.stop()

    assert app.outputs() == [("a", 1), ("b", 1), ("a", 2)]
