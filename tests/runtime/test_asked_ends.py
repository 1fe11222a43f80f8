"""Ends that are asked for beside a thread: which partitions count as silent, and for how long."""

from __future__ import annotations

from concurrent.futures import Executor, Future
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from pystreams import TopicPartition
from pystreams.errors import RetriableClientError
from pystreams.runtime.loop.reports.asked_ends import AskedEnds
from pystreams.testing.simulation import ManualClock

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

PARTITIONS = [TopicPartition("in", number) for number in range(4)]
Answer = dict[TopicPartition, int] | Exception
FAILURE = RetriableClientError("a broker starts again")


class LateAnswers(Executor):
    """Questions that are answered by hand."""

    def __init__(self) -> None:
        self.asked: list[Sequence[TopicPartition]] = []
        self.answers: list[Future[Any]] = []

    def submit(self, _: Callable[..., Any], /, *args: Any, **__: Any) -> Future[Any]:
        self.asked.append(args[0])
        self.answers.append(Future())
        return self.answers[-1]


class Asking:
    """Four partitions, of which two have their turn each time."""

    def __init__(self) -> None:
        self.clock, self.questions, self._turns = ManualClock(), LateAnswers(), 0
        parts: Any = SimpleNamespace(
            admin=SimpleNamespace(told_ends=None),
            clock=self.clock,
            make_waiting_pool=lambda: self.questions,
        )
        self.ends = AskedEnds(parts, self._in_turn, lambda _: None)

    def _in_turn(self) -> list[TopicPartition]:
        self._turns += 1
        return PARTITIONS[:2] if self._turns % 2 else PARTITIONS[2:]

    def ask(self, *, after_ms: int = 30_000) -> Sequence[TopicPartition]:
        self.clock.advance_ms(after_ms)
        self.ends.check()
        return self.questions.asked[-1]

    def answer(self, answer: Answer) -> set[TopicPartition]:
        if isinstance(answer, Exception):
            self.questions.answers[-1].set_exception(answer)
        else:
            self.questions.answers[-1].set_result(answer)
        self.ends.check()
        return self.ends.silent


@pytest.fixture
def asking() -> Asking:
    return Asking()


def test_silent_partitions_are_asked_for_first_each_time(asking: Asking) -> None:
    assert asking.ask() == (*PARTITIONS[:2],)
    assert asking.answer({PARTITIONS[0]: 7}) == set()
    assert asking.ask(after_ms=5_000) == (PARTITIONS[1],)
    assert asking.answer({}) == {PARTITIONS[1]}

    assert asking.ask() == (PARTITIONS[1], *PARTITIONS[2:])
    assert asking.answer(dict.fromkeys(PARTITIONS[1:], 7)) == set()


def test_after_a_question_that_fails_nothing_is_silent_before_the_next_fails_too(
    asking: Asking,
) -> None:
    first = asking.ask()
    assert asking.answer(FAILURE) == set()

    assert asking.ask(after_ms=5_000) == first
    assert asking.answer(FAILURE) == set(first)


def test_a_broker_that_leaves_one_question_unanswered_makes_nothing_silent(asking: Asking) -> None:
    asking.ask()
    asking.answer({PARTITIONS[0]: 7})
    asking.ask(after_ms=5_000)

    assert asking.answer({PARTITIONS[1]: 7}) == set()
    assert asking.ask() == (*PARTITIONS[2:],)


def test_partitions_that_are_silent_as_before_are_not_asked_for_again_at_once(
    asking: Asking,
) -> None:
    asking.ask()
    asking.answer({})
    asking.ask(after_ms=5_000)
    asking.answer({})
    asking.ask()
    assert asking.answer(dict.fromkeys(PARTITIONS[2:], 7)) == set(PARTITIONS[:2])

    asking.ask(after_ms=5_000)
    assert len(asking.questions.asked) == 3


def test_a_question_that_fails_once_makes_nothing_silent(asking: Asking) -> None:
    first = asking.ask()
    asking.answer(FAILURE)
    asking.ask(after_ms=5_000)

    assert asking.answer(dict.fromkeys(first, 7)) == set()
    assert asking.ask() == (*PARTITIONS[2:],)


def test_what_is_revoked_while_a_question_is_under_way_is_not_silent(asking: Asking) -> None:
    asking.ask()
    asking.answer({})
    asking.ask(after_ms=5_000)
    asking.ends.forget([PARTITIONS[0]])

    assert asking.answer({}) == {PARTITIONS[1]}
