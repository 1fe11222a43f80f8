"""Processes that keep each other's tasks warm, and how they are driven."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.simulation.applications import Application

if TYPE_CHECKING:
    from pathlib import Path

    from pystreams.testing.simulation import SimulatedProcess

LOOK_MS = 6_500
"""In this time everybody looks at the group."""
PATIENCE = 600


def keys(count: int) -> list[str]:
    return [f"key-{number}" for number in range(count)]


def standbys(process: SimulatedProcess) -> list[str]:
    """Return the ids of the tasks that a process keeps warm."""
    return [str(task) for thread in process.threads for task in thread._manager.standbys.kept]


def restored(process: SimulatedProcess) -> int:
    """Return how many records the tasks of a process had to restore, without its standbys."""
    return sum(thread._restorer.progress().restored_records for thread in process.threads)


def application(
    root: Path, guarantee: str = "exactly_once", *, partitions: int = 4, **config: Any
) -> Application:
    keys = {"num_standby_replicas": 1} | config
    return Application(root, guarantee, partitions=partitions, **keys)


def step(*processes: SimulatedProcess, times: int = 1) -> None:
    for _ in range(times):
        for process in processes:
            for index in range(len(process.threads)):
                process.step(index)


def wait(app: Application, *processes: SimulatedProcess, ms: int) -> None:
    """Let time go by for members that poll, so that they stay in the group."""
    for _ in range(ms // 100):
        app.clock.advance_ms(100)
        step(*processes)


def settle(app: Application, *processes: SimulatedProcess) -> None:
    """Process all that is there, look at the group, and keep warm what is to be."""
    app.run_until_processed(*processes)
    app.broker.settle()
    for _ in range(20):
        app.clock.advance_ms(LOOK_MS / 20)
        step(*processes)
    step(*processes, times=40)


def caught_up(app: Application, *processes: SimulatedProcess) -> None:
    for _ in range(PATIENCE):
        step(*processes)
        lags = [
            lag
            for process in processes
            for thread in process.threads
            for lag in thread._restorer.lags().values()
        ]
        if not any(lags):
            return
    raise AssertionError(lags)
