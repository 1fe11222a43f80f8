"""Which member keeps which task warm, beside what range gives when processes die."""

from __future__ import annotations

from itertools import combinations

from hypothesis import given, settings
from hypothesis import strategies as st

from pystreams.ids import TaskId, TopicPartition
from pystreams.runtime.cluster.group_description import GroupMember
from pystreams.runtime.cluster.standby_placement import processes, standby_tasks
from pystreams.runtime.cluster.streams_metadata import client_id_with, directory_of
from tests.range_shares import range_shares

Tasks = dict[TaskId, list[TopicPartition]]


def member(
    process: int,
    thread: int,
    *,
    static: bool,
    rank: int,
    owned: frozenset[TopicPartition],
    directory: str = "",
) -> GroupMember:
    return GroupMember(
        member_id=f"{rank:04}-p{process}-{thread}",
        client_id=client_id_with(
            f"app-p{process}-StreamThread-{thread}-consumer", "", directory_id=directory
        ),
        host="host",
        partitions=owned,
        group_instance_id=f"app-p{process}-{thread}" if static else None,
    )


@st.composite
def groups(draw: st.DrawFn) -> tuple[list[GroupMember], Tasks]:
    """Return a settled group, some of whose processes share directories, and its tasks."""
    static = draw(st.booleans())
    threads = draw(st.lists(st.integers(1, 3), min_size=1, max_size=4))
    counts = draw(st.lists(st.integers(1, 9), min_size=1, max_size=3))
    tasks = {
        TaskId(number, partition): [TopicPartition(f"in-{number}", partition)]
        for number, count in enumerate(counts)
        for partition in range(count)
    }
    for partition in range(counts[0]):
        tasks[TaskId(0, partition)].append(TopicPartition("beside", partition))
    directories = [draw(st.sampled_from(["", "a", "b"])) for _ in threads]
    names = [(process, thread) for process, count in enumerate(threads) for thread in range(count)]
    ranks = draw(st.permutations(range(len(names))))
    made = [
        member(process, thread, static=static, rank=rank, owned=frozenset())
        for (process, thread), rank in zip(names, ranks, strict=True)
    ]
    shares = range_shares(made, partitions_of(tasks))
    owning = [
        member(
            process,
            thread,
            static=static,
            rank=rank,
            owned=frozenset(shares[f"{rank:04}-p{process}-{thread}"]),
            directory=directories[process],
        )
        for (process, thread), rank in zip(names, ranks, strict=True)
    ]
    return owning, tasks


def places(members: list[GroupMember]) -> dict[str, str]:
    """Return where each member has its state, by member id: what shares one has one copy."""
    process_of = processes(members)
    return {
        each.member_id: directory_of(each.client_id) or process_of[each.member_id]
        for each in members
    }


def partitions_of(tasks: Tasks) -> dict[str, int]:
    counts: dict[str, int] = {}
    for reads in tasks.values():
        for topic, _ in reads:
            counts[topic] = counts.get(topic, 0) + 1
    return counts


def owned_by(shares: dict[str, set[TopicPartition]], names: set[str], tasks: Tasks) -> set[TaskId]:
    return {
        task_id
        for task_id, reads in tasks.items()
        for name in names
        if shares.get(name, set()).issuperset(reads)
    }


@settings(deadline=None, max_examples=150)
@given(groups(), st.integers(1, 3))
def test_whoever_dies_the_others_have_warm_what_comes_to_them(
    drawn: tuple[list[GroupMember], Tasks], replicas: int
) -> None:
    members, tasks = drawn
    process_of, place_of = processes(members), places(members)
    names = {
        place: {name for name, of in place_of.items() if of == place} for place in place_of.values()
    }
    kept = {
        place: set().union(
            *(standby_tasks(members, name, tasks, replicas) for name in names[place])
        )
        for place in names
    }
    now = range_shares(members, partitions_of(tasks))
    for number in range(1, replicas + 1):
        for died in combinations(sorted(set(process_of.values())), number):
            left = [member for member in members if process_of[member.member_id] not in died]
            after = range_shares(left, partitions_of(tasks)) if left else {}
            for place, warm in kept.items():
                gained = owned_by(after, names[place], tasks)
                gained -= owned_by(now, names[place], tasks)
                assert gained <= warm


@settings(deadline=None, max_examples=150)
@given(groups(), st.integers(0, 3))
def test_nobody_keeps_what_runs_in_its_directory_and_no_thread_what_another_one_there_keeps(
    drawn: tuple[list[GroupMember], Tasks], replicas: int
) -> None:
    members, tasks = drawn
    place_of = places(members)
    for place in set(place_of.values()):
        own = [member for member in members if place_of[member.member_id] == place]
        kept = [standby_tasks(members, member.member_id, tasks, replicas) for member in own]
        all_kept = set().union(*kept)
        running = owned_by(
            {member.member_id: set(member.partitions) for member in own},
            {member.member_id for member in own},
            tasks,
        )

        assert sum(map(len, kept)) == len(all_kept)
        assert not all_kept & running
        if not replicas or len(set(place_of.values())) == 1:
            assert not all_kept


def test_what_three_processes_keep() -> None:
    """The example of the module."""
    tasks = {TaskId(0, number): [TopicPartition("in", number)] for number in range(12)}
    made = [member(number, 1, static=True, rank=number, owned=frozenset()) for number in range(3)]
    shares = range_shares(made, {"in": 12})
    members = [
        member(number, 1, static=True, rank=number, owned=frozenset(shares[made[number].member_id]))
        for number in range(3)
    ]
    kept = [
        sorted(task.partition for task in standby_tasks(members, name.member_id, tasks, 1))
        for name in members
    ]

    assert kept == [[4, 5], [0, 1, 2, 3, 8, 9, 10, 11], [6, 7]]


def test_processes_of_one_client_id_on_one_host_are_told_apart_by_their_members() -> None:
    def unnamed(name: str, host: str) -> GroupMember:
        return GroupMember(name, "app-StreamThread-1-consumer", host, frozenset())

    found = processes([unnamed("a", "first"), unnamed("b", "first"), unnamed("c", "second")])

    assert len(set(found.values())) == 3


def test_who_is_not_in_the_group_keeps_nothing() -> None:
    tasks = {TaskId(0, 0): [TopicPartition("in", 0)]}

    assert standby_tasks([], "somebody", tasks, 1) == set()
