"""Tasks that are to be brought one step further: when each is tried, and for how long in vain.

A task that waits for the broker is tried again after a pause. What does not go on for
`task.timeout.ms`, counted from the first try in vain, ends the thread, as it does in Kafka Streams;
whatever is restored meanwhile begins that time anew.
"""

from __future__ import annotations

from pystreams.errors import BrokerNotAvailableError, StreamsError, TaskLockedError
from pystreams.ids import TaskId
from pystreams.kernel.clock import Clock
from pystreams.kernel.loggers import get_logger

_log = get_logger("pystreams.tasks")

_RETRY_AFTER_MS = 200
_LONG_MS = 1_000
_LONGEST_PAUSE_MS = 30_000
_TOLD_EVERY_MS = 10_000
"""Of a task that waits for the broker."""


class PendingTasks:
    """The tasks of one thread that do not run yet; owned by it.

    Args:
        timeout_ms: How long a task may wait for the broker without any progress (ms).
    """

    def __init__(self, clock: Clock, timeout_ms: int) -> None:
        self._clock = clock
        self._timeout_ms = timeout_ms
        self._due_ms: dict[TaskId, float] = {}
        self._arriving: set[TaskId] = set()
        self._any_ran = False
        self._failing_since_ms: dict[TaskId, float] = {}
        self._restoring_since_ms: dict[TaskId, float] = {}
        self._told_ms: dict[TaskId, float] = {}

    def __bool__(self) -> bool:
        return bool(self._due_ms)

    def due(self) -> list[TaskId]:
        """Return the tasks that are to be tried now: those that were tried last come last."""
        now_ms = self._clock.monotonic_ms()
        return [task_id for task_id, at_ms in self._due_ms.items() if now_ms >= at_ms]

    def add(self, task_id: TaskId) -> None:
        """Let a task be tried at once."""
        self._due_ms[task_id] = 0.0

    def arrives(self, task_id: TaskId) -> None:
        """Let a task be tried at once that has come with a share of the partitions."""
        if self._any_ran:
            self._arriving.add(task_id)
        self.add(task_id)

    def arrived(self, task_id: TaskId) -> bool:
        """Return whether a task that starts has come since with a later share than the first."""
        later = task_id in self._arriving
        self._arriving.discard(task_id)
        self._any_ran = True
        return later

    def began(self, task_id: TaskId) -> None:
        """Note that a task waits for nobody at this moment: it restores, or runs."""
        self._due_ms.pop(task_id, None)

    def restores(self, task_id: TaskId) -> None:
        """Note that a task restores from now on: until it fails again, that is no failure.

        Its changelog may have no record for it for long, as where a transaction stands open there.
        """
        if task_id in self._failing_since_ms:
            self._restoring_since_ms[task_id] = self._clock.monotonic_ms()

    def went_on(self, task_id: TaskId) -> None:
        """Note that a task has made progress, or runs: what fails from now on is another trouble.

        Its place among the tasks to be tried stays as it is.
        """
        self._failing_since_ms.pop(task_id, None)
        self._restoring_since_ms.pop(task_id, None)
        self._told_ms.pop(task_id, None)

    def forget(self, task_id: TaskId) -> None:
        """Forget a task that is closed."""
        self._arriving.discard(task_id)
        self.began(task_id)
        self.went_on(task_id)

    def locked(self, task_id: TaskId, error: TaskLockedError) -> None:
        """Try a task again soon: somebody else has its directory."""
        if self._due_ms[task_id] == 0.0:
            _log.warning("task waits for its directory", task=str(task_id), why=str(error))
        self._due_ms[task_id] = self._clock.monotonic_ms() + _RETRY_AFTER_MS

    def failed(self, task_id: TaskId, error: StreamsError, asked_ms: float) -> bool:
        """Try a task again later, behind the others: the broker gave no answer.

        Args:
            asked_ms: When it was asked. Where that took seconds, the pause is about as long: for
                the tasks that run meanwhile.

        Returns:
            Whether that took long.

        Raises:
            BrokerNotAvailableError: It has been so for `task.timeout.ms`.
        """
        self._check(task_id, error)
        now_ms = self._clock.monotonic_ms()
        took_ms = now_ms - asked_ms
        pause_ms = min(max(took_ms - _LONG_MS, _RETRY_AFTER_MS), _LONGEST_PAUSE_MS)
        self._due_ms.pop(task_id, None)
        self._due_ms[task_id] = now_ms + pause_ms
        return took_ms >= _LONG_MS

    def heard(self, task_id: TaskId, error: StreamsError | None) -> None:
        """Note that a task has restored records, or why it can't for now.

        Raises:
            BrokerNotAvailableError: It could not for `task.timeout.ms`.
        """
        if error is None:
            self.went_on(task_id)
        else:
            self._check(task_id, error)

    def _check(self, task_id: TaskId, error: StreamsError) -> None:
        """Log what a task waits for, at DEBUG at once and every ten seconds; end what lasts."""
        now_ms = self._clock.monotonic_ms()
        since_ms = self._failing_since_ms.get(task_id, now_ms)
        since_ms += now_ms - self._restoring_since_ms.pop(task_id, now_ms)
        self._failing_since_ms[task_id] = since_ms
        if now_ms - since_ms > self._timeout_ms:
            message = (
                f"task {task_id}: it waits to start, and has come no further for "
                f"{self._timeout_ms} ms (task.timeout.ms); last error: {error}. See that brokers "
                "answer, and start again: it goes on from its last commit, and keeps what is "
                "restored. A higher task.timeout.ms lets it wait for longer"
            )
            raise BrokerNotAvailableError(message) from error
        told_ms = self._told_ms.get(task_id)
        if told_ms is None or now_ms - told_ms >= _TOLD_EVERY_MS:
            self._told_ms[task_id] = now_ms
            log = _log.debug if told_ms is None else _log.info
            log("task waits for the broker", task=str(task_id), why=str(error))
