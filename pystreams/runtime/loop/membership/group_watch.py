"""Whether the group reads all that the topology reads, and whether all in it run this topology.

A thread sees its own share of the partitions only. Three things are wrong with shares that look
right from inside, and a look at the whole group shows them:

- *Stale.* A broker gives a static member that comes back what it had before, whatever it subscribes
  to now: after an edit of the topology it is given old topics, and nobody is given the new ones.
  Leaving and joining again makes the group share everything out anew.
- *Unread.* Nobody has a partition, or its task is split: one member has a part of what the task
  reads, another one the rest. Whatever the cause, it is told until it ends.
- *Of another topology.* Somebody in the group reads topics that this topology does not, or a part
  of one of its tasks. Tasks of one id are then two things, with one changelog and one transactional
  id. The one that comes later stands by, outside of the group, until the other has gone. So does
  one that was fenced and sees the other: the other may be unable to see it.

A member may also ask all to end (`SHUTDOWN_APPLICATION`, `application_shutdown`), and one that has
died may have left a transaction open (`left_open`).

Everything is derived from the topology and from what the broker says of the group; nothing is
kept from the run before. The broker is asked without waiting: after each assignment, before the
first task starts, and now and then.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Future
from zlib import crc32

from pystreams.errors import (
    BrokerNotAvailableError,
    FatalStreamsError,
    RetriableClientError,
    StreamsError,
    TaskMigratedError,
)
from pystreams.ids import TaskId, TopicPartition, by_topic
from pystreams.kernel.loggers import get_logger
from pystreams.runtime.cluster.group_description import (
    GroupDescription,
    GroupMember,
    of_another_topology,
)
from pystreams.runtime.cluster.partial_tasks import stranded
from pystreams.runtime.cluster.shutdown_mark import asks_to_shut_down, told_to_end
from pystreams.runtime.loop.membership.fenced_identity import IdentityGuard
from pystreams.runtime.loop.membership.left_open import LeftOpen
from pystreams.runtime.loop.membership.told_name import ToldName
from pystreams.runtime.loop.membership.waiting_for_partitions import WaitingForPartitions
from pystreams.runtime.ports import ConsumerPort
from pystreams.runtime.tasks.task_manager import TaskManager
from pystreams.runtime.tasks.thread_parts import ThreadParts
from pystreams.topology.plan.partition_plan import partitions_of_tasks

_log = get_logger("pystreams.thread")

_EVERY_MS = 30_000
_OFTEN_MS = 5_000
"""Where it matters what each has: who dies is in the group for a session more, to be seen so."""
_SOON_MS = 1_000
_AGAIN_MS = 5_000
_WAITING_AFTER_MS = 2_500
_TOLD_EVERY_MS = 60_000
_SHARED_OUT_ANEW_MAX = 3
_MET_TIMES = 3
"""Looks, a second apart, before another topology is believed: its member may just be leaving."""

_CURE_OTHER_TOPOLOGY = (
    "stop the processes that run the other topology (one that was killed goes when its session "
    "ends), or give this one an application.id of its own"
)
_CURE_UNREAD = (
    "where topics that one sub-topology reads have different numbers of partitions, give them "
    "equal ones, or run one thread in all; else see that all members may describe these topics, "
    "stop all processes of the application for session.timeout.ms, and start them again"
)


class GroupWatch:
    """Watches the group for one thread; owned by it.

    Args:
        waiting: Whether the thread has a share.

    Attributes:
        ready: Whether tasks may start: the group was seen without another topology.
        unread_partitions: How many of the topology's partitions nobody reads, by the last look.
        left_open: Ends what members that have died left open.
    """

    def __init__(
        self,
        name: str,
        parts: ThreadParts,
        manager: TaskManager,
        consumer: Callable[[], ConsumerPort],
        waiting: WaitingForPartitions,
        join: Callable[[], None],
    ) -> None:
        self.ready = False
        self.unread_partitions = 0
        self._name = name
        self._parts = parts
        self._clock = parts.clock
        self._manager = manager
        self._consumer = consumer
        self._waiting = waiting
        self._join = join
        self._spread_ms = self._spread(0)
        self._identity = IdentityGuard(parts.clock)
        self._told_name = ToldName(parts.identity.consumer_id(name), consumer, join)
        self.left_open = LeftOpen(
            name, parts, lambda: manager.assigned.partitions, manager.undecided
        )
        often = parts.settings.standby_replicas or self.left_open.looks_often
        self._every_ms = _OFTEN_MS if often else _EVERY_MS
        self._asked: Future[GroupDescription] | None = None
        self._look_at_ms = 0.0
        self._told_ms: dict[str, float] = {}
        self._shared_out_anew = 0
        self._seen_unread = False
        self._met = 0
        self._stood_by = 0
        self._strangers: set[str] = set()
        self._stands_by_since_ms: float | None = None
        self._has_asked = False
        self._look_in(_WAITING_AFTER_MS)

    @property
    def asks(self) -> bool:
        """Whether an answer is awaited of what is in the group."""
        return self._asked is not None

    # ------------------------------------------------------------------ what the loop says

    def joins(self) -> None:
        """Note that the thread asks for a share: if it waits for long, it says for whom."""
        self._has_asked, self._asked = True, None
        self.left_open.waits()
        self._look_in(_WAITING_AFTER_MS)

    def fenced(self, error: TaskMigratedError) -> None:
        """Note that it has to join again; its tasks wait for a look at the group once more.

        Raises:
            FatalStreamsError: Its identity was taken time and again.
        """
        self._identity.check(error)
        self.ready = False

    def shared_out(self) -> None:
        """Note that it has got a share, and look what the others have."""
        self._asked = None
        self._seen_unread = False
        self.unread_partitions = 0
        self._ask()

    def check(self) -> None:
        """Ask when it is time, and act on an answer that has come; never waits.

        Raises:
            FatalStreamsError: Another topology has been in the group for `task.timeout.ms`.
        """
        self.left_open.end_what_is_waited_for()
        look_at_ms = min(self._look_at_ms, self.left_open.look_at_ms())
        if self._asked is None and self._clock.monotonic_ms() >= look_at_ms:
            self._ask()
        asked = self._asked
        if asked is None or not asked.done():
            return
        self._asked = None
        self._look_in(self._every_ms + self._spread_ms)
        try:
            group = asked.result()
        except StreamsError as error:
            if self._due("undescribed"):
                message = "the group can't be looked at"
                _log.warning(message, thread=self._name, why=str(error))
            self.ready = self.ready or (self._has_asked and self._stands_by_since_ms is None)
            return
        self._judge(group)

    def is_told_to_end(self, group: GroupDescription) -> bool:
        """Note who is in the group; return whether one asks all to end: then this process does."""
        self.left_open.see(group)
        asking = next(filter(asks_to_shut_down, group.members), None)
        if asking is not None:
            _log.warning("another process asks all to end", thread=self._name, by=str(asking))
            self._parts.shut_down(FatalStreamsError(told_to_end(asking)))
        return asking is not None

    def _ask(self) -> None:
        self._asked = self._parts.admin.describe_group(self._parts.plan.application_id)

    def _spread(self, turn: int) -> int:
        """Return a time (ms) that others hardly have: who looks together would act together."""
        return crc32(f"{self._name} {turn}".encode()) % _SOON_MS

    def _look_in(self, ms: float) -> None:
        self._look_at_ms = self._clock.monotonic_ms() + ms

    # ------------------------------------------------------------------ what it sees

    def _judge(self, group: GroupDescription) -> None:
        others = group.others(self._consumer().member_id())
        if self.is_told_to_end(group):
            return
        if self._stands_by_since_ms is not None:
            self._stand_by_on(others, self._stands_by_since_ms)
        elif self._waiting.lasts:
            if self._has_asked and not group.settled:
                self._tell_for_whom_it_waits(others)
        elif self._manager.assigned.waits:
            self._look_in(_SOON_MS)  # It is not known yet what its share is read by.
        elif group.settled:
            self._judge_settled(group, others)
            if not self._manager.assigned.partitions and not self._waiting.has_told:
                # KIP-848 counts a share as one that is empty because a dead member has all.
                self._tell_for_whom_it_waits(others)
        elif self._parts.settings.membership.static:
            self._look_in(_SOON_MS)  # What the others have is of before the rebalance.
        elif strangers := of_another_topology(others, self._parts.plan.reads, ()):
            self._meet(strangers)
        else:
            self.ready = True
            self._look_in(_AGAIN_MS)

    def _judge_settled(self, group: GroupDescription, others: list[GroupMember]) -> None:
        tasks = self._tasks()
        unowned, of_patterns = self._unowned(group, tasks)
        if of_patterns:  # Of these, topics may be deleted by now.
            self._count_anew()
            tasks = self._tasks()
        here, elsewhere = stranded(tasks, self._manager.assigned.partitions)
        unread = here | unowned
        again = bool(unread) and self._is_to_be_seen_again()
        strangers = of_another_topology(others, self._parts.plan.reads, elsewhere)
        if unread and not again and self._may_share_out_anew(strangers):
            self._share_out_anew(unread)
            return
        if strangers:
            self._meet(strangers)
            return
        if self._told_name.is_told_anew(group):
            return
        self._met = 0
        self.ready = True
        self._manager.standbys.place(group, self._consumer().member_id())
        if again:
            self._look_in(_AGAIN_MS + self._spread_ms)
            return
        self.unread_partitions = sum(self._parts.plan.reads(topic) for topic, _ in unread)
        if unread:
            self._tell_of_unread(unread)
        else:
            self._shared_out_anew = 0
            self._seen_unread = False

    def _tasks(self) -> dict[TaskId, list[TopicPartition]]:
        return partitions_of_tasks(self._parts.plan, self._parts.partition_counts(()))

    def _unowned(
        self, group: GroupDescription, tasks: Mapping[TaskId, Collection[TopicPartition]]
    ) -> tuple[set[TopicPartition], set[TopicPartition]]:
        """Return what no member has: of topics that the topology names, and that patterns found."""
        unowned = group.unowned(partition for needed in tasks.values() for partition in needed)
        topics = set(self._parts.plan.consumed()[0])
        named = {partition for partition in unowned if partition.topic in topics}
        return named, unowned - named

    def _count_anew(self) -> None:
        """Look which topics there are: tasks wait for those of a pattern that was deleted.

        Raises:
            TopologyError: Without them internal topics would have other numbers of partitions.
        """
        try:
            self._parts.recount()
        except (BrokerNotAvailableError, RetriableClientError) as error:
            _log.debug("topics can't be counted", why=str(error))
            return
        self._manager.complete()

    # ------------------------------------------------------------------ stale shares

    def _is_to_be_seen_again(self) -> bool:
        """Return whether to believe it on second sight only; a stale share is seen at the start."""
        stale = self._parts.settings.membership.static and not self.ready
        first, self._seen_unread = not self._seen_unread, True
        return first and not stale

    def _may_share_out_anew(self, strangers: Collection[GroupMember]) -> bool:
        """Return whether it may help: KIP-848 shares out by what members subscribe to now.

        Strangers may be members that have a stale share, too; after it they are what they seem.
        """
        most = 1 if strangers else _SHARED_OUT_ANEW_MAX
        return self._parts.settings.membership.static and self._shared_out_anew < most

    def _share_out_anew(self, unread: Collection[TopicPartition]) -> None:
        self._shared_out_anew += 1
        _log.warning(
            "partitions that nobody reads: leaving the group and joining it again",
            thread=self._name,
            partitions=by_topic(unread),
            why="shares are those of before a change, as after an edit of the topology",
        )
        self._consumer().leave()
        self._join()

    # ------------------------------------------------------------------ another topology

    def _meet(self, strangers: list[GroupMember]) -> None:
        """Tell of another topology; who has not started yet stands by for it."""
        if self.ready:
            self._tell_of_strangers("another topology is in the group", strangers)
            return
        self._met += 1
        if self._met < _MET_TIMES:
            self._look_in(_SOON_MS + self._spread_ms)
            return
        self._stood_by += 1
        self._spread_ms = self._spread(self._stood_by)
        self._tell_of_strangers("standing by: another topology runs", strangers)
        self._strangers = {member.member_id for member in strangers}
        self._stands_by_since_ms = self._clock.monotonic_ms()
        self._consumer().leave()
        self._stay_out()

    def _stand_by_on(self, others: list[GroupMember], since_ms: float) -> None:
        """Join when the other topology has gone, or give up."""
        foreign = of_another_topology(others, self._parts.plan.reads, ())
        strangers = [
            member for member in others if member in foreign or member.member_id in self._strangers
        ]
        if not strangers:
            _log.info("the other topology has gone: joining the group", thread=self._name)
            self._stands_by_since_ms = None
            self._met = 0
            self._join()
            return
        waited_ms = self._clock.monotonic_ms() - since_ms
        if waited_ms >= self._parts.settings.task_timeout_ms:
            message = (
                f"another topology runs under application.id {self._parts.plan.application_id!r} "
                f"and has not gone for {waited_ms / 1000:.0f} s (task.timeout.ms): "
                f"{'; '.join(map(str, strangers))}; {_CURE_OTHER_TOPOLOGY}"
            )
            raise FatalStreamsError(message)
        self._tell_of_strangers("standing by: another topology runs", strangers)
        self._stay_out()

    def _stay_out(self) -> None:
        self._waiting.begins()
        self._look_in(_SOON_MS + self._spread_ms)

    # ------------------------------------------------------------------ the log

    def _tell_for_whom_it_waits(self, others: list[GroupMember]) -> None:
        self._look_in(_AGAIN_MS)
        self._waiting.tell_for_whom([str(member) for member in others if member.partitions])

    def _tell_of_strangers(self, what: str, strangers: list[GroupMember]) -> None:
        if self._due(what):
            _log.warning(
                what,
                thread=self._name,
                application=self._parts.plan.application_id,
                members=[str(member) for member in strangers],
                cure=_CURE_OTHER_TOPOLOGY,
            )

    def _tell_of_unread(self, unread: Collection[TopicPartition]) -> None:
        what = "partitions are read by nobody"
        if self._due(what):
            _log.warning(what, thread=self._name, partitions=by_topic(unread), cure=_CURE_UNREAD)

    def _due(self, what: str) -> bool:
        """Return whether a line is due: the first time, and a while after the last."""
        now_ms = self._clock.monotonic_ms()
        last_ms = self._told_ms.get(what)
        if last_ms is not None and now_ms - last_ms < _TOLD_EVERY_MS:
            return False
        self._told_ms[what] = now_ms
        return True
