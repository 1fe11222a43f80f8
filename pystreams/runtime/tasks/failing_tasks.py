"""Since when no commit of a task succeeds, how long that may go on, and how to wait meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping

from pystreams.errors import BrokerNotAvailableError, StreamsError
from pystreams.ids import TaskId, TopicPartition
from pystreams.kernel.clock import Clock
from pystreams.runtime.core.lifecycle import TaskState
from pystreams.runtime.core.task import StreamTask

_PART_OF_WAIT = 10
_LONGEST_PAUSE_S = 1.0


class FailingTasks:
    """The tasks of one thread whose commits fail for now.

    Args:
        timeout_ms: How long a task may fail (ms), `task.timeout.ms`.
    """

    def __init__(self, clock: Clock, timeout_ms: int) -> None:
        self._clock = clock
        self._timeout_ms = timeout_ms
        self._since_ms: dict[TaskId, float] = {}

    def keep(
        self,
        tasks: Mapping[TaskId, StreamTask],
        succeeded: Container[TaskId],
        known_lag: Callable[[TopicPartition], int | None],
    ) -> None:
        """Forget tasks that are gone, whose commit succeeded, or that have nothing to commit.

        A task that goes on from its last commit has nothing to commit at first either: it is one of
        these only when it has no input left that may fail again.

        Args:
            known_lag: The consumer's.
        """
        self._since_ms = {
            task_id: since_ms
            for task_id, since_ms in self._since_ms.items()
            if (task := tasks.get(task_id)) is not None
            and task_id not in succeeded
            and not _is_done(task, known_lag)
        }

    def note(self, error: StreamsError, tasks: Iterable[StreamTask]) -> float:
        """Remember that the commit of tasks failed.

        Returns:
            How long to wait before the next try (s), which costs the broker what the last one did:
            not at all at first, then a part of the time that they have failed for.

        Raises:
            BrokerNotAvailableError: None of a task has succeeded for longer than the timeout.
        """
        now = self._clock.monotonic_ms()
        failing_ms = 0.0
        for task in tasks:
            failing_ms = max(failing_ms, now - self._since_ms.setdefault(task.task_id, now))
            if failing_ms > self._timeout_ms:
                message = (
                    f"task {task.task_id}: no commit succeeded for {self._timeout_ms} ms "
                    f"(task.timeout.ms); last error: {error}. See that brokers answer, and start "
                    "again: it goes on from its last commit. A higher task.timeout.ms lets it "
                    "fail for longer"
                )
                raise BrokerNotAvailableError(message) from error
        return min(failing_ms / 1000 / _PART_OF_WAIT, _LONGEST_PAUSE_S)


def _is_done(task: StreamTask, known_lag: Callable[[TopicPartition], int | None]) -> bool:
    """Whether a task runs, and has processed and committed all there is."""
    if task.state is not TaskState.RUNNING or task.needs_commit() or task.buffered_records():
        return False
    return all(known_lag(partition) == 0 for partition in task.partitions)
