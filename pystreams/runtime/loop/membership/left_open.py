"""Transactions that members have left open who died: ended by those who have their tasks now.

Under `exactly_once_v2` a thread has one transactional id, whichever tasks it has. Where it is
killed and its disk is lost, nobody uses that id again, and what its last transaction holds stays
undecided until its time limit, and then the coordinator's next look: up to 20 s. Until then nobody
reads on behind it, neither the readers of its outputs nor those who restore its tasks.

    looks at the group:   A  B  C        A  B         A  B
                          C has 2, 3     C is absent  C is absent: its id is used once, by each
                                                      that has a part of 2, 3

Whoever uses the id gets a new epoch of it: the coordinator aborts what is open, and finishes what
is decided. Nothing that was committed is undone, whoever does it and whenever; so what is seen of
the group decides how soon readers go on, never what they read. A member that lives all the same has
been put out of the group, and could commit nothing; it is fenced and joins again.

Absent at one look may be who leaves the group and joins it again, which takes a moment. Who leaves
in order has committed. So where a task that an absent one had stands before an open transaction
here, the group and the changelog are asked once more, a moment later: if it is absent still, and
nothing was decided, it has died. Where no task stands so, it has to be absent for half a second, in
two looks, or in a rebalance that this thread has waited for.

The id is known by what the group sees of a member (`ProcessIdentity`):

    classic protocol   the group.instance.id, behind the application's id if it is the user's
    KIP-848            the client id, if it is not the user's: that of all processes may be the same

With `exactly_once` tasks have ids of their own, which their next owners use anyway.
Spec: KIP-447 "Fence Zombie"; KIP-98 "InitProducerIdRequest".
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future

from pystreams.config import ProcessingGuarantee
from pystreams.errors import RetriableClientError, StreamsError
from pystreams.ids import TopicPartition
from pystreams.kernel.loggers import get_logger
from pystreams.kernel.pools import begin_call
from pystreams.runtime.cluster.group_description import GroupDescription, GroupMember
from pystreams.runtime.ports import ProducerPort
from pystreams.runtime.tasks.thread_parts import ThreadParts

_log = get_logger("pystreams.thread")

_CLIENT_ID = re.compile(r"(.+)-StreamThread-(\d+)-consumer(?:@.*)?")
_SURE_AFTER_MS = 500
_DECIDED_MS = 50
"""Markers of a transaction that was decided in order mostly come sooner."""
_OVER_AFTER_MS = 60_000
"""By then those who got its tasks have done it, or its time limit has."""
_TRIES = 5
"""Of a second each; the first request that arrives makes the coordinator abort."""


class LeftOpen:
    """Watches for members that die, for one thread; owned by it.

    Args:
        thread: The thread's name, for the log.
        assigned: Returns the partitions that the thread has now.
        undecided: Returns the changelogs that tasks restore up to an open transaction: what such a
            task reads, the changelog, and the offset where the transaction began.

    Attributes:
        looks_often: Whether the group has to be looked at now and then: KIP-848 tells a member of
            its own share only, while others are given shares.
    """

    def __init__(
        self,
        thread: str,
        parts: ThreadParts,
        assigned: Callable[[], set[TopicPartition]],
        undecided: Callable[[], list[tuple[Sequence[TopicPartition], TopicPartition, int]]],
    ) -> None:
        identity, application = parts.identity, parts.plan.application_id
        self._thread = thread
        self._parts, self._clock = parts, parts.clock
        self._assigned, self._undecided = assigned, undecided
        self._prefix, self._own = f"{application}-", f"{identity.transactional_id}-"
        self._static = parts.settings.membership.static
        self._lead = identity.transactional_id.removesuffix(identity.group_instance_id)
        self._watches = parts.settings.guarantee is ProcessingGuarantee.EXACTLY_ONCE_V2 and (
            self._static or identity.client_id == identity.transactional_id
        )
        self.looks_often = self._watches and not self._static
        self._shares: dict[str, frozenset[TopicPartition]] = {}
        self._absent_since_ms: dict[str, float] = {}
        self._stood_since_ms: dict[str, float] = {}
        self._asked: dict[str, Future[bool]] = {}
        self._waits_since_ms: float | None = None

    def waits(self) -> None:
        """Note that the thread waits for its share: who has none then has not answered since.

        With KIP-848 nobody is waited for.
        """
        self._waits_since_ms = self._clock.monotonic_ms() if self._static else None

    def see(self, group: GroupDescription) -> None:
        """Note who is in the group; end what those have left open who have died.

        Does not wait, but where the program's main thread has ended and calls are made here.
        """
        if not self._watches:
            return
        now_ms = since_ms = self._clock.monotonic_ms()
        if group.settled and self._waits_since_ms is not None:
            since_ms, self._waits_since_ms = self._waits_since_ms, None
        present = self._noted(group)
        for name in list(self._shares):
            if name in present:
                self._is_back(name)
            elif now_ms - self._absent_since_ms.setdefault(name, since_ms) >= _OVER_AFTER_MS:
                self._forget(name)
        for name in self._concerned():
            if now_ms - self._absent_since_ms[name] >= _SURE_AFTER_MS:
                if not _is_ended(self._asked.get(name)):
                    self._end(name, {})
                self._forget(name)

    def end_what_is_waited_for(self) -> None:
        """End what absent members have left open before which a task stands here, as in `see`."""
        if not self._absent_since_ms:
            return
        now_ms, undecided = self._clock.monotonic_ms(), self._undecided()
        for name in self._concerned():
            share = self._shares[name]
            open_at = {at: end for read, at, end in undecided if not share.isdisjoint(read)}
            if not open_at:
                self._stood_since_ms.pop(name, None)
                continue
            stood_ms = now_ms - self._stood_since_ms.setdefault(name, now_ms)
            if stood_ms >= _DECIDED_MS and name not in self._asked:
                self._asked[name] = self._end(name, open_at)

    def look_at_ms(self) -> float:
        """Return when to look at the group once more (of the monotonic clock); mostly never."""
        if not self._absent_since_ms:
            return math.inf
        absent = [self._absent_since_ms[name] for name in self._concerned()]
        return min(absent, default=math.inf) + _SURE_AFTER_MS

    def _noted(self, group: GroupDescription) -> set[str]:
        """Note what members have; return the transactional ids of those of other processes."""
        present = set()
        for member in group.members:
            name = self._transactional_id(member)
            if name.startswith(self._prefix) and not name.startswith(self._own):
                present.add(name)
                if group.settled or member.partitions:
                    self._shares[name] = member.partitions
        return present

    def _transactional_id(self, member: GroupMember) -> str:
        """Return what a member of another process sends with; empty where nothing tells."""
        if self._static:
            instance = member.group_instance_id
            return f"{self._lead}{instance}" if instance else ""
        thread = _CLIENT_ID.fullmatch(member.client_id)
        return "-".join(thread.groups()) if thread else ""

    def _concerned(self) -> list[str]:
        """Return the absent ones that had a part of what is here now, by name."""
        assigned = self._assigned()
        return sorted(
            name for name in self._absent_since_ms if not self._shares[name].isdisjoint(assigned)
        )

    def _is_back(self, name: str) -> None:
        self._absent_since_ms.pop(name, None)
        self._stood_since_ms.pop(name, None)
        self._asked.pop(name, None)

    def _forget(self, name: str) -> None:
        self._is_back(name)
        del self._shares[name]

    def _end(self, name: str, open_at: Mapping[TopicPartition, int]) -> Future[bool]:
        pool = self._parts.make_waiting_pool()
        ended = begin_call(pool, self._end_now, name, open_at)
        pool.shutdown(wait=False)
        return ended

    def _end_now(self, name: str, open_at: Mapping[TopicPartition, int]) -> bool:
        """End what a member has left open, unless it is back or has decided it; waits.

        Returns:
            Whether it had died.
        """
        parts = self._parts
        producer = parts.clients.producer(f"{name}-ended", name, parts.plan.output_topics())
        try:
            if not self._has_died(name, open_at):
                return False
            _log.info(
                "a member has died: what it left open is aborted",
                thread=self._thread,
                transactional_id=name,
            )
            _use_once(producer, name)
            return True
        finally:
            producer.close()

    def _has_died(self, name: str, open_at: Mapping[TopicPartition, int]) -> bool:
        admin = self._parts.admin
        try:
            group = admin.describe_group(self._parts.plan.application_id).result()
            if name in map(self._transactional_id, group.members):
                return False
            held = admin.offset_ranges(list(open_at))
        except StreamsError:
            return not open_at  # The group has been looked at twice, half a second apart.
        return not open_at or any(held[at].end == end for at, end in open_at.items())


def _is_ended(asked: Future[bool] | None) -> bool:
    """Return whether an answer was that a member had died, or none has come."""
    if asked is None or not asked.done():
        return asked is not None
    return asked.exception() is None and asked.result()


def _use_once(producer: ProducerPort, transactional_id: str) -> None:
    """Take a new epoch of a transactional id: that ends what the last one has left open."""
    try:
        for _ in range(_TRIES):
            try:
                producer.init_transactions()
            except RetriableClientError:
                continue
            return
    except StreamsError as error:
        _log.warning(
            "what a member left open ends by its time limit only",
            transactional_id=transactional_id,
            why=str(error),
        )
