"""Whether a thread that was fenced by its own identity may join its group again."""

from __future__ import annotations

from pystreams.errors import FatalStreamsError, IdentityTakenError, TaskMigratedError
from pystreams.kernel.clock import Clock

_SOON_MS = 60_000
"""Two processes of one identity fence each other at their next heartbeats, or commits."""

_TIMES = 10
"""A broker that stood still for some seconds answers several late requests of one member."""


class IdentityGuard:
    """Ends one of two processes that have one identity; of the stream thread.

    A request to join may reach the broker after that of its sender's successor, and fences that
    one: the last request of a process that was killed; or this thread's own, when the broker stood
    still until the session had ended here, and the thread has asked again meanwhile. So it joins
    again. When that happens for the tenth time, none later than a minute after the one before,
    another process lives, and it gives up.

    Differs from Kafka, where the first time is fatal (`FencedInstanceIdException`).

    Args:
        clock: Tells how long ago the time before was.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._times = 0
        self._last_ms = 0.0

    def check(self, error: TaskMigratedError) -> None:
        """Return when the thread may join again.

        Raises:
            FatalStreamsError: The identity was taken ten times, one soon after the other.
        """
        if not isinstance(error, IdentityTakenError):
            return
        now_ms = self._clock.monotonic_ms()
        self._times = self._times + 1 if now_ms - self._last_ms < _SOON_MS else 1
        self._last_ms = now_ms
        if self._times == _TIMES:
            raise FatalStreamsError(str(error)) from error
