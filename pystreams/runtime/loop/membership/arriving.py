"""When a process that is not in its group yet joins it.

With the classic protocol a process that joins stops all the others until the last of them has
joined again, of one that has died, until its session has ended; and the tasks that come to it stand
still while it restores them. So it looks at the group before:

    group empty, or knows it already                    -> join
    new, some commit, one is silent                     -> wait till that is out, a session at most
    much to restore of what would come to it            -> wait till it is warm (`warming_up`)
    one asks all to end (`SHUTDOWN_APPLICATION`)        -> end
    new, and none of these                              -> join after a moment of looking
    else                                                -> join

The silent one is a process that was killed, in whose place another one starts without its disk:
with a rebalance all tasks would stand still for its session, though only its own need to. While
the newcomer waits, nobody else does. A process that finds its identity on its disk, or has one of
the user's, takes its own partitions back if it is still a member, and joins at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import ceil

from pystreams.errors import BrokerNotAvailableError, RetriableClientError, StreamsError
from pystreams.kernel.loggers import get_logger
from pystreams.runtime.cluster.group_description import (
    GroupDescription,
    GroupMember,
    of_another_topology,
)
from pystreams.runtime.cluster.signs_of_life import SignsOfLife
from pystreams.runtime.loop.membership.silences import Silences
from pystreams.runtime.loop.membership.warming_up import WarmUp
from pystreams.runtime.loop.reports.thread_metadata import ThreadMetadata
from pystreams.runtime.tasks.thread_parts import ThreadParts

_log = get_logger("pystreams.thread")

_LOOK_EVERY_MS = 500
_LOOK_SOON_MS = 100
_COMMITTED_EVERY_MS = 3000
"""What is committed costs a client each time: a warm-up may last for minutes."""
_COMMIT_TAKES_MS = 1000
_COMMITS_SELDOM_MS = 2000
"""With longer commit intervals it would take too long to tell who is alive."""
_STANDS_AFTER_MS = 5000
"""How long nobody of the group commits, beyond the time between commits, when nobody processes."""
_LIVES_FOR_MS = 5000
"""How long somebody counts as alive who falls silent: at one long record, or while brokers rest."""
_TRIES_MS = 2000
"""How long the first look is tried."""
_TOLD_EVERY_MS = 10_000
_MARKERS = 100
"""What may lie behind the last record of a partition that is read to its end, markers mostly."""
_WHY_NOT_NOW = "joining now would stop the tasks of all others until then"
_REBALANCE_MS = 1500
"""How long a group may take to share out, before it is one that begins."""


class Arrival:
    """The first join of one thread; later ones are not held up.

    Args:
        is_told_to_end: Told of each look; returns whether the process ends instead.
        warm_up: What is to come to the thread.

    Attributes:
        warm_up: The same.
    """

    def __init__(
        self,
        name: str,
        parts: ThreadParts,
        is_told_to_end: Callable[[GroupDescription], bool],
        warm_up: WarmUp,
    ) -> None:
        self.warm_up = warm_up
        self._name, self._is_told_to_end = name, is_told_to_end
        self._parts, self._clock = parts, parts.clock
        settings = parts.settings
        self._looks = settings.membership.static
        seldom = settings.commit_interval_ms > _COMMITS_SELDOM_MS
        self._is_to_watch = parts.identity.newcomer and not seldom
        patience_ms = settings.commit_interval_ms + _COMMIT_TAKES_MS
        self._signs = SignsOfLife(patience_ms)
        self._looking_ms = patience_ms + 3 * _LOOK_EVERY_MS
        self._join: Callable[[], None] | None = None
        self._began_ms = self._look_at_ms = 0.0
        self._is_free = self._seen_settled = self._has_seen = False
        self._standing_ms = 1.5 * settings.commit_interval_ms + _STANDS_AFTER_MS
        self._stands_since_ms: float | None = None
        self._silences = Silences(settings.membership.session_timeout_ms)
        self._alive_ms = float("-inf")
        self._some_live = False
        self._members: Sequence[GroupMember] = ()
        self._told_dead: set[str] = set()
        self._waits_for_dead = ""
        self._asked_ms = self._failure_told_ms = float("-inf")

    @property
    def waits(self) -> bool:
        """Whether the thread has asked to join, and does not yet."""
        return self._join is not None

    def told(self, found: ThreadMetadata, for_whom: str) -> ThreadMetadata:
        """Return what the thread tells of itself, with what is to be told of its arrival.

        Args:
            for_whom: For whom it waits when it has joined.
        """
        return replace(
            found,
            warms_up=self.warm_up.lasts,
            warm_up_records=self.warm_up.left,
            waits_for=self._waits_for_dead or for_whom,
        )

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
        if join is None:
            return
        if now_ms >= self._look_at_ms:
            self._is_free = self._look(now_ms)
            if self._is_free:
                self._waits_for_dead = ""
            held_back = self._parts.held_back
            (held_back.discard if self._is_free else held_back.add)(self._name)
            now_ms = self._clock.monotonic_ms()  # Answers may have taken long.
            soon = self.warm_up.is_soon_known
            self._look_at_ms = now_ms + (_LOOK_SOON_MS if soon else _LOOK_EVERY_MS)
        if self._is_free and self.warm_up.is_over(now_ms):
            self._join = None
            join()

    # ------------------------------------------------------------------ inside

    def _look(self, now_ms: float) -> bool:
        """Look at the group; return whether nothing but a warm-up is against joining it."""
        try:
            group = self._parts.admin.describe_group(self._parts.plan.application_id).result()
            self._has_seen, self._members = True, group.members
            if self._is_told_to_end(group):
                return False
            if not group.members or self._is_in(group):
                self.warm_up.end(now_ms, "nobody else has the tasks, or they are its own")
                return True
            return self._judge(now_ms, group)
        except (RetriableClientError, BrokerNotAvailableError) as error:
            return self._goes_on_after(now_ms, error)
        except StreamsError as error:
            self.warm_up.end(now_ms, str(error))
            return True

    def _judge(self, now_ms: float, group: GroupDescription) -> bool:
        watched = self._is_to_watch and group.settled
        some_wait = bool(self._parts.warming or self._parts.held_back)
        due = some_wait and now_ms - self._asked_ms >= _COMMITTED_EVERY_MS
        asks = (watched and not self._is_free) or (due and group.settled)
        answered = asks and self._ask_who_is_silent(now_ms, group)
        foreign = of_another_topology(group.members, self._parts.plan.reads, ())
        if not foreign:
            dead_ids, waits = self._dead(now_ms), bool(self._waits_for(now_ms))
            self.warm_up.look(now_ms, group.members, dead_ids, waits=waits)
        self._seen_settled |= group.settled
        if not (group.settled and self.warm_up.lasts):
            self._stands_since_ms = None
        if watched and (answered or self._waits_for(now_ms)):
            free = self._is_calm(now_ms, group)
        else:
            free = self._is_free or not watched or now_ms - self._began_ms >= self._looking_ms
        why = "another topology is in the group" if foreign else self._is_in_vain(now_ms)
        if free and why and self._parts.held_back <= {self._name}:
            self.warm_up.end(now_ms, why)
        return free

    def _is_in_vain(self, now_ms: float) -> str:
        """Return why it would be no use to warm up; nothing if it is."""
        stands_since_ms = self._stands_since_ms
        if stands_since_ms is not None and now_ms - stands_since_ms >= self._standing_ms:
            return "nobody processes what is to come"
        if not self._seen_settled and now_ms - self._began_ms >= _REBALANCE_MS:
            return "the group begins, perhaps: it does not share out"
        return ""

    def _ask_who_is_silent(self, now_ms: float, group: GroupDescription) -> bool:
        """Note which members are silent; return whether the brokers tell."""
        self._asked_ms = now_ms
        try:
            self._note_silent(now_ms, group)
        except (RetriableClientError, BrokerNotAvailableError) as error:
            self._stands_since_ms = None
            self._tell(now_ms, error)
            return False
        return True

    def _goes_on_after(self, now_ms: float, error: StreamsError) -> bool:
        """Go on with a warm-up where the group can't be looked at; who never could joins."""
        self._stands_since_ms = None
        self.warm_up.go_on(now_ms, answered=False)
        self._tell(now_ms, error)
        tried_ms = self._looking_ms if self._has_seen else _TRIES_MS
        has_tried = now_ms - self._began_ms >= tried_ms
        free = self._is_free or (has_tried and not self._waits_for(now_ms))
        if free and not self.warm_up.lasts:  # No look has told what is to come.
            self._parts.warming.discard(self._name)
        return free

    def _tell(self, now_ms: float, error: StreamsError) -> None:
        if self._has_seen and now_ms - self._failure_told_ms >= _TOLD_EVERY_MS:
            self._failure_told_ms = now_ms
            _log.warning(
                "the group can't be looked at before joining it", thread=self._name, why=str(error)
            )

    def _is_in(self, group: GroupDescription) -> bool:
        """Return whether the group knows this process, and keeps its partitions for it."""
        own = self._parts.identity.group_instance_id
        found = (member.group_instance_id or "" for member in group.members)
        return any(name.rpartition("-")[0] == own for name in found)

    def _is_calm(self, now_ms: float, group: GroupDescription) -> bool:
        """Return whether no member has to be waited for; those are told once each."""
        dead_ids = self._waits_for(now_ms)
        if not dead_ids:
            self._waits_for_dead = ""
            everybody = self._signs.processes <= self._signs.alive
            return everybody or now_ms - self._began_ms >= self._looking_ms
        members = [str(at) for at in group.members if at.member_id in dead_ids]
        at_most_s = ceil(self._parts.settings.membership.session_timeout_ms / 1000)
        self._waits_for_dead = (
            f"members seem to have died: it joins the group when they are out, in {at_most_s} s "
            f"at most: {'; '.join(members)}; {_WHY_NOT_NOW}"
        )
        if not dead_ids <= self._told_dead:
            self._told_dead |= dead_ids
            _log.info(
                "members seem to have died: joining the group when they are out",
                thread=self._name,
                members=members,
                at_most_s=at_most_s,
                why=_WHY_NOT_NOW,
            )
        return False

    def _waits_for(self, now_ms: float) -> set[str]:
        """Return the ids of dead members: nobody is protected by a wait where nobody processes."""
        return self._dead(now_ms) if self._is_to_watch and self._some_live else set()

    def _dead(self, now_ms: float) -> set[str]:
        """Return the ids of members that may have died."""
        return self._silences.dead(now_ms, self._members)

    def _note_silent(self, now_ms: float, group: GroupDescription) -> None:
        """Note what members have committed and what they have to read: who is silent."""
        admin = self._parts.admin
        held = sorted(at for member in group.members for at in member.partitions)
        ranges = admin.offset_ranges(held)
        offsets = admin.committed_offsets(self._parts.plan.application_id)
        committed = {at: offset.next_offset for at, offset in offsets.items()}
        moved_ms = self._signs.last_moved_ms
        ends = {at: range_.end for at, range_ in ranges.items()}
        silent = self._signs.look(now_ms, group.members, committed, ends)
        self._silences.note(now_ms, silent)
        if self._signs.alive:
            self._alive_ms = now_ms
        self._some_live = now_ms - self._alive_ms < _LIVES_FOR_MS
        # What waits for a dead member says nothing of others, which may have nothing to do.
        dead_ids = self._dead(now_ms) if self._some_live else set[str]()
        living = (member for member in group.members if member.member_id not in dead_ids)
        much_waits = any(
            ranges[at].end - max(committed.get(at, 0), ranges[at].beginning) > _MARKERS
            for member in living
            for at in member.partitions
        )
        if not much_waits or self._signs.last_moved_ms > moved_ms:
            self._stands_since_ms = None
        elif self._stands_since_ms is None:
            self._stands_since_ms = now_ms
