"""Where in the order of a group a new process has its place: where fewest tasks move for it.

Range gives contiguous partitions to members in their order, so that a member that comes shifts the
shares of those before and behind it. In the middle it takes from both sides, and others get least:

    A: 0-5  B: 6-11    C first:   C: 0-3  A: 4-7  B: 8-11     A gets 6 and 7, B nothing
                       between:   A: 0-3  C: 4-7  B: 8-11     nobody gets any but C

The order is by `group.instance.id`, in which an application's processes have their ids, random
UUIDs. One that has none yet takes one between those of its neighbours, random again: several that
come at once have others.

What others get there, each gets from its neighbour on the outer side, and would get too if that one
died: where there are standbys it is warm (`standby_placement`), but for a task now and then.
"""

from __future__ import annotations

import uuid
from bisect import bisect
from collections.abc import Callable, Collection, Iterable, Sequence
from itertools import pairwise

from pystreams.runtime.cluster.group_description import GroupMember
from pystreams.runtime.cluster.standby_placement import in_order, share_of

_HIGHEST = (1 << 128) - 1
_COMES = ""
_ROOM = 1 << 64
"""What must lie between two ids for a random one between them to be nobody else's."""


def id_of_newcomer(
    members: Iterable[GroupMember],
    application_id: str,
    threads: int,
    task_counts: Collection[int],
    random_below: Callable[[int], int],
) -> uuid.UUID | None:
    """Return the id of a process that comes; None where any is as good.

    Args:
        members: The group.
        threads: How many members it becomes.
        task_counts: How many tasks each sub-topology has whose tasks are to move little.
        random_below: Returns a random number below one.
    """
    prefix = f"{application_id}-"
    ranked = [member.group_instance_id or "" for member in in_order(members)]
    ids = sorted({found.int for name in ranked if (found := _id_in(name, prefix)) is not None})
    if not ids:
        return None
    names = [name.encode() for name in ranked if name]

    processes = [name.rpartition("-")[0] or str(index) for index, name in enumerate(ranked)]

    def cost(room: tuple[int, int]) -> tuple[int, int]:
        middle = uuid.UUID(int=sum(room) // 2)
        index = bisect(names, f"{prefix}{middle}-1".encode())
        with_it = [*processes[:index], *[_COMES] * threads, *processes[index:]]
        moved = sum(_moved_to_others(count, processes, with_it) for count in task_counts)
        return moved, abs(2 * index - len(ranked))

    rooms = [room for room in pairwise([0, *ids, _HIGHEST]) if room[1] - room[0] > _ROOM]
    if not rooms:
        return None
    low, high = min(rooms, key=cost)
    half = (high - low) // 2
    return uuid.UUID(int=low + half // 2 + random_below(half))


def _moved_to_others(count: int, before: Sequence[str], after: Sequence[str]) -> int:
    """Return how many of so many tasks go from one process to another, not to the one that comes.

    Args:
        before: The process of each member, in order.
        after: The same with the one that comes.
    """
    pairs = zip(_owners(count, before), _owners(count, after), strict=True)
    return sum(new not in {old, _COMES} for old, new in pairs)


def _owners(count: int, processes: Sequence[str]) -> list[str]:
    """Return the process of each task."""
    shares = (share_of(count, index, len(processes)) for index in range(len(processes)))
    return [name for name, share in zip(processes, shares, strict=True) for _ in share]


def _id_in(instance_id: str, prefix: str) -> uuid.UUID | None:
    """Return the id of a process in the name of one of its members; None if that is another."""
    name, _, thread = instance_id.removeprefix(prefix).rpartition("-")
    try:
        found = uuid.UUID(name)
    except ValueError:
        return None
    return found if f"{prefix}{found}-{thread}" == instance_id else None
