"""What a newcomer makes of what the processes of a group commit."""

from __future__ import annotations

from pystreams import TopicPartition
from pystreams.runtime.cluster.group_description import GroupMember
from pystreams.runtime.cluster.signs_of_life import SignsOfLife

ONE, OTHER = TopicPartition("in", 0), TopicPartition("in", 1)
MEMBERS = [
    GroupMember("a", "app-a-StreamThread-1-consumer", "host", frozenset({ONE})),
    GroupMember("b", "app-b-StreamThread-1-consumer", "host", frozenset({OTHER})),
]
PATIENCE_MS = 1000


def looked(*offsets: tuple[int, int, int, int]) -> list[list[str]]:
    """Return who is silent at each look, half a second apart.

    Args:
        offsets: For each look the committed offset and the end of a's partition, then of b's.
    """
    signs = SignsOfLife(PATIENCE_MS)
    found = []
    for turn, (one, one_end, other, other_end) in enumerate(offsets):
        committed, ends = {ONE: one, OTHER: other}, {ONE: one_end, OTHER: other_end}
        silent = signs.look(turn * 500.0, MEMBERS, committed, ends)
        found.append([member.member_id for member in silent])
    return found


def test_who_commits_nothing_while_its_input_grows_is_silent() -> None:
    seen = looked((1, 2, 1, 2), (2, 3, 1, 3), (3, 4, 1, 4), (4, 5, 1, 5), (5, 6, 1, 6))

    assert seen == [[], [], [], ["b"], ["b"]]


def test_records_that_wait_are_no_sign_while_none_comes() -> None:
    assert looked(*[(1, 9, 1, 2)] * 5) == [[]] * 5


def test_a_commit_that_becomes_visible_after_a_death_puts_it_off_alone() -> None:
    seen = looked(
        (1, 2, 1, 2), (2, 3, 2, 3), (3, 4, 2, 4), (4, 5, 2, 5), (5, 6, 2, 6), (6, 7, 2, 7)
    )

    assert seen == [[], [], [], [], ["b"], ["b"]]


def test_who_commits_again_is_silent_no_more() -> None:
    seen = looked((1, 2, 1, 2), (2, 3, 1, 3), (3, 4, 1, 4), (4, 5, 1, 5), (5, 6, 6, 6))

    assert seen[-2:] == [["b"], []]


def test_threads_of_one_process_live_and_die_together() -> None:
    signs = SignsOfLife(PATIENCE_MS)
    threads = [
        GroupMember("a1", "app-a-StreamThread-1-consumer", "host", frozenset({ONE})),
        GroupMember("a2", "app-a-StreamThread-2-consumer", "host", frozenset({OTHER})),
    ]
    for turn in range(6):
        committed, ends = {ONE: turn, OTHER: 1}, {ONE: turn + 1, OTHER: turn + 2}
        assert signs.look(turn * 500.0, threads, committed, ends) == []

    assert signs.alive == signs.processes
