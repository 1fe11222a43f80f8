"""Where in the order of its group a process has its place that comes."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from pystreams.ids import TaskId, TopicPartition
from pystreams.runtime.cluster.group_description import GroupMember
from pystreams.runtime.cluster.newcomer_place import id_of_newcomer
from pystreams.runtime.cluster.standby_placement import standby_tasks, tasks_given

APPLICATION = "orders-v2"


def member(process: uuid.UUID | str, thread: int = 1) -> GroupMember:
    name = process if isinstance(process, str) else f"{APPLICATION}-{process}"
    return GroupMember(f"{name}-{thread}", "client", "host", frozenset(), f"{name}-{thread}")


def tasks_of(count: int) -> dict[TaskId, list[TopicPartition]]:
    return {TaskId(0, partition): [TopicPartition("in", partition)] for partition in range(count)}


def shares(members: Sequence[GroupMember], count: int) -> dict[str, set[TaskId]]:
    tasks = tasks_of(count)
    return {each.member_id: tasks_given(members, each.member_id, tasks) for each in members}


def process_of(member_id: str) -> str:
    return member_id.rpartition("-")[0]


def moved_to_others(
    members: Sequence[GroupMember], comes: Sequence[GroupMember], count: int
) -> int:
    """Return how many tasks go from one process to another that was there before."""
    before, after = shares(members, count), shares([*members, *comes], count)
    here = {task: process_of(name) for name, tasks in before.items() for task in tasks}
    return sum(
        here[task] != process_of(each.member_id)
        for each in members
        for task in after[each.member_id]
    )


def uuids(number: int, seed: int = 0) -> list[uuid.UUID]:
    random = Random(seed)
    return [uuid.UUID(int=random.getrandbits(128)) for _ in range(number)]


def newcomer(
    members: Sequence[GroupMember], threads: int, count: int, seed: int = 0
) -> list[GroupMember]:
    found = id_of_newcomer(members, APPLICATION, threads, [count], Random(seed).randrange)
    assert found is not None
    return [member(found, thread) for thread in range(1, threads + 1)]


def test_the_third_of_three_takes_tasks_from_both_others_and_gives_them_none() -> None:
    members = [member(each) for each in uuids(2)]
    comes = newcomer(members, 1, 12)

    assert moved_to_others(members, comes, 12) == 0
    assert len(shares([*members, *comes], 12)[comes[0].member_id]) == 4


@settings(deadline=None, max_examples=200)
@given(
    processes=st.integers(1, 7),
    threads=st.integers(1, 3),
    count=st.integers(1, 24),
    seed=st.integers(0, 1000),
)
def test_no_other_place_moves_fewer_tasks_between_those_that_are_there(
    processes: int, threads: int, count: int, seed: int
) -> None:
    members = [
        member(each, thread) for each in uuids(processes, seed) for thread in range(1, threads + 1)
    ]
    comes = newcomer(members, threads, count, seed)
    moved = moved_to_others(members, comes, count)

    for other in uuids(20, seed + 1):
        elsewhere = [member(other, thread) for thread in range(1, threads + 1)]
        assert moved <= moved_to_others(members, elsewhere, count)


@settings(deadline=None, max_examples=200)
@given(processes=st.integers(2, 9), tasks_each=st.integers(1, 5), seed=st.integers(0, 1000))
def test_what_others_get_from_each_other_their_standbys_have_but_for_one_task(
    processes: int, tasks_each: int, seed: int
) -> None:
    count = processes * tasks_each
    names = [member(each) for each in uuids(processes, seed)]
    before = shares(names, count)
    members = [
        GroupMember(
            each.member_id,
            "client",
            "host",
            frozenset(TopicPartition("in", task.partition) for task in before[each.member_id]),
            each.group_instance_id,
        )
        for each in names
    ]
    after = shares([*members, *newcomer(members, 1, count, seed)], count)

    cold = set[TaskId]()
    for each in members:
        kept = standby_tasks(members, each.member_id, tasks_of(count), 1)
        cold |= after[each.member_id] - before[each.member_id] - kept
    assert len(cold) <= 1


def test_of_two_that_come_at_once_each_has_an_id_of_its_own() -> None:
    members = [member(each) for each in uuids(3)]
    found = {newcomer(members, 1, 12, seed)[0].member_id for seed in range(50)}

    assert len(found) == 50


def test_there_is_room_for_thousands_one_after_the_other() -> None:
    members = [member(each) for each in uuids(2)]
    for seed in range(200):
        comes = newcomer(members, 1, 1000, seed)
        assert comes[0].member_id not in {each.member_id for each in members}
        members = sorted([*members, *comes], key=lambda each: each.member_id)[-30:]


def test_in_a_group_of_nobody_or_of_names_of_the_users_any_id_is_as_good() -> None:
    named = [member("blue"), member("green"), member(f"other-{uuids(1)[0]}")]

    for members in ([], named):
        assert id_of_newcomer(members, APPLICATION, 1, [12], Random(0).randrange) is None


def test_names_of_the_users_count_where_they_stand_in_the_order() -> None:
    members = [*(member(each) for each in uuids(2)), member("zz-first"), member("zz-second")]
    comes = newcomer(members, 1, 20)
    moved = moved_to_others(members, comes, 20)

    assert all(
        moved <= moved_to_others(members, [member(other)], 20) for other in uuids(50, seed=9)
    )
