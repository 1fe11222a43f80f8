"""When a process that is new to its group joins it.

With the classic protocol a process that the group does not know stops all the others until the last
of them has joined again: of one that has died, until its session has ended. So where a process was
killed, and another one starts in its place without its disk, all tasks would stand still for a
session, though only those of the dead one need to. The newcomer waits in their place:

    group empty, or sharing out -> join
    some commit, one is silent though its input grows -> wait till it is out, at most a session
    else, after a moment of looking -> join

While it waits, nobody else does. A process that finds its identity on its disk, or has one of the
user's, takes its own partitions back, and joins at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import ceil

from pystreams.errors import StreamsError
from pystreams.kernel.loggers import get_logger
from pystreams.runtime.cluster.group_description import GroupDescription, GroupMember
from pystreams.runtime.cluster.signs_of_life import SignsOfLife
from pystreams.runtime.tasks.thread_parts import ThreadParts

_log = get_logger("pystreams.thread")

_LOOK_EVERY_MS = 500
_COMMIT_TAKES_MS = 1000
_COMMITS_SELDOM_MS = 2000
"""With longer commit intervals it would take too long to tell who is alive."""


class Arrival:
    """The first join of one thread; later ones are not held up.

    Args:
        see: Told of each look.
    """

    def __init__(
        self, name: str, parts: ThreadParts, see: Callable[[GroupDescription], None]
    ) -> None:
        self._name, self._see = name, see
        self._parts, self._clock = parts, parts.clock
        settings = parts.settings
        self._looks = (
            parts.identity.newcomer
            and settings.membership.static
            and settings.commit_interval_ms <= _COMMITS_SELDOM_MS
        )
        patience_ms = settings.commit_interval_ms + _COMMIT_TAKES_MS
        self._signs = SignsOfLife(patience_ms)
        self._looking_ms = patience_ms + 3 * _LOOK_EVERY_MS
        self._join: Callable[[], None] | None = None
        self._began_ms = self._look_at_ms = 0.0
        self._waits_since_ms: float | None = None

    def join(self, join: Callable[[], None]) -> None:
        """Join the group by this function: at once, or from within `go_on`."""
        if not self._looks:
            self._join = None
            join()
            return
        self._looks = False
        self._join = join
        self._began_ms = self._look_at_ms = self._clock.monotonic_ms()
        self.go_on()

    def go_on(self) -> None:
        """Look at the group when it is time, and join when nothing is against it."""
        join, now_ms = self._join, self._clock.monotonic_ms()
        if join is None or now_ms < self._look_at_ms:
            return
        self._look_at_ms = now_ms + _LOOK_EVERY_MS
        if self._may_join(now_ms):
            self._join = None
            join()

    def _may_join(self, now_ms: float) -> bool:
        admin, application = self._parts.admin, self._parts.plan.application_id
        try:
            group = admin.describe_group(application).result()
            self._see(group)
            if not group.members or not group.settled:
                return True
            silent = self._look(now_ms, group)
        except StreamsError:
            return True  # Whoever can't look would wait for nothing.
        if not silent or not self._signs.alive:
            everybody = self._signs.processes <= self._signs.alive
            return everybody or now_ms - self._began_ms >= self._looking_ms
        return self._has_waited(now_ms, silent)

    def _look(self, now_ms: float, group: GroupDescription) -> list[GroupMember]:
        admin = self._parts.admin
        held = sorted(at for member in group.members for at in member.partitions)
        ends = admin.offset_ranges(held)
        committed = admin.committed_offsets(self._parts.plan.application_id)
        return self._signs.look(
            now_ms,
            group.members,
            {at: offset.next_offset for at, offset in committed.items()},
            {at: range_.end for at, range_ in ends.items()},
        )

    def _has_waited(self, now_ms: float, silent: Iterable[GroupMember]) -> bool:
        limit_ms = self._parts.settings.membership.session_timeout_ms
        if self._waits_since_ms is None:
            self._waits_since_ms = now_ms
            _log.info(
                "members seem to have died: joining the group when they are out",
                thread=self._name,
                members=[str(member) for member in silent],
                at_most_s=ceil(limit_ms / 1000),
                why="joining now would stop the tasks of all others until then",
            )
        return now_ms - self._waits_since_ms >= limit_ms
