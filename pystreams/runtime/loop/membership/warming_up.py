"""What comes to a thread that is about to join its group, kept warm before it asks for it.

A process that comes takes tasks from others, which process them meanwhile. It knows which, since
range is a pure function of the members' names, its own among them. So it follows their changelogs
before it joins, and they stand still for the last few records only:

    more than `acceptable.recovery.lag` to restore -> follow -> no more than that left: join

Threads of a process join together, those that have nothing to restore too: each one's share is what
is left when all of them are there.

It joins cold where the tasks stand still anyway (`arriving`), and where one of them has come no
nearer to its end for `task.timeout.ms`.

Source: Kafka Streams' `HighAvailabilityTaskAssignor`, its warm-up replicas.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from pystreams.errors import BrokerNotAvailableError, RetriableClientError
from pystreams.ids import TaskId, TopicPartition
from pystreams.kernel.loggers import get_logger
from pystreams.runtime.cluster.group_description import GroupMember
from pystreams.runtime.cluster.standby_placement import tasks_given
from pystreams.runtime.tasks.restoring.standby_tasks import StandbyTasks
from pystreams.runtime.tasks.thread_parts import ThreadParts
from pystreams.topology.plan.partition_plan import partitions_of_tasks

_log = get_logger("pystreams.thread")

_TOLD_EVERY_MS = 10_000
_KNOWN_AFTER_MS = 1_000
_LITTLE_FOR_MS = 5_000
"""How long a share that has little to restore is taken for one, before that is asked again."""
_WARM_FOR_MS = 60_000
"""A task counts as warm for so long: owners that commit rarely write much at once."""


@dataclass(slots=True)
class _Nearer:
    """How a task comes nearer to its end.

    Attributes:
        since_ms: When it last came nearer (ms).
        least: What it had to restore at the least since it was made; None before that is known.
        warm_ms: When it was last warm (ms).
    """

    since_ms: float
    least: int | None = None
    warm_ms: float = -math.inf

    def note(self, now_ms: float, lag: int | None, enough: int) -> None:
        """Note how much there is to restore."""
        if lag is None:
            return
        if lag <= enough:
            self.since_ms = self.warm_ms = now_ms
        if self.least is None or lag < self.least:
            self.least, self.since_ms = lag, now_ms
        elif lag > 2 * self.least + enough:  # It was made anew, or its owner writes much at a time.
            self.least = lag

    def is_warm(self, now_ms: float) -> bool:
        """Return whether it was near enough lately."""
        return now_ms - self.warm_ms <= _WARM_FOR_MS


class WarmUp:
    """The warm-up of one thread; owned by it.

    Args:
        standbys: What follows the changelogs.

    Attributes:
        lasts: Whether there is one, and it is not over; any thread may look.
        left: How many records are left to restore, at most; None if that is not known.
    """

    def __init__(self, name: str, index: int, parts: ThreadParts, standbys: StandbyTasks) -> None:
        self.lasts = False
        self.left: int | None = None
        self._name, self._parts, self._standbys = name, parts, standbys
        self._own = f"{parts.identity.group_instance_id}-{index}"
        self._enough = parts.settings.acceptable_recovery_lag
        self._began_ms = self._tell_at_ms = 0.0
        self._seen_ms: float | None = None
        self._names: set[str] = set()
        self._share: set[TaskId] = set()
        self._before: set[TaskId] = set()
        self._followed: set[TaskId] = set()
        self._nearer: dict[TaskId, _Nearer] = {}
        self._little: set[TaskId] | None = None
        self._little_ms = -math.inf
        self._is_stuck = self._joins_now = False
        if parts.settings.membership.static:
            parts.warming.add(name)

    @property
    def is_soon_known(self) -> bool:
        """Whether it has just begun, and is about to be told how much there is to restore."""
        begun_ms = self._parts.clock.monotonic_ms() - self._began_ms
        return self.lasts and self.left is None and begun_ms < _KNOWN_AFTER_MS

    def look(
        self, now_ms: float, members: Sequence[GroupMember], dead: Collection[str], *, waits: bool
    ) -> None:
        """Follow what would come to this thread if its process joined these members now.

        Args:
            now_ms: The monotonic clock's time (ms).
            dead: Of the members those that seem to have died, by their ids.
            waits: Whether the thread joins when the dead are out, and not before.
        """
        tasks = partitions_of_tasks(self._parts.plan, self._parts.partition_counts(()))
        absent = self._absent(members)
        living = [*(member for member in members if member.member_id not in dead), *absent]
        share = tasks_given(living, self._own, tasks)
        if not self.lasts:
            if not self._is_much(now_ms, share):
                self._parts.warming.discard(self._name)
                return
            self.lasts = True
            self._began_ms = self._tell_at_ms = self._seen_ms = now_ms
        with_all = tasks_given([*members, *absent], self._own, tasks)
        self._before, self._share = self._share, share if waits else share | with_all
        # Who seems to have died may live: what would come with it there is followed as well.
        names = {member.group_instance_id or member.member_id for member in members}
        kept = self._followed if names == self._names else set[TaskId]()
        others = (at.member_id for at in absent if at.member_id != self._own)
        elsewhere = set[TaskId]().union(*(tasks_given(living, name, tasks) for name in others))
        self._names, self._followed = names, (kept | with_all | share) - elsewhere
        self.go_on(now_ms)

    def go_on(self, now_ms: float, *, answered: bool = True) -> None:
        """See how far it is.

        Args:
            now_ms: The monotonic clock's time (ms).
            answered: Whether brokers answer: time without that does not count.
        """
        before_ms, self._seen_ms = self._seen_ms, now_ms
        if not self.lasts or before_ms is None:
            return
        self._standbys.keep(self._followed)
        behind = self._standbys.behind(self._followed)
        awaited = behind.keys() & self._share
        known = [lag for at in awaited if (lag := behind[at]) is not None]
        self.left = sum(known) if len(known) == len(awaited) else None
        waits_ms = 0.0 if answered and not self._parts.paused.is_set() else now_ms - before_ms
        # One that was not followed for a while begins anew.
        self._nearer = {at: self._nearer.get(at) or _Nearer(now_ms) for at in behind}
        for task_id, lag in behind.items():
            nearer = self._nearer[task_id]
            nearer.since_ms += waits_ms
            nearer.note(now_ms, lag, self._enough)
        cold = [self._nearer[at] for at in awaited if not self._nearer[at].is_warm(now_ms)]
        limit_ms = self._parts.settings.task_timeout_ms
        self._is_stuck = any(now_ms - at.since_ms >= limit_ms for at in cold)
        if cold:
            self._parts.warming.add(self._name)
        elif self._share == self._before:  # Else another thread may be about to take a cold one.
            self._parts.warming.discard(self._name)
        self._tell(now_ms, awaited)

    def is_over(self, now_ms: float) -> bool:
        """Return whether to join, if nothing else is against it: it is warm, or waits in vain."""
        if self._is_stuck and not self._parts.held_back:
            self.end(now_ms, "a task comes no nearer to its end for task.timeout.ms")
        if not self._joins_now and (self._parts.warming or self._parts.held_back):
            return False
        self.end(now_ms, "warm")
        return True

    def end(self, now_ms: float, why: str) -> None:
        """Note that the thread joins now, warm or not; it has to, else it would begin anew."""
        self._joins_now = True
        self._parts.warming.discard(self._name)
        self._parts.held_back.discard(self._name)
        if not self.lasts:
            return
        self.lasts = False
        _log.info(
            "warm-up over: joining the group",
            thread=self._name,
            why=why,
            remaining_records=self.left,
            seconds=round((now_ms - self._began_ms) / 1000, 1),
        )

    # ------------------------------------------------------------------ inside

    def _absent(self, members: Collection[GroupMember]) -> list[GroupMember]:
        """Return the threads of this process that are not in the group yet, as members."""
        identity = self._parts.identity
        names = {member.group_instance_id for member in members}
        own = [
            f"{identity.group_instance_id}-{index}"
            for index in range(1, self._parts.settings.threads + 1)
        ]
        return [
            GroupMember(name, identity.client_id, "", frozenset(), name)
            for name in own
            if name not in names
        ]

    def _is_much(self, now_ms: float, share: set[TaskId]) -> bool:
        """Return whether a task's changelogs hold more than may be restored while it stands.

        What the broker does not tell may be much.
        """
        if share == self._little and now_ms - self._little_ms < _LITTLE_FOR_MS:
            return False
        plan = self._parts.plan
        changelogs = {
            task_id: [
                TopicPartition(plan.changelog_topic(builder.name), task_id.partition)
                for builder in plan.logged_stores(plan.by_id[task_id.subtopology])
            ]
            for task_id in share
        }
        asked = sorted({at for found in changelogs.values() for at in found})
        try:
            ranges = self._parts.admin.offset_ranges(asked) if asked else {}
        except (RetriableClientError, BrokerNotAvailableError) as error:
            _log.debug("what is to be restored is not known", thread=self._name, why=str(error))
            return True
        held = [
            sum(ranges[at].end - ranges[at].beginning for at in found)
            for found in changelogs.values()
        ]
        self._little, self._little_ms = share, now_ms
        return max(held, default=0) > self._enough

    def _tell(self, now_ms: float, awaited: Collection[TaskId]) -> None:
        if not self.lasts or now_ms < self._tell_at_ms + _KNOWN_AFTER_MS * (self.left is None):
            return
        self._tell_at_ms = now_ms + _TOLD_EVERY_MS
        _log.info(
            "warming up before joining the group",
            thread=self._name,
            tasks=[str(task_id) for task_id in sorted(awaited)],
            remaining_records=self.left,
            acceptable_recovery_lag=self._enough,
        )
