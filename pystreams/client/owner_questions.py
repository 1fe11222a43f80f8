"""Questions for keys, put to who has them as soon as that is known, and else to the URL.

Who is said to have a key is compared with the URL before it is believed: it may not be reachable
from here, and at its address there may be another application, through a tunnel or a port that is
forwarded. That is done in the background: it costs up to two questions more, once, and no answer
waits for it.
"""

from __future__ import annotations

import contextlib
import copy
import threading
from collections.abc import Callable
from typing import Any

from pystreams.client.errors import NOT_TAKEN, HttpQueryError
from pystreams.client.owners import Asked, KnownOwners, Owner

Answer = dict[str, Any]
Asking = Callable[[str, str, dict[str, Any]], tuple[Answer, str | None]]
"""Is given a URL, a path and what is asked; returns the answer, and who was asked for it there."""


class OwnerQuestions:
    """Asks for keys.

    Args:
        url: Who answers for all keys.
        asking: How it is asked.
        guessing: How who never has answered is asked: not for long, and until the client is closed.
        owners: What is known of them.
    """

    def __init__(self, url: str, asking: Asking, guessing: Asking, owners: KnownOwners) -> None:
        self._url = url
        self._asking = asking
        self._guessing = guessing
        self._owners = owners

    def ask(self, question: Asked, path: str, asked: dict[str, Any]) -> Answer:
        """Return the answer to a question.

        Raises:
            HttpQueryError: There is none.
        """
        owners = self._owners
        owner = owners.of(question)
        proof = None if owner is None else owners.proof_of(owner.place)
        refused = None
        if owner is not None and proof is not None:
            try:
                answer = self._of_owner(owner, proof, question, path, asked)
            except HttpQueryError as error:
                if error.status not in NOT_TAKEN:
                    raise
                refused = owner.place, proof
            else:
                if answer is not None:
                    return answer
        found, passed_on_to = self._of_url(path, asked, refused)
        if owners.is_to_be_counted(question.store, found, passed_on_to):
            with contextlib.suppress(HttpQueryError):
                of_store, _, _ = path.rpartition("/")
                counted, _ = self._asking(self._url, of_store, {"limit": 1})
                owners.counted(question.store, counted)
        owners.learn(question, found, None, passed_on_to)
        if owner is not None and proof is None and owner.place == passed_on_to:
            self._begin_comparing(owner.place, path, asked, found)
        return found

    def _of_url(
        self, path: str, asked: dict[str, Any], refused: tuple[str, object] | None
    ) -> tuple[Answer, str | None]:
        """Return what the URL answers; leave an owner alone that has refused what it does not.

        There may be another application by now. What both refuse, any process does.

        Args:
            refused: Where an owner has, and the proof with which it was asked.

        Raises:
            HttpQueryError: There is no answer.
        """
        try:
            answered = self._asking(self._url, path, asked)
        except HttpQueryError as error:
            says_otherwise = error.is_an_applications and error.status not in NOT_TAKEN
            if refused is not None and says_otherwise:
                self._owners.refute(*refused)
            raise
        if refused is not None:
            self._owners.refute(*refused)
        return answered

    def _of_owner(
        self, owner: Owner, proof: object, question: Asked, path: str, asked: dict[str, Any]
    ) -> Answer | None:
        """Return what an owner answers; None: the URL is to be asked.

        Raises:
            HttpQueryError: There is no such key, or who is asked says that there can't be.
        """
        try:
            found, passed_on_to = self._asking(self._url_of(owner.place), path, asked)
        except HttpQueryError as error:
            if error.tells_of_no_key:  # It has asked all others, as any process does.
                raise
            if error.is_an_applications and error.status in NOT_TAKEN:
                raise
            if error.is_of_a_partition:  # It has moved, say: the URL tells where it is.
                self._owners.forget(owner.place)
            else:
                self._owners.refute(owner.place, proof)
            return None
        if "partition" not in found:
            self._owners.refute(owner.place, proof)
            return None
        self._owners.learn(question, found, owner, passed_on_to)
        return found

    def _begin_comparing(
        self, place: str, path: str, asked: dict[str, Any], before: Answer
    ) -> None:
        """Compare an owner in the background."""
        comparison = self._owners.begin_comparing(place)
        if comparison is None:
            return
        # What was asked and answered is the caller's, who may change it.
        of = copy.deepcopy((asked, before))
        thread = threading.Thread(
            target=self._compare,
            args=(comparison, place, path, *of),
            name="pystreams-client",
            daemon=True,
        )
        try:
            thread.start()
        except RuntimeError:  # There are too many, or Python is ending.
            self._owners.leave_alone(place)
            self._owners.end_comparing(comparison)

    def _compare(
        self, comparison: object, place: str, path: str, asked: dict[str, Any], before: Answer
    ) -> None:
        """Compare what an owner answers with what the URL has answered, and answers then."""
        try:
            is_owner = self._is_owner(comparison, place, path, asked, before)
        except HttpQueryError as error:
            if self._owners.is_comparing(comparison):
                self._owners.leave_alone(place, briefly=error.is_an_applications)
        else:
            if is_owner and self._owners.is_comparing(comparison):
                self._owners.prove(place)
            elif is_owner is False:
                self._owners.leave_alone(place)
        finally:
            self._owners.end_comparing(comparison)

    def _is_owner(
        self, comparison: object, place: str, path: str, asked: dict[str, Any], before: Answer
    ) -> bool | None:
        """Return whether who answers at a place is the owner; None: nobody knows.

        Raises:
            HttpQueryError: Nobody answers there, or not with a value.
        """
        answer, _ = self._guessing(self._url_of(place), path, asked)
        if answer == before:
            return True
        if not self._owners.is_comparing(comparison):
            return None
        try:
            after, _ = self._guessing(self._url, path, asked)
        except HttpQueryError:
            return None  # Which says nothing of the owner.
        return _is_between(before, answer, after)

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
