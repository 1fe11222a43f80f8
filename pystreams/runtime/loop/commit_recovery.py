"""What becomes of tasks whose commit did not happen: tried again, or taken back to the last one."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from pystreams.errors import (
    RetriableClientError,
    TaskCorruptedError,
    TaskMigratedError,
    TransactionAbortableError,
    damage_in,
)
from pystreams.kernel.clock import Clock
from pystreams.kernel.loggers import get_logger
from pystreams.runtime.core.task import StreamTask
from pystreams.runtime.tasks.committer import CommitFailure
from pystreams.runtime.tasks.failing_tasks import FailingTasks
from pystreams.runtime.tasks.producers import StreamsProducer, TaskProducers
from pystreams.runtime.tasks.stop_order import StopOrder

_log = get_logger("pystreams.thread")

_RETRY_PAUSE_S = 0.1
_ABORTS_FOR_MS = 30_000
_RECOVERABLE = (RetriableClientError, TaskCorruptedError, TransactionAbortableError)


class CommitRecovery:
    """Handles the failures of one thread's commits.

    Args:
        failing: Knows how long tasks may fail.
        stop: Ends pauses, and the wait for a broker.
        revive: Takes tasks back to their last commit.
    """

    def __init__(
        self,
        producers: TaskProducers,
        failing: FailingTasks,
        stop: StopOrder,
        revive: Callable[[Collection[StreamTask]], None],
    ) -> None:
        self._producers = producers
        self._failing = failing
        self._stop = stop
        self._revive = revive

    def recover(self, failures: Collection[CommitFailure]) -> None:
        """Handle failures, and pause once for all, when none holds a transaction open any more.

        Raises:
            StreamsError: One of them ends the thread, or makes it join the group again.
        """
        _raise_what_ends(failures)
        pause_s = max(map(self._note, failures))
        sending: dict[StreamsProducer, list[StreamTask]] = {}
        for failure in failures:
            if not _is_repeated(failure):
                sending.setdefault(failure.unit.producer, []).extend(failure.unit.tasks)
        self._abort(sending)
        for tasks in sending.values():
            self._revive(tasks)
        self._stop.wait(pause_s)

    def abort_all(self, clock: Clock) -> None:
        """Abort what is open, for half a minute at most, or until there is an order to stop."""
        until_ms = clock.monotonic_ms() + _ABORTS_FOR_MS
        left = self._producers.abort(self._producers.all())
        while any(isinstance(error, RetriableClientError) for error in left.values()):
            if clock.monotonic_ms() >= until_ms or self._stop.wait(_RETRY_PAUSE_S):
                break
            left = self._producers.abort(left)

    def _abort(self, sending: Mapping[StreamsProducer, Collection[StreamTask]]) -> None:
        """Abort the transactions of tasks, waiting for the broker as long as they may fail.

        An order to stop ends the wait: what is not aborted then is left to the end of its producer.

        Args:
            sending: The tasks that each producer sends for.
        """
        failed = self._producers.abort(sending)
        while failed:
            for producer, error in failed.items():
                if not isinstance(error, RetriableClientError):
                    raise error
                self._failing.note(error, sending[producer])
            if self._stop.wait(_RETRY_PAUSE_S):
                return
            failed = self._producers.abort(failed)

    def _note(self, failure: CommitFailure) -> float:
        """Tell of a failure; return how long to wait before the next try (s)."""
        error, unit, tasks = failure.error, failure.unit, _tasks_of(failure)
        if _is_repeated(failure):
            # The others have only late records of another process to undo.
            failing = [task for task in unit.tasks if task.needs_commit()]
            pause_s = self._failing.note(error, failing)
            _log.warning("commit will be tried again", tasks=tasks, why=str(error))
            return max(pause_s, _RETRY_PAUSE_S)
        pause_s = self._failing.note(error, unit.tasks)
        if not unit.producer.transactional and damage_in(error):
            # It may have been found after the commit, which then holds.
            what = "a store is damaged, going on from the last commit"
        elif self._stop.is_given:
            what = "commit failed"
        else:
            failed = "transaction aborted" if unit.producer.transactional else "commit failed"
            what = f"{failed}, going on from the last commit"
        _log.warning(what, tasks=tasks, why=str(error))
        return pause_s


def _raise_what_ends(failures: Collection[CommitFailure]) -> None:
    """Raise the failure that can't be recovered from, if there is one; of several tell the others.

    An error that ends the thread comes before those with which it only joins the group again.
    """
    ending = [failure for failure in failures if not isinstance(failure.error, _RECOVERABLE)]
    ending.sort(key=lambda failure: isinstance(failure.error, TaskMigratedError))
    for other in ending[1:]:
        _log.warning("commit failed", tasks=_tasks_of(other), why=str(other.error))
    if ending:
        raise ending[0].error


def _tasks_of(failure: CommitFailure) -> str:
    return ", ".join(str(task.task_id) for task in failure.unit.tasks)


def _is_repeated(failure: CommitFailure) -> bool:
    """Return whether the same commit is tried again, as nothing of it has to be taken back."""
    retriable = isinstance(failure.error, RetriableClientError)
    return retriable and not failure.unit.producer.transactional
