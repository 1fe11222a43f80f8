"""How long the Python client believes an owner, by a clock that tests set."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from pystreams.client import HttpQueryError
from pystreams.client.owner_questions import OwnerQuestions
from pystreams.client.owners import KnownOwners, asked_for
from tests.broker.waiting import DEADLINE_S
from tests.http.scripted_application import TEXTS, compared

URL, OWNER = "http://url:1", "http://owner:1"
Answered = tuple[dict[str, Any], str | None]


class Asking:
    """Asks a process at a URL, and one that has all keys.

    Attributes:
        now_s: The time.
        owner: What the owner answers.
        asked: How many questions each got.
    """

    def __init__(self) -> None:
        self.now_s = 100.0
        self.owner: Callable[[], dict[str, Any]] = found
        self.asked = {URL: 0, OWNER: 0}
        self._owners = KnownOwners(lambda _: True, lambda: self.now_s)
        self._questions = OwnerQuestions(URL, self._ask, self._ask, self._owners)

    def get(self, key: str) -> dict[str, Any]:
        return self._questions.ask(asked_for("s", key, key, None), f"/v1/stores/s/{key}", {})

    def check(self) -> list[int]:
        """Ask for all keys; return how many questions the URL got, and the owner."""
        self.asked = {URL: 0, OWNER: 0}
        for key in TEXTS:
            assert self.get(key) == found()
            compared()
        return [*self.asked.values()]

    def _ask(self, url: str, path: str, asked: dict[str, Any]) -> Answered:
        self.asked[url] += 1
        if "limit" in asked:
            return {"partitions": [], "elsewhere": [0]}, None
        return (self.owner(), None) if url == OWNER else (found(), "owner:1")


def found() -> dict[str, Any]:
    return {"value": 1, "partition": 0, "position": {"in": {"0": 7}}}


@pytest.fixture
def asking() -> Asking:
    """Ask an owner that is believed."""
    asking = Asking()
    asking.check()
    assert asking.check() == [0, len(TEXTS)]
    return asking


@pytest.mark.parametrize("threads", [1, 10])
def test_one_failure_of_an_owner_counts_once_however_many_questions_meet_it(
    asking: Asking, threads: int
) -> None:
    met = threading.Barrier(threads)

    def failing() -> dict[str, Any]:
        met.wait(DEADLINE_S)
        raise HttpQueryError("does not answer", answer={})

    asking.owner = failing
    answers: list[dict[str, Any]] = []
    asked = [
        threading.Thread(target=lambda: answers.append(asking.get(TEXTS[0])))
        for _ in range(threads)
    ]
    for thread in asked:
        thread.start()
    for thread in asked:
        thread.join(DEADLINE_S)
    assert answers == [found()] * threads
    asking.owner = found
    asking.now_s += 29
    assert asking.check()[1] == 0
    asking.now_s += 1
    asking.check()
    assert asking.check() == [0, len(TEXTS)]


def test_a_failure_that_a_question_meets_late_says_nothing_of_an_owner_that_was_compared_since(
    asking: Asking,
) -> None:
    is_asked, is_over = threading.Event(), threading.Event()

    def failing() -> dict[str, Any]:
        raise HttpQueryError("does not answer", answer={})

    def failing_late() -> dict[str, Any]:
        is_asked.set()
        assert is_over.wait(DEADLINE_S)
        return failing()

    asking.owner = failing_late
    late = threading.Thread(target=asking.get, args=(TEXTS[0],))
    late.start()
    assert is_asked.wait(DEADLINE_S)
    asking.owner = failing
    asking.get(TEXTS[0])
    asking.owner = found
    asking.now_s += 30
    asking.check()
    is_over.set()
    late.join(DEADLINE_S)
    assert asking.check() == [0, len(TEXTS)]


def stranger(answer: dict[str, Any] | None) -> Callable[[], dict[str, Any]]:
    """Answer as another application: with something, or that there is no such key."""

    def answering() -> dict[str, Any]:
        if answer is None:
            told = {"status": 404, "partition": 0, "position": {}}
            raise HttpQueryError("there is no such key", status=404, answer=told)
        return answer

    return answering


@pytest.mark.parametrize("answer", [None, {"value": 2, "partition": 0, "position": {}}])
def test_another_application_at_the_address_of_an_owner_is_believed_for_a_minute_at_most(
    asking: Asking, answer: dict[str, Any] | None
) -> None:
    asking.now_s += 60
    asking.owner = stranger(answer)
    for times_asked in (1, 0):
        assert asking.check()[1] == times_asked  # To be compared; its answer is given to nobody.
    asking.owner = found
    asking.now_s += 29
    assert asking.check()[1] == 0
    asking.now_s += 1  # It is the owner's again.
    asking.check()
    assert asking.check() == [0, len(TEXTS)]


def test_an_owner_is_compared_again_each_minute_by_one_question_more(asking: Asking) -> None:
    for _ in range(3):
        asking.now_s += 60
        asked = len(TEXTS)
        # Who has the partition is no longer known, so that the first two are passed on by the URL.
        assert asking.check() == [2, asked - 1]
        assert asking.check() == [0, asked]


def test_an_owner_that_fails_as_it_is_compared_again_is_asked_again_after_half_a_minute(
    asking: Asking,
) -> None:
    """It starts again, say."""

    def failing() -> dict[str, Any]:
        raise HttpQueryError("does not answer", answer={})

    asking.now_s += 60
    asking.owner = failing
    assert asking.check()[1] == 1
    asking.owner = found
    asking.now_s += 30
    asking.check()
    assert asking.check() == [0, len(TEXTS)]
