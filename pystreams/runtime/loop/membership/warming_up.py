"""What comes to a thread that is about to join its group, kept warm before it asks for it.

A process that comes takes tasks from others, which process them meanwhile. It knows which, since
range is a pure function of the members' names, its own among them. So it follows their changelogs
before it joins, and they stand still for the last few records only:

    more than `acceptable.recovery.lag` to restore -> follow -> no more than that left: join

Threads of a process join together: each one's share is what is left when all of them are there.

It joins cold where to wait is no better: the tasks stand still anyway, or their changelogs come no
nearer to their ends for `task.timeout.ms`.

Source: Kafka Streams' `HighAvailabilityTaskAssignor`, its warm-up replicas.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

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


class WarmUp:
    """The warm-up of one thread; owned by it.

    Args:
        standbys: What follows the changelogs.

    Attributes:
        lasts: Whether the thread had better not join yet.
        lag_is_unknown: Whether it has begun, and is not told yet how much there is to restore.
    """

    def __init__(self, name: str, index: int, parts: ThreadParts, standbys: StandbyTasks) -> None:
        self.lasts = self.lag_is_unknown = False
        self._name, self._parts, self._standbys = name, parts, standbys
        self._own = f"{parts.identity.group_instance_id}-{index}"
        self._enough = parts.settings.acceptable_recovery_lag
        self._began_ms = self._tell_at_ms = self._nearer_ms = 0.0
        self._least: int | None = None

    def look(self, now_ms: float, members: Sequence[GroupMember]) -> None:
        """Follow what would come to this thread if its process joined these members now.

        Args:
            now_ms: The monotonic clock's time (ms).

        Raises:
            RetriableClientError: The broker did not tell what changelogs hold.
        """
        tasks = partitions_of_tasks(self._parts.plan, self._parts.partition_counts(()))
        share = tasks_given([*members, *self._absent(members)], self._own, tasks)
        if not self.lasts:
            if not self._is_much(share, tasks):
                return
            self.lasts = True
            self._began_ms = self._tell_at_ms = self._nearer_ms = now_ms
            self._parts.warming.add(self._name)
        self._standbys.keep(share)
        behind = self._standbys.behind(share)
        self.lag_is_unknown = None in behind.values()
        self._note(now_ms, behind)
        if all(records is not None and records <= self._enough for records in behind.values()):
            self._parts.warming.discard(self._name)
        else:
            self._parts.warming.add(self._name)
            if now_ms - self._nearer_ms >= self._parts.settings.task_timeout_ms:
                self.end(now_ms, "no nearer to the end for task.timeout.ms")

    def is_over(self, now_ms: float) -> bool:
        """Return whether there is none, or not any more; it ends when all threads are warm."""
        if self.lasts and not self._parts.warming:
            self.end(now_ms, "warm")
        return not self.lasts

    def end(self, now_ms: float, why: str) -> None:
        """Note that the thread joins now, warm or not."""
        self._parts.warming.discard(self._name)
        if not self.lasts:
            return
        self.lasts = self.lag_is_unknown = False
        _log.info(
            "warmed up: joining the group",
            thread=self._name,
            why=why,
            remaining_records=self._least,
            seconds=round((now_ms - self._began_ms) / 1000, 1),
        )

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

    def _is_much(
        self, share: Collection[TaskId], tasks: Mapping[TaskId, Collection[TopicPartition]]
    ) -> bool:
        """Return whether a task's changelogs hold more than may be restored while it stands."""
        plan = self._parts.plan
        changelogs = {
            task_id: [
                TopicPartition(plan.changelog_topic(builder.name), task_id.partition)
                for builder in plan.logged_stores(plan.by_id[task_id.subtopology])
            ]
            for task_id in share
        }
        asked = sorted({at for found in changelogs.values() for at in found})
        ranges = self._parts.admin.offset_ranges(asked) if asked else {}
        return any(
            sum(ranges[at].end - ranges[at].beginning for at in found) > self._enough
            for found in changelogs.values()
        )

    def _note(self, now_ms: float, behind: Mapping[TaskId, int | None]) -> None:
        known = [records for records in behind.values() if records is not None]
        left = sum(known)
        if not self.lag_is_unknown and (self._least is None or left < self._least):
            self._least, self._nearer_ms = left, now_ms
        if now_ms < self._tell_at_ms + (_KNOWN_AFTER_MS if self.lag_is_unknown else 0):
            return
        self._tell_at_ms = now_ms + _TOLD_EVERY_MS
        _log.info(
            "warming up before joining the group",
            thread=self._name,
            tasks=[str(task_id) for task_id in sorted(behind)],
            remaining_records=None if self.lag_is_unknown else left,
            acceptable_recovery_lag=self._enough,
        )
