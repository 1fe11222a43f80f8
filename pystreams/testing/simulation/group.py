"""The consumer group of a simulated broker.

Two protocols, with the same range assignment:

- eager (`classic`): a change of membership stops everybody: each member gives up all it has at its
  next poll, and when all have joined again a new generation shares everything out;
- incremental (KIP-848): each change sets a new target; a member gives up what is not its own any
  more, and takes what nobody else holds.

A member that does not poll for a session is out. Whatever it then commits is refused. A static
member of the eager protocol that comes back before is given what it had, whatever it subscribes to
by then, and nobody else is told.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from pystreams.errors import TaskMigratedError
from pystreams.ids import TopicPartition
from pystreams.kernel.clock import Clock
from pystreams.runtime.cluster.committed_offsets import CommittedOffset
from pystreams.runtime.cluster.group_description import GroupDescription, GroupMember


class GroupMetadata(NamedTuple):
    """What fences a transaction's offsets: who commits, of which generation."""

    member_id: str
    generation: int


NO_MEMBER = GroupMetadata("", -1)
"""Of a consumer that has not joined: accepted for transactions, as of producers before KIP-447."""


@dataclass(slots=True)
class Member:
    """One member of the group.

    Attributes:
        client_id: Of the first, of static members that have taken each other's place.
        instance_id: Makes it static; None otherwise.
        seen_ms: When it polled last (ms).
        generation: The generation it has joined; a commit must name it.
        joined: Whether it takes part in the rebalance that is going on (eager protocol).
    """

    member_id: str
    client_id: str
    topics: tuple[str, ...]
    instance_id: str | None
    seen_ms: float
    generation: int = -1
    joined: bool = False
    owned: list[TopicPartition] = field(default_factory=list)


