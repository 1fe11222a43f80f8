"""Whether a thread that was fenced by its own identity may join its group again."""

from __future__ import annotations

from pystreams.clock import Clock
from pystreams.errors import FatalStreamsError, IdentityTakenError, TaskMigratedError

_SOON_MS = 60_000
"""Longer than a session: two processes of one identity fence each other within seconds."""


class IdentityGuard:
    """Ends one of two processes that have one identity; of the stream thread.

    A request of a process that was killed may reach the broker after its successor has joined, and
    fences that one once. So the first time the thread joins again. A second time soon after it is
    another process that lives, and the thread gives up.

    Differs from Kafka, where the first time is fatal (`FencedInstanceIdException`).

    Args:
        clock: Tells how long ago the last time was.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._taken_ms: float | None = None

    def check(self, error: TaskMigratedError) -> None:
        """Return when the thread may join again.

        Raises:
            FatalStreamsError: The identity was taken twice within a minute.
        """
        if not isinstance(error, IdentityTakenError):
            return
        now_ms, before_ms = self._clock.monotonic_ms(), self._taken_ms
        self._taken_ms = now_ms
        if before_ms is not None and now_ms - before_ms < _SOON_MS:
            raise FatalStreamsError(str(error)) from error
