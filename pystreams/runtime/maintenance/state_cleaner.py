"""`StateCleaner`: state directories of tasks that live elsewhere now are removed.

A task's directory stays when the task moves away, since it may come back and then restores only
what it lacks. After `state.cleanup.delay.ms` it is removed. The age of a directory is the time
since a process last held it; the processes that share a state directory each note that for what
they hold, so that a killed one leaves the right age behind, too.
"""

from __future__ import annotations

from pystreams.errors import StateDirectoryError
from pystreams.ids import TaskId
from pystreams.kernel.clock import Clock
from pystreams.kernel.loggers import get_logger
from pystreams.runtime.adapters.state_directory import StateDirectory

_log = get_logger("pystreams.state")

_INTERVAL_MAX_MS = 60_000


class StateCleaner:
    """Removes what no task has used for long from the state directory of one client.

    Held directories stay, whoever holds them: those of running and of restoring tasks, of this
    process and of others. What can't be removed is told once, as a warning, and tried again.

    Differs from Kafka: it looks every minute rather than once a delay (when the delay is longer),
    so that a directory goes when its time has come and not up to a delay later.

    Args:
        delay_ms: `state.cleanup.delay.ms`: how long nobody must have used a directory (ms).
    """

    def __init__(self, directory: StateDirectory, delay_ms: int, clock: Clock) -> None:
        self._directory = directory
        self._delay_ms = delay_ms
        self._clock = clock
        self._interval_ms = min(delay_ms, _INTERVAL_MAX_MS)
        now_ms = clock.monotonic_ms()
        self._next_ms = now_ms + self._interval_ms
        self._remove_from_ms = now_ms + delay_ms
        self._told: set[str] = set()

    @property
    def interval_s(self) -> float:
        """How often `maybe_clean` wants to be called (s)."""
        return self._interval_ms / 1000

    def clean_at_start(self, max_age_ms: int) -> None:
        """Remove directories that were last used too long ago; before any task is made.

        Spec: KIP-1259. A changelog forgets that keys were deleted after its `delete.retention.ms`;
        a store that is older would keep them for ever.

        Args:
            max_age_ms: `state.cleanup.dir.max.age.ms`; below 0 all stay.
        """
        if max_age_ms >= 0:
            self._clean(max_age_ms, "removed state that was not used for too long")

    def maybe_clean(self, *, running: bool) -> None:
        """Note what is in use; remove directories of tasks that moved away. Once an interval.

        Args:
            running: Whether all tasks of this client run. While they don't, a directory may be
                about to be used. For the same reason nothing is removed in the first delay after
                the start, when other processes of the application may still be starting.
        """
        now_ms = self._clock.monotonic_ms()
        if now_ms < self._next_ms:
            return
        self._next_ms = now_ms + self._interval_ms
        try:
            self._directory.stamp_held()
        except StateDirectoryError as error:
            self._tell("times", "can't note that state directories are in use", error)
        if running and now_ms >= self._remove_from_ms:
            self._clean(self._delay_ms, "removed the state of a task that moved away")

    # ------------------------------------------------------------------ inside

    def _clean(self, older_than_ms: int, message: str) -> None:
        """Remove what nobody has used for so long, and what earlier removals have left."""
        try:
            task_ids, leftovers = self._directory.task_ids(), self._directory.leftovers()
        except StateDirectoryError as error:
            self._tell("list", "can't look for state to remove", error)
            return
        for leftover in leftovers:
            try:
                self._directory.discard(leftover)
            except StateDirectoryError as error:
                self._tell(leftover.name, "can't remove old state", error, directory=leftover.name)
        for task_id in task_ids:
            try:
                age_ms = self._remove_if_older(task_id, older_than_ms)
            except StateDirectoryError as error:
                self._tell(str(task_id), "can't remove old state", error, task=str(task_id))
                continue
            if age_ms is not None:
                _log.info(message, task=str(task_id), age_ms=age_ms)

    def _remove_if_older(self, task_id: TaskId, older_than_ms: int) -> int | None:
        """Return the age of a directory that was removed (ms), or None when it stays."""
        last_used_ms = self._directory.last_used_ms(task_id)
        if last_used_ms is None:  # Another process was faster.
            return None
        age_ms = self._clock.now_ms() - last_used_ms
        if age_ms < older_than_ms or not self._directory.remove(task_id):
            return None
        return age_ms

    def _tell(self, what: str, message: str, error: StateDirectoryError, **fields: str) -> None:
        """Warn, once about each thing."""
        if what not in self._told:
            self._told.add(what)
            _log.warning(message, why=str(error), **fields)