@dataclass(slots=True)
class GroupCoordinator:
    """Members, assignments and committed offsets of one group.

    Attributes:
        partition_count: Returns the partition count of a topic.
        session_timeout_ms: After so long without a poll a member is out (ms).
        offsets: Committed offsets that everybody may see.
        refused: Partitions for which somebody tried to commit who had lost them.
        generation: Counts rebalances.
        rebalancing: Whether members are waited for (eager protocol).
    """

    partition_count: Callable[[str], int]
    clock: Clock
    session_timeout_ms: int
    incremental: bool
    offsets: dict[TopicPartition, CommittedOffset] = field(default_factory=dict, init=False)
    refused: set[TopicPartition] = field(default_factory=set, init=False)
    generation: int = field(default=0, init=False)
    rebalancing: bool = field(default=False, init=False)
    _members: dict[str, Member] = field(default_factory=dict, init=False)
    _target: dict[str, list[TopicPartition]] = field(default_factory=dict, init=False)
    _last_member: int = field(default=0, init=False)
    _rotation: int = field(default=0, init=False)

    # ------------------------------------------------------------------ membership

    def join(self, client_id: str, topics: Sequence[str], instance_id: str | None = None) -> Member:
        """Add a new member; the others learn of it at their next poll.

        Args:
            instance_id: Makes it a static one under the eager protocol: it takes the place of the
                member that had this id.
        """
        self._last_member += 1
        member = Member(
            f"{client_id}-{self._last_member}",
            client_id,
            tuple(topics),
            None if self.incremental else instance_id,
            self.clock.monotonic_ms(),
        )
        before = self._static_member(member.instance_id)
        self._members[member.member_id] = member
        if before is None:
            self.rebalance()
            return member
        del self._members[before.member_id]
        member.client_id = before.client_id
        self._target[member.member_id] = self._target.pop(before.member_id, [])
        member.joined = not self.rebalancing
        return member

    def _static_member(self, instance_id: str | None) -> Member | None:
        if instance_id is None:
            return None
        members = self._members.values()
        return next((member for member in members if member.instance_id == instance_id), None)

    def leave(self, member: Member) -> None:
        """Remove a member, if it is one."""
        if self._members.pop(member.member_id, None) is not None:
            self.rebalance()

    def resubscribe(self, member: Member, topics: tuple[str, ...]) -> None:
        """Let a member read these topics from now on."""
        member.topics = topics
        self.rebalance()

    def knows(self, member: Member) -> bool:
        """Return whether this is still a member."""
        return member.member_id in self._members

    def members(self) -> list[str]:
        """Return the ids of the members, sorted."""
        return sorted(self._members)

    def describe(self) -> GroupDescription:
        """Return who is in the group and what each has been given."""
        members = tuple(
            GroupMember(
                member.member_id,
                member.client_id,
                "simulated",
                frozenset(member.owned if self.incremental else self._target.get(member_id, ())),
                member.instance_id,
            )
            for member_id, member in sorted(self._members.items())
        )
        settled = not self.rebalancing
        if self.incremental:
            settled = all(
                set(member.owned) == set(self._target[name])
                for name, member in self._members.items()
            )
        return GroupDescription(settled, members)

    def touch(self, member: Member) -> None:
        """Note that a member polls."""
        member.seen_ms = self.clock.monotonic_ms()

    def touch_all(self) -> None:
        """Let every member's session begin anew."""
        for member in self._members.values():
            self.touch(member)

    def expire(self) -> list[str]:
        """Throw out members that have not polled for a session; return their ids."""
        now = self.clock.monotonic_ms()
        gone = [
            member.member_id
            for member in self._members.values()
            if now - member.seen_ms > self.session_timeout_ms
        ]
        for member_id in gone:
            del self._members[member_id]
        if gone:
            self.rebalance()
        return gone

    def rebalance(self, *, rotate: bool = False) -> None:
        """Share partitions out anew.

        Args:
            rotate: Give everybody the next member's share.
        """
        self.generation += 1
        self._rotation += rotate
        if self.incremental:
            self._target = self._range()
            return
        self.rebalancing = True
        for member in self._members.values():
            member.joined = False

    # ------------------------------------------------------------------ eager protocol

    def rejoin(self, member: Member) -> None:
        """Take part in the rebalance; the member has given up what it had."""
        member.owned = []
        member.joined = True
        member.generation = -1
        if all(other.joined for other in self._members.values()):
            self._target = self._range()
            self.rebalancing = False

    def assignment(self, member: Member) -> list[TopicPartition]:
        """Return what a member was given, which makes it part of this generation."""
        member.generation = self.generation
        member.owned = self._target[member.member_id]
        return member.owned

    # ------------------------------------------------------------------ incremental protocol

    def to_revoke(self, member: Member) -> list[TopicPartition]:
        """Return what a member must give up."""
        target = self._target[member.member_id]
        return [partition for partition in member.owned if partition not in target]

    def released(self, member: Member, partitions: Iterable[TopicPartition]) -> None:
        """Note that a member has given partitions up."""
        gone = set(partitions)
        member.owned = [partition for partition in member.owned if partition not in gone]

    def to_assign(self, member: Member) -> list[TopicPartition]:
        """Return what a member may take now: its own, and held by nobody else."""
        held = {partition for other in self._members.values() for partition in other.owned}
        target = self._target[member.member_id]
        return [partition for partition in target if partition not in held]

    def taken(self, member: Member, partitions: Sequence[TopicPartition]) -> None:
        """Note that a member has taken partitions."""
        member.owned = [*member.owned, *partitions]

    # ------------------------------------------------------------------ offsets

    def metadata(self, member: Member) -> GroupMetadata:
        """Return what fences a member's commits."""
        return GroupMetadata(member.member_id, member.generation)

    def check(self, metadata: GroupMetadata) -> None:
        """Check that a commit comes from a member of this generation.

        While the others are waited for, commits of the last generation are still taken.

        Raises:
            TaskMigratedError: It does not.
        """
        if metadata == NO_MEMBER:
            return
        member = self._members.get(metadata.member_id)
        if member is None:
            raise TaskMigratedError(f"unknown member {metadata.member_id!r}")
        current = member.generation
        if metadata.generation != current or current < 0:
            raise TaskMigratedError(
                f"member {metadata.member_id!r} commits for generation {metadata.generation}, "
                f"it is {current} now"
            )

    def commit(self, offsets: Mapping[TopicPartition, CommittedOffset]) -> None:
        """Make offsets visible."""
        self.offsets.update(offsets)

    def forget_topic(self, topic: str) -> None:
        """Delete the offsets of a topic, which is deleted."""
        self.offsets = {
            partition: offset
            for partition, offset in self.offsets.items()
            if partition.topic != topic
        }

    # ------------------------------------------------------------------ inside

    def _rank(self, name: str) -> tuple[bool, str]:
        """Return where a member comes in the order of range: static ones by their instance id."""
        instance_id = self._members[name].instance_id
        return instance_id is None, name if instance_id is None else instance_id

    def _range(self) -> dict[str, list[TopicPartition]]:
        """Return Kafka's range assignment: topic by topic, contiguous partitions in member order.

        Topics of equal partition counts come out co-partitioned, if all members read them.
        """
        shares: dict[str, list[TopicPartition]] = {name: [] for name in self._members}
        topics = sorted({topic for member in self._members.values() for topic in member.topics})
        for topic in topics:
            reading = (name for name, member in self._members.items() if topic in member.topics)
            readers = sorted(reading, key=self._rank)
            turn = self._rotation % len(readers)
            readers = readers[turn:] + readers[:turn]
            count = self.partition_count(topic)
            each, more = divmod(count, len(readers))
            start = 0
            for index, name in enumerate(readers):
                end = start + each + (1 if index < more else 0)
                shares[name] += [TopicPartition(topic, number) for number in range(start, end)]
                start = end
        return shares
