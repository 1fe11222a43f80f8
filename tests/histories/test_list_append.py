"""Planted histories: each anomaly is found, and what is in order is left alone."""

from __future__ import annotations

from random import Random

import pytest

from tests.histories.list_append import Observation, anomalies

BOTH = frozenset({"x", "y"})


def appended(transaction: str, key: str, elements: str) -> Observation:
    return Observation(transaction, key, tuple(elements), is_append=True)


def read(transaction: str, key: str, elements: str) -> Observation:
    return Observation(transaction, key, tuple(elements), is_append=False)


def kinds(observations: list[Observation], **expected: frozenset[str]) -> set[str]:
    return {anomaly.kind for anomaly in anomalies(observations, expected)}


IN_ORDER = [
    appended("a", "x", "a"),
    appended("a", "y", "a"),
    appended("b", "x", "ab"),
    appended("b", "y", "ab"),
]


def test_a_serial_history_is_left_alone() -> None:
    assert kinds(IN_ORDER, a=BOTH, b=BOTH) == set()


@pytest.mark.parametrize("seed", range(20))
def test_any_serial_history_is_left_alone(seed: int) -> None:
    random = Random(seed)
    lists: dict[str, tuple[str, ...]] = dict.fromkeys("uvwxyz", ())
    observations = []
    expected = {}
    for number in range(60):
        name = f"t{number}"
        *keys, other = random.sample(sorted(lists), random.randint(2, 4))
        expected[name] = frozenset(keys)
        observations.append(Observation(name, other, lists[other], is_append=False))
        for key in keys:
            lists[key] += (name,)
            observations.append(Observation(name, key, lists[key], is_append=True))

    assert anomalies(observations, expected) == []


def test_a_transaction_that_is_nowhere_is_lost() -> None:
    assert kinds(IN_ORDER, a=BOTH, b=BOTH, c=BOTH) == {"lost"}


def test_an_append_that_did_not_stay_is_lost() -> None:
    observations = [appended("a", "x", "a"), appended("b", "x", "b")]

    assert "lost" in kinds(observations, a=frozenset("x"), b=frozenset("x"))


def test_a_transaction_of_which_a_part_is_missing_is_torn() -> None:
    assert kinds(IN_ORDER[:3], a=BOTH, b=BOTH) == {"torn"}


def test_an_append_that_nobody_asked_for_is_unknown() -> None:
    assert kinds(IN_ORDER, a=BOTH) == {"unknown"}
    assert kinds(IN_ORDER, a=BOTH, b=frozenset("x")) == {"unknown"}


def test_an_append_that_was_read_and_is_not_committed_is_an_aborted_read() -> None:
    assert kinds([IN_ORDER[0], *IN_ORDER[1:2], IN_ORDER[2]], a=BOTH, b=frozenset("x")) == set()
    assert kinds([*IN_ORDER[2:], IN_ORDER[0]], a=BOTH, b=BOTH) == {"aborted read", "out of order"}


def test_an_append_that_took_effect_twice_is_repeated() -> None:
    twice = [appended("a", "x", "a"), appended("a", "x", "aa")]

    assert kinds(twice, a=frozenset("x")) == {"repeated"}


def test_an_output_that_was_written_twice_is_repeated() -> None:
    twice = [appended("a", "x", "a"), appended("a", "x", "a")]

    assert kinds(twice, a=frozenset("x")) == {"repeated", "out of order"}


def test_lists_of_which_neither_continues_the_other_are_incompatible() -> None:
    observations = [appended("a", "x", "a"), appended("b", "x", "b"), appended("c", "x", "bc")]
    expected = dict.fromkeys("abc", frozenset("x"))

    assert "incompatible order" in kinds(observations, **expected)


def test_two_keys_with_opposite_orders_are_a_cycle_of_writes() -> None:
    observations = [*IN_ORDER[:1], IN_ORDER[2], appended("b", "y", "b"), appended("a", "y", "ba")]

    [found] = anomalies(observations, {"a": BOTH, "b": BOTH})

    assert str(found) in {"G0: a -ww x-> b -ww y-> a", "G0: b -ww y-> a -ww x-> b"}


def test_two_transactions_that_read_each_others_writes_are_a_cycle() -> None:
    observations = [
        appended("a", "x", "a"),
        read("a", "y", "b"),
        appended("b", "y", "b"),
        read("b", "x", "a"),
    ]

    assert kinds(observations, a=frozenset("x"), b=frozenset("y")) == {"G1c"}


def test_a_read_of_half_a_transaction_is_a_cycle_with_one_read_that_was_overtaken() -> None:
    observations = [*IN_ORDER[:2], read("r", "x", "a"), read("r", "y", "")]

    assert kinds(observations, a=BOTH, r=frozenset()) == {"G-single"}


def test_two_reads_that_were_overtaken_by_each_others_writes_are_a_cycle() -> None:
    observations = [
        read("a", "y", ""),
        appended("a", "x", "a"),
        read("b", "x", ""),
        appended("b", "y", "b"),
    ]

    assert kinds(observations, a=frozenset("x"), b=frozenset("y")) == {"G2"}
