"""How long a stream thread has waited for its share of the group's partitions."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil

from pystreams.errors import TaskMigratedError
from pystreams.kernel.clock import Clock
from pystreams.kernel.loggers import get_logger
from pystreams.runtime.settings import MembershipSettings

_MARGIN_MS = 15_000
_TOLD_EVERY_MS = 60_000
_CURE_WAITING = (
    "nothing while they live: they answer soon, or no partition is left for this thread; a process "
    "that has died, or was stopped where its state directory stays, keeps its partitions for its "
    "successor until its session ends: start it again with that directory, or set "
    "consumer.session.timeout.ms lower"
)

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

    Attributes:
        for_whom: For which members it waits, in words; nothing before that is known. Any thread may
            read it.
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
        self.for_whom = ""
        self._session_s = ceil(settings.session_timeout_ms / 1000)
        self._told_for_whom_ms: float | None = None

    @property
    def has_told(self) -> bool:
        """Whether it was ever told for whom the thread waits."""
        return self._told_for_whom_ms is not None

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
        self.for_whom = ""

    def tell_for_whom(self, members: Sequence[str]) -> None:
        """Tell which members have what the thread waits for: the first time, and now and then."""
        if not members:
            return
        self.for_whom = (
            f"it waits for other members of the group, which answer soon if they live, or are out "
            f"when their sessions end, in {self._session_s} s at most: {'; '.join(members)}"
        )
        now_ms, last_ms = self._clock.monotonic_ms(), self._told_for_whom_ms
        if last_ms is not None and now_ms - last_ms < _TOLD_EVERY_MS:
            return
        self._told_for_whom_ms = now_ms
        _log.info(
            "waiting for other members of the group",
            thread=self._thread,
            members=members,
            at_most_s=self._session_s,
            cure=_CURE_WAITING,
        )

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
