"""Records that an operator holds back: a batch, calls that are under way, one to be tried again.

A step returns, and what it was given goes on later: at the end of the run, when an answer has come,
or at its time. The task sees to it that nothing is committed before all of it has gone on.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Protocol


class HoldsRecords(Protocol):
    """What an operator holds back in one task. Belongs to the task's thread."""

    def __len__(self) -> int:
        """Return how many records are held."""

    @property
    def full(self) -> bool:
        """Whether it is to be given no more records before some have gone on."""

    @property
    def retry_at_ms(self) -> int | None:
        """When the first of them goes on (monotonic ms); None if it waits for no time."""

    def go_on(self) -> None:
        """Send on what need not wait any longer."""

    def settle(self) -> None:
        """Send on everything, waiting for it; but not for a time."""

    def discard(self) -> None:
        """Forget everything: the task goes back to its last commit, or ends."""


class HeldByTask(Protocol):
    """What all operators of one task hold back. Belongs to the task's thread.

    Attributes:
        retrying_since_ms: When the first call began of what is to be called again (monotonic ms):
            all of it has one time, as one commit waits for it. None: nothing failed.
    """

    retrying_since_ms: int | None

    @property
    def retry_at_ms(self) -> int | None:
        """When a record is next called again (monotonic ms); None without any."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallLimits:
    """How long an asynchronous call may take.

    Attributes:
        timeout_ms: How long one try may take (ms).
        retries: How often a call that failed is tried again.
        retry_backoff_ms: How long to wait before the first of these tries (ms); then twice as long
            each time.
    """

    timeout_ms: int
    retries: int
    retry_backoff_ms: int

    @property
    def longest_ms(self) -> int:
        """How long a call takes at most, with all its tries (ms)."""
        pauses_ms = self.retry_backoff_ms * ((1 << self.retries) - 1)
        return self.timeout_ms * (self.retries + 1) + pauses_ms


@dataclass(slots=True, eq=False)
class Call:
    """One call of an asynchronous function, and what has come of it.

    Written by who makes the call until `done`, read by the task's thread from then on.

    Attributes:
        done: Whether result or error are there.
        error: What its last try raised, or None.
        retries: How often it was tried again.
    """

    function: Callable[..., Awaitable[Any]]
    arguments: tuple[Any, ...]
    done: bool = False
    result: Any = None
    error: Exception | None = None
    retries: int = 0


class AsyncCalls(Protocol):
    """Makes the asynchronous calls of one task, beside its thread. Belongs to that thread.

    Attributes:
        waited_s: How long `wait` has waited since somebody has set this to 0 (s).
    """

    waited_s: float

    def begin(self, call: Call, limits: CallLimits) -> None:
        """Begin a call and return at once."""

    def wait(self, timeout_s: float) -> bool:
        """Wait until a call has ended since the last wait; return False if none did in time."""

    def cancel(self) -> None:
        """Give up all calls that have not ended."""
