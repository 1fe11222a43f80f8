"""The processes of an application, as its group has them: who has which tasks, and who differs."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from pystreams.deploy.results_digest import differ
from pystreams.ids import TaskId, TopicPartition
from pystreams.runtime.cluster.group_description import (
    GroupDescription,
    GroupMember,
    of_another_topology,
)
from pystreams.runtime.cluster.partial_tasks import stranded
from pystreams.runtime.cluster.streams_metadata import HostInfo, digest_of, host_of
from pystreams.topology.plan.topology_plan import TopologyPlan

_OF_A_THREAD = re.compile(r"-StreamThread-\d+-consumer(@.*)?$")


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupProcess:
    """One process of the group.

    Attributes:
        name: What its threads' names begin with.
        host: Where it runs, as the broker sees it.
        host_info: Where it answers (`application.server`); None if it does not say.
        is_here: Whether it is this one.
        threads: How many of its threads are members.
        runs_another_topology: Whether it can't be running this topology, or says that it runs
            another one.
        topics: What it reads.
    """

    name: str
    host: str
    host_info: HostInfo | None
    is_here: bool
    threads: int
    tasks: tuple[TaskId, ...]
    runs_another_topology: bool
    topics: tuple[str, ...]


def processes_of(
    group: GroupDescription,
    plan: TopologyPlan,
    tasks: Mapping[TaskId, Collection[TopicPartition]],
    threads: Collection[str],
    digest: str,
) -> list[GroupProcess]:
    """Return the processes of a group, this one first, the others in order of their names.

    Args:
        tasks: What each of its tasks reads.
        threads: The names of this process' stream threads.
        digest: Of the topology, as each process tells its own (`deploy.results_digest`).
    """
    ours = {f"{thread}-consumer" for thread in threads}
    by_process: dict[tuple[bool, str, str], list[GroupMember]] = {}
    for member in group.members:
        is_here = member.client_id.partition("@")[0] in ours
        name = _OF_A_THREAD.sub("", member.client_id)
        by_process.setdefault((not is_here, name, _told_apart(member)), []).append(member)
    here = {
        partition
        for (elsewhere, *_), members in by_process.items()
        for member in members
        if not elsewhere
        for partition in member.partitions
    }
    _, split = stranded(tasks, here)
    others = [
        member
        for (elsewhere, *_), members in by_process.items()
        if elsewhere and group.settled  # Before that they have what they had for another sharing.
        for member in members
    ]
    strangers = of_another_topology(others, plan.reads, split)
    strangers += [member for member in others if differ(digest_of(member.client_id), digest)]
    return [
        GroupProcess(
            name=name,
            host=members[0].host,
            host_info=host_of(members[0].client_id),
            is_here=not elsewhere,
            threads=len(members),
            tasks=_tasks_of(members, tasks),
            runs_another_topology=any(member in strangers for member in members),
            topics=tuple(sorted({topic for each in members for topic, _ in each.partitions})),
        )
        for (elsewhere, name, _), members in sorted(by_process.items())
    ]


def _told_apart(member: GroupMember) -> str:
    """Return what tells processes of one name apart: their identity in the group, or address."""
    identity, _, _ = (member.group_instance_id or "").rpartition("-")
    return identity or member.client_id.partition("@")[2] or member.host


def _tasks_of(
    members: Collection[GroupMember], tasks: Mapping[TaskId, Collection[TopicPartition]]
) -> tuple[TaskId, ...]:
    return tuple(
        task
        for task, needed in sorted(tasks.items())
        if needed and any(member.partitions.issuperset(needed) for member in members)
    )
