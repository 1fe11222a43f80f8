"""How long a stream thread has waited for its share of the group's partitions."""

from __future__ import annotations

from pystreams.errors import TaskMigratedError
from pystreams.kernel.clock import Clock
from pystreams.kernel.loggers import get_logger
from pystreams.runtime.settings import MembershipSettings

_MARGIN_MS = 15_000

_log = get_logger("pystreams.thread")


class WaitingForPartitions:
    """From when a thread asks for its share, or this object is made, until it has one.

    librdkafka drops the brokers that its cluster has put out for a moment, and may then wait for
    a group coordinator it has dropped, for ever. Only a new client finds the next one. To join once
    more harms nobody: a static member is the same one to the group.

    So a thread asks anew: one that has lost its partitions, which has nothing else to lose, when
    the sessions of members that died with it have ended; one that has given its tasks up for a
    moment, when also a member that processes for long must have joined. That one says meanwhile
    that it waits.

    Owned by the thread.

    Args:
        thread: The thread's name, for the log.
        clock: Tells how long it lasts.
        settings: The thread's. Only the classic protocol tells of every share: KIP-848 does not of
            one that is empty, or has only become smaller. It is not watched: a thread that hears
            nothing for a session and 15 s has an empty share.
    """

    def __init__(self, thread: str, clock: Clock, settings: MembershipSettings) -> None:
        self._thread = thread
        self._clock = clock
        self._watched = settings.static
        self._after_loss_ms = settings.session_timeout_ms + _MARGIN_MS
        self._after_revocation_ms = settings.max_poll_interval_ms + _MARGIN_MS
        self._limit_ms = self._after_loss_ms
        self._since_ms: float | None = clock.monotonic_ms()
        self._told = False

    @property
    def lasts(self) -> bool:
        """Whether the thread has no share now; any thread may ask."""
        since_ms = self._since_ms
        if since_ms is None:
            return False
        return self._watched or self._clock.monotonic_ms() - since_ms < self._after_loss_ms

    def begins(self) -> None:
        """Note that the thread asks for a share, and has lost what it had."""
        self._begin(self._after_loss_ms)

    def begins_by_revocation(self) -> None:
        """Note that it has given its partitions up; where this is watched, a share follows."""
        if self._watched:
            self._begin(self._after_revocation_ms)

    def ends(self) -> None:
        """Note that it has got one, be it empty."""
        self._since_ms = None

    def check(self) -> None:
        """Return when the thread need not ask anew.

        Raises:
            TaskMigratedError: It has waited too long.
        """
        if self._since_ms is None or not self._watched:
            return
        waited_ms = self._clock.monotonic_ms() - self._since_ms
        if waited_ms >= self._limit_ms:
            raise TaskMigratedError(f"the group has not answered for {waited_ms / 1000:.0f} s")
        if waited_ms >= self._after_loss_ms and not self._told:
            self._told = True
            _log.warning(
                "waiting for a share of the partitions",
                thread=self._thread,
                joins_again_in_s=round((self._limit_ms - waited_ms) / 1000),
            )

    def _begin(self, limit_ms: int) -> None:
        self._limit_ms = limit_ms
        self._told = False
        self._since_ms = self._clock.monotonic_ms()
