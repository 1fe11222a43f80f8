"""`map_values_async`: calls of the user's async function, many at a time, results in order.

    record --> call begins --> ... --> answer --> next in order? --> forward, as the record it was

The step returns at once. What has been answered goes on at the end of a run, or between runs; a
commit waits for all of it, but no longer than the broker waits for the commit: calls that block
the event loop, or are more than may be in flight, end one after the other. When as many calls are
under way as there may be, the run ends and the task is given no more records until answers have
come.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Hashable, Iterator
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, Protocol

from pystreams.errors import ConfigError, ProcessingError
from pystreams.record import ConsumedMessage, Headers
from pystreams.topology.contracts.held_records import Call, CallLimits
from pystreams.topology.contracts.operator import NodeContext, Step

_GRACE_S = 10.0
"""How much longer than a call may take to wait for the event loop to say so (s)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MapValuesAsyncOperator:
    """Replaces each value by what an async mapper returns.

    Attributes:
        mapper: Called with (value), or with (key, value).
        with_key: Which of the two.
        max_in_flight: How many records of a task may wait for their answers.
        limits: How long a call may take.
        ordered: Whether results come in the order of the records; else those of a key do.
    """

    mapper: Callable[..., Awaitable[Any]]
    with_key: bool
    max_in_flight: int
    limits: CallLimits
    ordered: bool

    def attach(self, node: NodeContext) -> Step:
        """Return the step.

        Raises:
            ConfigError: A commit might have to wait longer for a call than the broker waits for us.
        """
        settings = node.task.settings
        longest_ms, key = settings.max_call_ms, settings.max_call_key
        if self.limits.longest_ms > longest_ms:
            raise ConfigError(
                f"{node.name}: a call may take {self.limits.longest_ms} ms with its retries, and a "
                f"commit waits for it, but {key} is {longest_ms} ms: set timeout_ms or retries of "
                f"map_values_async lower, or {key} higher"
            )
        calls = _CallsInFlight(self, node)
        node.task.hold_records(node.name, calls)
        return calls.step


@dataclass(slots=True, eq=False)
class _Waiting:
    """A record whose answer is awaited, or waits for its turn."""

    key: Any
    timestamp: int
    headers: Headers
    message: ConsumedMessage | None
    call: Call


class _Lines(Protocol):
    """Records in the order in which they may go on."""

    def __len__(self) -> int: ...
    def add(self, waiting: _Waiting) -> None: ...
    def ready(self) -> Iterator[_Waiting]: ...
    def clear(self) -> None: ...


class _OneLine:
    """All records in one order."""

    def __init__(self) -> None:
        self._line: deque[_Waiting] = deque()
        self.add, self.clear = self._line.append, self._line.clear

    def __len__(self) -> int:
        return len(self._line)

    def ready(self) -> Iterator[_Waiting]:
        """Take out and return what may go on."""
        line = self._line
        while line and line[0].call.done:
            yield line.popleft()


class _LineOfEachKey:
    """Records of one key in their order; keys of which that can't be told are one."""

    def __init__(self) -> None:
        self._lines: dict[Hashable, deque[_Waiting]] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, waiting: _Waiting) -> None:
        key = waiting.key
        # A key that was decoded twice may equal itself only: of a class that says nothing, or NaN.
        if _HASH_OF(type(key)) is object.__hash__ or key != key:  # noqa: PLR0124
            key = _NOT_COMPARED
        try:
            line = self._lines.setdefault(key, deque())
        except TypeError:
            line = self._lines.setdefault(_NOT_COMPARED, deque())
        line.append(waiting)
        self._count += 1

    def ready(self) -> Iterator[_Waiting]:
        """Take out and return what may go on."""
        for key, line in list(self._lines.items()):
            while line and line[0].call.done:
                self._count -= 1
                yield line.popleft()
            if not line:
                del self._lines[key]

    def clear(self) -> None:
        self._lines.clear()
        self._count = 0


_NOT_COMPARED = object()
_HASH_OF = attrgetter("__hash__")


class _CallsInFlight:
    """The calls of one operator in one task, and the records that wait for them."""

    retry_at_ms: int | None = None

    def __init__(self, operator: MapValuesAsyncOperator, node: NodeContext) -> None:
        self._operator = operator
        self._node = node
        self._present = node.task.record
        self._calls = node.task.async_calls
        self._lines: _Lines = _OneLine() if operator.ordered else _LineOfEachKey()
        # An operator above that makes many records of one may bring more than may be in flight.
        self._not_begun: deque[Call] = deque()

    def __len__(self) -> int:
        return len(self._lines)

    @property
    def full(self) -> bool:
        """See `HoldsRecords`."""
        return len(self._lines) >= self._operator.max_in_flight

    def step(self, key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        operator = self._operator
        call = Call(operator.mapper, (key, value) if operator.with_key else (value,))
        if self.full:
            self._not_begun.append(call)
        else:
            self._calls.begin(call, operator.limits)
        self._lines.add(_Waiting(key, timestamp, headers, self._present.message, call))
        if self.full:
            self._node.task.end_run()

    def go_on(self) -> None:
        """See `HoldsRecords`."""
        present, message = self._present, self._present.message
        forward, task = self._node.forward, self._node.task
        for waiting in self._lines.ready():
            present.message = waiting.message
            call = waiting.call
            if call.retries:
                task.called_again(self._node.name, call.error, call.retries)
            if call.error is not None:
                task.report_error(call.error, self._node.name)
            else:
                forward(waiting.key, call.result, waiting.timestamp, waiting.headers)
        present.message = message
        self._begin_more()

    def settle(self) -> None:
        """See `HoldsRecords`.

        Raises:
            ProcessingError: The event loop does not react, or calls take too long together.
        """
        self.go_on()
        longest_s = self._operator.limits.longest_ms / 1000 + _GRACE_S
        while self._lines:
            if not self._calls.wait(longest_s):
                raise self._stuck(longest_s)
            self.go_on()
            if self._lines and self._calls.waited_s * 1000 > self._node.task.settings.max_call_ms:
                raise self._too_slow()

    def discard(self) -> None:
        """See `HoldsRecords`."""
        self._lines.clear()
        self._not_begun.clear()

    def _begin_more(self) -> None:
        waiting = self._not_begun
        while waiting and len(self._lines) - len(waiting) < self._operator.max_in_flight:
            self._calls.begin(waiting.popleft(), self._operator.limits)

    def _stuck(self, waited_s: float) -> ProcessingError:
        task_id, name = self._node.task.task_id, self._node.name
        return ProcessingError(
            f"task {task_id}: no call of {name!r} ended within {waited_s:g} s, not even by its "
            "time-out: a call blocks the event loop that all calls share; await what it waits for, "
            "or let a thread do it (await asyncio.to_thread(...))",
            task_id=task_id,
            node=name,
        )

    def _too_slow(self) -> ProcessingError:
        task, name, settings = self._node.task, self._node.name, self._node.task.settings
        return ProcessingError(
            f"task {task.task_id}: a commit has waited {self._calls.waited_s:.1f} s for calls of "
            f"{name!r}, which came one after the other, {len(self._lines)} are left, and "
            f"{settings.max_call_key} is {settings.max_call_ms} ms: if they block the event loop, "
            "await what they wait for, or let a thread do it (await asyncio.to_thread(...)); else "
            f"set max_in_flight of map_values_async to what is answered in time, or "
            f"{settings.max_call_key} higher",
            task_id=task.task_id,
            node=name,
        )
