"""Which members of a group a newcomer waits for: those that may have died."""

from __future__ import annotations

from collections.abc import Sequence

from pystreams.runtime.cluster.group_description import GroupMember
from pystreams.runtime.loop.membership.silences import Silences

SESSION_MS = 10_000


def member(name: str, number: int = 1) -> GroupMember:
    """Return a member with a name of its own, and an id that each of its starts changes."""
    return GroupMember(f"{name}-id{number}", name, "", frozenset(), name)


MEMBERS = A, B, *_ = [member(name) for name in "abcd"]


def waited_ms(silences: Silences, looks: Sequence[Sequence[GroupMember]], every_ms: int) -> int:
    """Note who is silent at each look; return when nobody was waited for (ms), after the first."""
    begun = False
    for number, silent in enumerate(looks):
        silences.note(number * every_ms, silent)
        dead = silences.dead(number * every_ms, MEMBERS)
        if begun and not dead:
            return number * every_ms
        begun |= bool(dead)
    raise AssertionError("it still waits")


def test_one_that_is_silent_for_longer_than_its_session_lives() -> None:
    assert waited_ms(Silences(SESSION_MS), [[], *[[A]] * 30], 500) == SESSION_MS


def test_one_that_is_silent_now_and_then_is_waited_for_as_long_as_it_is_silent() -> None:
    silences = Silences(SESSION_MS)
    for number in range(20):
        silences.note(number * 500, [A] if number < 8 else [])
    silences.note(10_000, [A])
    silences.note(15_000, [A])

    assert silences.dead(15_000, MEMBERS) == {A.member_id}
    silences.note(16_000, [A])
    assert silences.dead(16_000, MEMBERS) == set()


def test_members_that_are_silent_in_turn_are_waited_for_two_sessions_at_most() -> None:
    looks = [[MEMBERS[number % 4]] for number in range(100)]

    assert waited_ms(Silences(SESSION_MS), looks, 1000) == 2 * SESSION_MS


def test_time_without_an_answer_counts() -> None:
    silences = Silences(SESSION_MS)
    silences.note(0, [])
    silences.note(1000, [A])

    assert silences.dead(9000, [A]) == {A.member_id}
    assert silences.dead(10_000, [A]) == set()


def test_one_that_is_out_of_the_group_is_not_waited_for() -> None:
    silences = Silences(SESSION_MS)
    silences.note(0, [A, B])

    assert silences.dead(100, [B]) == {B.member_id}


def test_one_that_starts_again_and_again_is_waited_for_once() -> None:
    silences = Silences(SESSION_MS)
    for number in range(11):
        again = member("a", number)
        silences.note(number * 1000, [again])
        assert silences.dead(number * 1000, [again]) == (
            {again.member_id} if number < 10 else set()
        )
