"""Questions for keys, put to who has them as soon as that is known, and else to the URL.

Who is said to have a key is compared with the URL before it is believed: it may not be reachable
from here, and at its address there may be another application, through a tunnel or a port that is
forwarded. That costs up to two questions more, once, and a second at most if nothing answers.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

from pystreams.client.errors import HttpQueryError
from pystreams.client.in_time import in_time
from pystreams.client.owners import Asked, KnownOwners, Owner

Answer = dict[str, Any]
Asking = Callable[[str, str, dict[str, Any]], tuple[Answer, str | None]]
"""Is given a URL, a path and what is asked; returns the answer, and who was asked for it there."""


class OwnerQuestions:
    """Asks for keys.

    Args:
        url: Who answers for all keys.
        guess_s: How long one may take to answer that never has (s).
        owners: What is known of them.
    """

    def __init__(self, url: str, asking: Asking, guess_s: float, owners: KnownOwners) -> None:
        self._url = url
        self._asking = asking
        self._guess_s = guess_s
        self._owners = owners

    def ask(self, question: Asked, path: str, asked: dict[str, Any]) -> Answer:
        """Return the answer to a question.

        Raises:
            HttpQueryError: There is none.
        """
        owners = self._owners
        owner = owners.of(question)
        is_guess = owner is not None and not owners.is_proven(owner.place)
        if owner is not None and not is_guess:
            answer = self._of_owner(owner, question, path, asked)
            if answer is not None:
                return answer
        found, passed_on_to = self._asking(self._url, path, asked)
        if owners.is_to_be_counted(question.store, found, passed_on_to):
            with contextlib.suppress(HttpQueryError):
                of_store, _, _ = path.rpartition("/")
                counted, _ = self._asking(self._url, of_store, {"limit": 1})
                owners.counted(question.store, counted)
        owners.learn(question, found, None, passed_on_to)
        if is_guess and owner is not None and owner.place == passed_on_to:
            with owners.comparing(owner.place) as is_ours:
                if is_ours:
                    self._compare(owner.place, path, asked, found)
        return found

    def _of_owner(
        self, owner: Owner, question: Asked, path: str, asked: dict[str, Any]
    ) -> Answer | None:
        """Return what an owner answers; None: the URL is to be asked."""
        try:
            found, passed_on_to = self._asking(self._url_of(owner.place), path, asked)
        except HttpQueryError as error:
            if error.tells_of_no_key:  # It has asked all others, as any process does.
                raise
            if error.is_an_applications:
                self._owners.forget(owner.place)
            else:
                self._owners.leave_alone(owner.place)
            return None
        if "partition" not in found:
            self._owners.leave_alone(owner.place)
            return None
        self._owners.learn(question, found, owner, passed_on_to)
        return found

    def _compare(self, place: str, path: str, asked: dict[str, Any], before: Answer) -> None:
        """Compare what an owner answers with what the URL has answered, and answers then."""

        def ask_owner() -> Answer:
            answer, _ = self._asking(self._url_of(place), path, asked)
            return answer

        try:
            answer = in_time(ask_owner, self._guess_s)
        except (HttpQueryError, TimeoutError) as error:
            refused = isinstance(error, HttpQueryError) and error.is_an_applications
            self._owners.leave_alone(place, briefly=refused)
            return
        if answer == before:
            self._owners.prove(place)
            return
        try:
            after, _ = self._asking(self._url, path, asked)
        except HttpQueryError:
            return  # Which says nothing of the owner.
        if _is_between(before, answer, after):
            self._owners.prove(place)
        else:
            self._owners.leave_alone(place)

    def _url_of(self, place: str) -> str:
        scheme, _, _ = self._url.partition("://")
        return f"{scheme}://{place}"


def _is_between(before: Answer, answer: Answer, after: Answer) -> bool:
    """Return whether an answer is one that another has given between two of its own.

    A partition's position falls only where its task goes back to its last commit.
    """
    return (
        before != after
        and answer.get("partition") == before.get("partition")
        and _has_come_to(answer.get("position"), before.get("position"))
        and _has_come_to(after.get("position"), answer.get("position"))
    )


def _has_come_to(position: Any, least: Any) -> bool:
    """Return whether a position has all that another one has."""
    try:
        return all(
            position[topic][partition] >= offset
            for topic, offsets in least.items()
            for partition, offset in offsets.items()
        )
    except (AttributeError, KeyError, TypeError):  # One of them is no position.
        return False
