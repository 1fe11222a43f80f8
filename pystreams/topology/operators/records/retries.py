"""An operator whose function is called again with a record it has failed with (`Retry`).

    record --> function --> forward
                 | raised what is retried
                 v
               line: the record, and those that come behind it --> due --> function --> ...

The step returns at once, and the run ends: the task takes nothing more while a record waits. It is
the task's business that the next call is made when it is due, and that no commit covers what waits.
As the commit waits for it, a record has a limited time from its first call on, in whichever node:
all of a task that waits shares it. No function is called again that would not be over by then, if
it takes as long as the longest call before. Then the handler is asked.

Any operator will do whose step calls the user's function once, reports what that raises, and
forwards afterwards: a call that failed has left nothing behind.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Any, cast

from pystreams.errors import ConfigError, StreamsError, TopologyError
from pystreams.record import ConsumedMessage, Headers
from pystreams.topology.contracts.operator import NodeContext, Operator, Step, TaskContext
from pystreams.topology.contracts.retry import Retry


@dataclass(frozen=True, slots=True)
class RetryingOperator:
    """An operator with a second chance.

    Attributes:
        retry: How often, and when.
    """

    operator: Operator
    retry: Retry

    def attach(self, node: NodeContext) -> Step:
        """Return the step.

        Raises:
            ConfigError: A record might wait longer than the broker waits for a commit.
        """
        longest_ms, settings = self.retry.longest_ms, node.task.settings
        if longest_ms > settings.max_retry_ms:
            key = settings.max_call_key
            raise ConfigError(
                f"{node.name}: a record may wait {longest_ms} ms to be retried, and a commit waits "
                f"for it, but {key} is {settings.max_call_ms} ms, which leaves it "
                f"{settings.max_retry_ms} ms: set max or backoff_ms of its Retry lower, or {key} "
                "higher"
            )
        records = _RetriedRecords(self, node)
        node.task.hold_records(node.name, records)
        return records.step


def retried(operator: Operator, retry: Retry | None) -> Operator:
    """Return an operator that tries again as it is said; the same one if nothing is.

    Raises:
        TopologyError: What is given says nothing of that.
    """
    if retry is None:
        return operator
    if not isinstance(retry, Retry):
        raise TopologyError(f"retry must be a Retry, as in Retry(on=TimeoutError), not {retry!r}")
    return RetryingOperator(operator, retry)


class _CaughtError:
    """A task as a node sees it that is tried again: what it reports is kept here at first."""

    def __init__(self, task: TaskContext) -> None:
        self._task = task
        self.error: Exception | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._task, name)

    def report_error(self, error: Exception, node: str) -> None:
        self.error = error

    def take(self) -> Exception | None:
        """Return and forget what was reported."""
        error, self.error = self.error, None
        return error


@dataclass(slots=True, eq=False)
class _Waiting:
    """A record that waits to be tried again, or for those before it."""

    key: Any
    value: Any
    timestamp: int
    headers: Headers
    message: ConsumedMessage | None
    attempts: int = 0
    longest_call_ms: int = 0
    error: Exception | None = None


class _RetriedRecords:
    """The records of one node of a task that wait, in their order."""

    def __init__(self, operator: RetryingOperator, node: NodeContext) -> None:
        self._retry = operator.retry
        self._name = node.name
        self._task = node.task
        self._present, self._held = node.task.record, node.task.held
        self._line: deque[_Waiting] = deque()
        self._caught = _CaughtError(node.task)
        within = NodeContext(
            node.name, cast("TaskContext", self._caught), node.children, node.stores
        )
        self._try = operator.operator.attach(within)
        self.retry_at_ms: int | None = None

    def __len__(self) -> int:
        return len(self._line)

    @property
    def full(self) -> bool:
        """See `HoldsRecords`."""
        return bool(self._line)

    def step(self, key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        if self._line:
            waiting = _Waiting(key, value, timestamp, headers, self._present.message)
            self._line.append(waiting)
            return
        began_ms, held = self._task.monotonic_ms(), self._held
        if first := held.retrying_since_ms is None:
            held.retrying_since_ms = began_ms
        try:
            self._try(key, value, timestamp, headers)
            if self._caught.error is not None:
                waiting = _Waiting(key, value, timestamp, headers, self._present.message)
                self._failed(waiting, began_ms)
        finally:
            if first and held.retry_at_ms is None:  # Neither here nor further down.
                held.retrying_since_ms = None

    def go_on(self) -> None:
        """See `HoldsRecords`."""
        line, present, message = self._line, self._present, self._present.message
        now_ms = self._task.monotonic_ms()  # Once: slow calls without a pause are to let others go.
        while line and (self.retry_at_ms is None or now_ms >= self.retry_at_ms):
            waiting = line.popleft()
            self.retry_at_ms = None
            present.message = waiting.message
            began_ms = self._task.monotonic_ms()
            if waiting.error is not None and not self._has_time(waiting, began_ms):
                self._give_up(waiting, waiting.error)  # The thread has come late.
                continue
            self._try(waiting.key, waiting.value, waiting.timestamp, waiting.headers)
            if self._caught.error is not None:
                self._failed(waiting, began_ms)
        present.message = message

    settle = go_on

    def discard(self) -> None:
        """See `HoldsRecords`."""
        self._line.clear()
        self.retry_at_ms = None

    def _failed(self, waiting: _Waiting, began_ms: int) -> None:
        """Let a record wait for its next try, or give it to the handler if there is none.

        Args:
            began_ms: When the call began (monotonic ms).
        """
        error, retry = self._caught.take(), self._retry
        assert error is not None, "something was raised"
        waiting.attempts += 1
        now_ms = self._task.monotonic_ms()
        waiting.longest_call_ms = max(waiting.longest_call_ms, now_ms - began_ms)
        retried = isinstance(error, retry.on) and not isinstance(error, StreamsError)
        if not retried or waiting.attempts > retry.max:
            self._task.report_error(error, self._name, waiting.attempts)
            return
        due_ms = now_ms + (retry.backoff_ms << (waiting.attempts - 1))
        if not self._has_time(waiting, due_ms):
            self._give_up(waiting, error)
            return
        self._task.called_again(self._name, error)
        waiting.error, self.retry_at_ms = error, due_ms
        self._line.appendleft(waiting)
        self._task.end_run()

    def _has_time(self, waiting: _Waiting, at_ms: int) -> bool:
        """Return whether a call that begins then (monotonic ms) will be over in time."""
        since_ms = self._held.retrying_since_ms
        assert since_ms is not None, "a call has failed"
        return at_ms + waiting.longest_call_ms <= since_ms + self._task.settings.max_retry_ms

    def _give_up(self, waiting: _Waiting, error: Exception) -> None:
        """Give a record to the handler that has calls left, and no time for them."""
        settings = self._task.settings
        within = f"{settings.max_retry_ms} ms of {settings.max_call_key}={settings.max_call_ms}"
        self._task.not_called_again(
            self._name, error, f"{waiting.attempts} of {self._retry.max + 1}", within
        )
        self._task.report_error(error, self._name, waiting.attempts)
        self._task.end_run()  # The next record is to find a commit behind this one.
