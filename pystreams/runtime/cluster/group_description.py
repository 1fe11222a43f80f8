"""What the broker says about a consumer group, and what follows from it for one topology."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass

from pystreams.ids import TopicPartition, by_topic


@dataclass(frozen=True, slots=True)
class GroupMember:
    """One member of a group.

    Attributes:
        member_id: Its id, new each time it joins.
        host: Where it runs, as the broker sees it.
        partitions: What it was given last; it may have died since.
        group_instance_id: What makes it a static member; None for others.
    """

    member_id: str
    client_id: str
    host: str
    partitions: frozenset[TopicPartition]
    group_instance_id: str | None = None

    def __str__(self) -> str:
        """Return who it is and which topics it reads, for a log."""
        topics = ", ".join(by_topic(self.partitions)) or "nothing"
        return f"{self.client_id} on {self.host} (reads {topics})"


@dataclass(frozen=True, slots=True)
class GroupDescription:
    """A group at one moment.

    Attributes:
        settled: Whether all members have what they are to have; False during a rebalance.
        members: All members, those included that have died and whose session has not ended yet.
    """

    settled: bool
    members: tuple[GroupMember, ...]

    def others(self, member_id: str) -> list[GroupMember]:
        """Return the members beside one, in order of their names."""
        found = (member for member in self.members if member.member_id != member_id)
        return sorted(found, key=lambda member: (member.client_id, member.member_id))

    def unowned(self, partitions: Iterable[TopicPartition]) -> set[TopicPartition]:
        """Return those of the partitions that no member has."""
        return set(partitions).difference(*(member.partitions for member in self.members))


def of_another_topology(
    members: Iterable[GroupMember],
    reads: Callable[[str], bool],
    split: Collection[TopicPartition],
) -> list[GroupMember]:
    """Return the members that can't run this topology.

    Args:
        reads: Whether this topology reads a topic.
        split: Partitions of tasks that somebody else has the rest of: members of one topology are
            given tasks whole.
    """
    return [
        member
        for member in members
        if not member.partitions.isdisjoint(split)
        or not all(reads(topic) for topic, _ in member.partitions)
    ]
