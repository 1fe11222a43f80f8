"""Whether a thread that was fenced by its own identity may join its group again."""

from __future__ import annotations

from collections import deque

from pystreams.clock import Clock
from pystreams.errors import FatalStreamsError, IdentityTakenError, TaskMigratedError

_SOON_MS = 60_000
"""Longer than a session: two processes of one identity fence each other within seconds."""

_TIMES = 10
"""A broker that stood still for some seconds answers several late requests of one member."""


class IdentityGuard:
    """Ends one of two processes that have one identity; of the stream thread.

    A request to join may reach the broker after that of its sender's successor, and fences that
    one: the last request of a process that was killed; or this thread's own, when the broker stood
    still until the session had ended here, and the thread has asked again meanwhile. So it joins
    again. When that happens the tenth time within a minute, another process lives, and it gives up.

    Differs from Kafka, where the first time is fatal (`FencedInstanceIdException`).

    Args:
        clock: Tells how long ago the other times were.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._taken_ms: deque[float] = deque(maxlen=_TIMES)

    def check(self, error: TaskMigratedError) -> None:
        """Return when the thread may join again.

        Raises:
            FatalStreamsError: The identity was taken ten times within a minute.
        """
        if not isinstance(error, IdentityTakenError):
            return
        now_ms = self._clock.monotonic_ms()
        self._taken_ms.append(now_ms)
        if len(self._taken_ms) == _TIMES and now_ms - self._taken_ms[0] < _SOON_MS:
            raise FatalStreamsError(str(error)) from error
