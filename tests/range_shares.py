"""What assignment by range gives to the members of a group."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from pystreams.ids import TopicPartition
from pystreams.runtime.cluster.group_description import GroupMember
from pystreams.runtime.cluster.standby_placement import in_order


def range_shares(
    members: Collection[GroupMember], partitions: Mapping[str, int]
) -> dict[str, set[TopicPartition]]:
    """Return what range gives to each member, by member id, if all read the same topics.

    Args:
        partitions: How many partitions each topic has.
    """
    shares: dict[str, set[TopicPartition]] = {member.member_id: set() for member in members}
    for topic, count in partitions.items():
        each, more = divmod(count, len(members))
        numbers = iter(range(count))
        for index, member in enumerate(in_order(members)):
            own = zip(range(each + (index < more)), numbers, strict=False)
            shares[member.member_id] |= {TopicPartition(topic, number) for _, number in own}
    return shares
