"""Which member keeps which task warm: worked out by each by itself, from what all can see.

No assignor of ours runs in the group: librdkafka's leader or the broker shares partitions out by
range, topic by topic, over the members in their order. So everybody can work out what would come
to it if other processes died, and that is what it keeps warm:

    now           A: 0 1 2 3   B: 4 5 6 7     C: 8 9 10 11
    without A                  B: 0 1 2 3 4 5    C: 6 7 8 9 10 11     B keeps 0-3, C keeps 6 and 7

Processes that share a state directory, as their client ids tell, have one copy of a task together:
none keeps what another of them runs, or keeps.

Two members may see different groups for a moment. Then a task is kept twice, or by nobody for that
long; either costs time, and no result depends on it.

Members are in one order for both protocols: by `group.instance.id`, who has none by member id.
Source: librdkafka's `rd_kafka_group_member_cmp`, Kafka's `RangeAssignor` of the group coordinator.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence

from pystreams.ids import TaskId, TopicPartition
from pystreams.runtime.cluster.group_description import GroupMember
from pystreams.runtime.cluster.streams_metadata import directory_of

_THREAD = "-StreamThread-"

Gone = tuple[int, int]
"""How many members are gone, of those before one and of all."""


def in_order(members: Iterable[GroupMember]) -> list[GroupMember]:
    """Return members as range goes over them."""
    return sorted(members, key=_rank)


def processes(members: Iterable[GroupMember]) -> dict[str, str]:
    """Return the process that each member is a thread of, by member id.

    Threads of a process have a name in common, in their `group.instance.id` or else in their
    client id. Where processes of one host were given one `client.id`, each member counts as a
    process of its own.
    """
    members = list(members)
    names = Counter((member.client_id, member.host) for member in members)
    found = {}
    for member in members:
        if member.group_instance_id is not None:
            process = member.group_instance_id.rpartition("-")[0]
        elif names[member.client_id, member.host] > 1:
            process = member.member_id
        else:
            name, _, thread = member.client_id.rpartition(_THREAD)
            process = f"{name}@{member.host}@{thread.partition('@')[2]}"
        found[member.member_id] = process
    return found


def standby_tasks(
    members: Sequence[GroupMember],
    member_id: str,
    tasks: Mapping[TaskId, Collection[TopicPartition]],
    replicas: int,
) -> set[TaskId]:
    """Return the tasks that one member keeps warm for other processes.

    Args:
        members: The group, of which nobody runs another topology.
        member_id: The member; one that is not in the group keeps nothing.
        tasks: What each task reads.
        replicas: How many processes may die at once.
    """
    ranked = in_order(members)
    process_of = processes(members)
    place_of = {
        member.member_id: directory_of(member.client_id) or process_of[member.member_id]
        for member in members
    }
    own = place_of.get(member_id)
    if own is None:
        return set()
    topics = Counter(at.topic for reads in tasks.values() for at in reads)
    here = {
        at for member in members if place_of[member.member_id] == own for at in member.partitions
    }
    absent = [task_id for task_id, reads in tasks.items() if here.isdisjoint(reads)]
    for index, member in enumerate(ranked):
        if place_of[member.member_id] != own:
            continue
        shares = _shares_without_others(ranked, index, process_of, topics, replicas)
        kept = {
            task_id for task_id in absent if any(_is_in(share, tasks[task_id]) for share in shares)
        }
        if member.member_id == member_id:
            return kept
        # Of the threads of one place, the first that would get a task keeps it.
        absent = [task_id for task_id in absent if task_id not in kept]
    return set()


def tasks_given(
    members: Iterable[GroupMember],
    member_id: str,
    tasks: Mapping[TaskId, Collection[TopicPartition]],
) -> set[TaskId]:
    """Return the tasks that range gives to one of these members.

    Args:
        members: The group, the member among them; nobody runs another topology.
        tasks: What each task reads.
    """
    ranked = in_order(members)
    index = [member.member_id for member in ranked].index(member_id)
    topics = Counter(at.topic for reads in tasks.values() for at in reads)
    share = {topic: share_of(count, index, len(ranked)) for topic, count in topics.items()}
    return {task_id for task_id, reads in tasks.items() if _is_in(share, reads)}


def _shares_without_others(
    ranked: Sequence[GroupMember],
    index: int,
    process_of: Mapping[str, str],
    topics: Mapping[str, int],
    replicas: int,
) -> list[dict[str, range]]:
    """Return what a member may be given when up to so many other processes are gone.

    That depends on how many members are left, and how many of them come before it.
    """
    own = process_of[ranked[index].member_id]
    threads: dict[str, Gone] = {}
    for at, member in enumerate(ranked):
        process = process_of[member.member_id]
        if process != own:
            before, of_all = threads.get(process, (0, 0))
            threads[process] = (before + (at < index), of_all + 1)
    found: list[set[Gone]] = [{(0, 0)}, *(set[Gone]() for _ in range(replicas))]
    for before, of_all in threads.values():
        for died in range(replicas, 0, -1):
            found[died] |= {(first + before, all_ + of_all) for first, all_ in found[died - 1]}
    return [
        {
            topic: share_of(count, index - before, len(ranked) - of_all)
            for topic, count in topics.items()
        }
        for before, of_all in sorted(set().union(*found[1:]))
    ]


def share_of(count: int, index: int, members: int) -> range:
    """Return which of a topic's partitions range gives to the member at an index."""
    each, more = divmod(count, members)
    start = index * each + min(index, more)
    return range(start, start + each + (index < more))


def _is_in(share: Mapping[str, range], reads: Iterable[TopicPartition]) -> bool:
    """Return whether a share has all that a task reads."""
    return all(at.partition in share[at.topic] for at in reads)


def _rank(member: GroupMember) -> tuple[bool, bytes]:
    name = member.group_instance_id
    return name is None, (member.member_id if name is None else name).encode()
