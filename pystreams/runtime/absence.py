"""How long a stream thread has waited for its share of the group's partitions."""

from __future__ import annotations

from pystreams.clock import Clock
from pystreams.errors import TaskMigratedError

_TOO_LONG_MS = 60_000
"""Longer than a group takes to share out what was lost, unless a member processes for minutes."""


class Absence:
    """From when a thread asks for its share, or this object is made, until it has one.

    librdkafka drops the brokers that its cluster has put out for a moment, and may then wait for
    a group coordinator it has dropped, for ever. Only a new client finds the next one. To join once
    more harms nobody: a static member is the same one to the group.

    Owned by the thread.

    Args:
        clock: Tells how long it lasts.
        watched: Whether `check` minds: the eager protocol tells of every share, KIP-848 not of one
            that is empty, or has only become smaller.
    """

    def __init__(self, clock: Clock, *, watched: bool) -> None:
        self._clock = clock
        self._watched = watched
        self._since_ms: float | None = clock.monotonic_ms()

    @property
    def lasts(self) -> bool:
        """Whether the thread has no share now; any thread may ask."""
        return self._since_ms is not None

    def begins(self) -> None:
        """Note that the thread asks for a share."""
        self._since_ms = self._clock.monotonic_ms()

    def begins_by_revocation(self) -> None:
        """Note that partitions were given up; where this is watched, a new share follows."""
        if self._watched:
            self.begins()

    def ends(self) -> None:
        """Note that it has got one, be it empty."""
        self._since_ms = None

    def check(self) -> None:
        """Return when the thread need not ask anew.

        Raises:
            TaskMigratedError: It has waited for a minute.
        """
        if self._since_ms is None or not self._watched:
            return
        if self._clock.monotonic_ms() - self._since_ms >= _TOO_LONG_MS:
            raise TaskMigratedError("the group has given no partitions for a minute")
