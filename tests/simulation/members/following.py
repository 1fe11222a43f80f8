"""A follower: keeps the state of a task warm on a disk of its own, as a standby task will."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pystreams import TaskId
from pystreams.runtime.settings import task_settings
from pystreams.runtime.state.state_manager import ProcessorStateManager
from pystreams.runtime.tasks.restoring.restorer import Restorer
from pystreams.testing.simulation.calls import InlineCalls
from pystreams.testing.simulation.disk import SimulatedDirectories

if TYPE_CHECKING:
    from pystreams.testing.simulation import SimulatedProcess
    from tests.simulation.applications import Application

TASK = TaskId(0, 0)
_PATIENCE = 400


class Follower:
    """Follows the changelogs of one task for a process that has not started.

    Attributes:
        state: The state it keeps.
        restorer: What reads the changelogs.
    """

    def __init__(self, app: Application, process: SimulatedProcess, task_id: TaskId = TASK) -> None:
        plan = process.plan
        settings = task_settings(
            process._config,
            async_calls=InlineCalls,
            num_partitions=lambda topic: app.broker.partition_counts()[topic],
            build=process._build,
        )
        self.state = ProcessorStateManager(
            task_id, plan.stores_of(plan.subtopologies[0]), settings.stores
        )
        self._directories = SimulatedDirectories(process.disk, process._lifeline, "follower")
        self.state.open(self._directories.lock_task(task_id))
        self._clients = process.clients
        self.restorer = Restorer(
            lambda: self._clients.restore_consumer("follower"), self._clients.admin(), app.clock
        )
        self.restorer.follow(self.state, self.restorer.look(self.state.changelogs()))

    def poll(self) -> list[TaskId]:
        """Apply what has come."""
        return self.restorer.poll(0.0)

    def catch_up(self) -> None:
        """Follow until all that is there is applied."""
        for _ in range(_PATIENCE):
            self.poll()
            if not any(self.restorer.lags().values()):
                return
        raise AssertionError(f"it does not catch up: {self.restorer.lags()}")

    def applied_records(self) -> int:
        """Return how many records it has applied."""
        return self.state.restored_records

    def stop(self) -> None:
        """Stop following and close the stores; the process may start now."""
        self.restorer.forget(self.state)
        self.restorer.close()
        self.state.close()
        self._directories.unlock_task(self.state.task_id)
