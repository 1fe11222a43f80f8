"""Asks all processes of an application to end, through their group, and waits until they have.

    failed thread --leaves--> joins as `...-ShutdownApplication` --> rebalance
    every thread   describes the group when it is given a share, and now and then: sees that member
                   --> its process commits, leaves the group and ends
    a process that warms up looks before it joins, more often --> ends as well
    no other left, and that one has had its look --> this member leaves, too: who starts after that
                   finds nothing of it

librdkafka tells nothing between members but what the broker shows of them, and the broker shows a
client id under both protocols, during a rebalance too. The member is given partitions, and reads
none: they wait for the next start. Where it is killed it is gone after its session, so that nobody
meets an old request for longer.

Differs from Kafka, where the request goes through the assignor and reaches all at once
(`AssignorError.SHUTDOWN_REQUESTED`). Spec: KIP-671.
"""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import Future

from pystreams.errors import StreamsError
from pystreams.ids import TopicPartition
from pystreams.kernel.loggers import get_logger
from pystreams.runtime.cluster.group_description import GroupDescription, GroupMember
from pystreams.runtime.cluster.shutdown_mark import asking_client_id, asks_to_shut_down
from pystreams.runtime.ports import ConsumerPort
from pystreams.runtime.tasks.thread_parts import ThreadParts

_log = get_logger("pystreams.client")

_POLL_S = 0.2
_LOOK_EVERY_MS = 1_000
_SEEN_BY_ALL_MS = 35_000
"""Longer than any thread goes without a look at its group."""
_SEEN_FROM_OUTSIDE_MS = 2_000
"""Longer than who warms up goes without one: it is no member that could be waited for."""


class ApplicationShutdown:
    """The request of one process; `run` blocks until the others have ended.

    A member that processes one record for long learns of it at its next poll; after
    `max.poll.interval.ms` it is out of the group by itself, and nothing is waited for longer.

    Args:
        thread: The name of the thread that has failed; it has left the group.
    """

    def __init__(self, thread: str, parts: ThreadParts) -> None:
        self._parts = parts
        self._clock = parts.clock
        self._client_id = asking_client_id(thread)
        self._consumer: ConsumerPort = parts.clients.consumer(self._client_id, "")
        self._asked: Future[GroupDescription] | None = None
        self._began_ms = self._look_at_ms = parts.clock.monotonic_ms()
        self._shown_ms: float | None = None
        self._awaited: set[str] = set()
        self._left: list[GroupMember] = []

    def run(self) -> None:
        """Ask, and return when nobody is left, or the wait has been too long; raises nothing."""
        _log.info("asking all processes of the application to end", member=self._client_id)
        try:
            self.begin()
            while not self.step():
                pass
        except StreamsError as error:
            _log.warning("other processes may not have been told to end", why=str(error))
        finally:
            self.close()

    def begin(self) -> None:
        """Join the group."""
        self._consumer.subscribe(*self._parts.plan.consumed(), _Nothing())

    def step(self) -> bool:
        """Poll once, and look who is left when it is time; return whether it is over."""
        self._consumer.poll(1, _POLL_S)  # What it is given has no position: nothing is fetched.
        now_ms = self._clock.monotonic_ms()
        if self._asked is None and now_ms >= self._look_at_ms:
            self._look_at_ms = now_ms + _LOOK_EVERY_MS
            self._asked = self._parts.admin.describe_group(self._parts.plan.application_id)
        if self._asked is not None and self._asked.done() and self._looked(self._asked, now_ms):
            _log.info("all other processes of the application have ended")
            return True
        if now_ms - self._began_ms < self._parts.settings.membership.max_poll_interval_ms:
            return False
        _log.warning(
            "processes of the application are still there, and may not end",
            members=[str(member) for member in self._left],
            cure="stop them",
        )
        return True

    def close(self) -> None:
        """Leave the group."""
        try:
            self._consumer.close(leave=True)
        except StreamsError as error:
            _log.warning("the request to end stays until its session ends", why=str(error))

    def _looked(self, asked: Future[GroupDescription], now_ms: float) -> bool:
        """Take an answer; return whether all that were to be told have gone."""
        self._asked = None
        try:
            members = asked.result().members
        except StreamsError as error:
            _log.debug("the group can't be looked at", why=str(error))
            return False
        self._left = [member for member in members if not asks_to_shut_down(member)]
        ids = {member.member_id for member in self._left}
        if self._shown_ms is None:
            self._awaited |= ids
            if any(member.client_id == self._client_id for member in members):
                self._shown_ms = now_ms
        if self._shown_ms is None:
            return False
        # Who came later has looked, or looks soon; a supervisor may start one again and again.
        shown_ms = now_ms - self._shown_ms
        if not ids:
            return shown_ms >= _SEEN_FROM_OUTSIDE_MS
        return shown_ms >= _SEEN_BY_ALL_MS and self._awaited.isdisjoint(ids)


class _Nothing:
    """A rebalance listener: what is assigned stays where it is."""

    def on_partitions_assigned(self, partitions: Iterable[TopicPartition]) -> None:
        """Read nothing."""

    def on_partitions_revoked(self, partitions: Iterable[TopicPartition]) -> None:
        """Commit nothing."""

    def on_partitions_lost(self, partitions: Iterable[TopicPartition]) -> None:
        """Drop nothing."""
