"""A client that asks the owners of keys, beside one that asks one process."""

from __future__ import annotations

import contextlib
import http.client
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest

from pystreams.client import Client, HttpQueryError
from tests.http.asking import TIMEOUT_S
from tests.http.scripted_server import Asked, Last, scripted

COMMITTED: dict[str, Any] = {"isolation": "read_committed"}


class PassedOn:
    """A proxy between a client and processes, which counts what these have passed on.

    Attributes:
        answers: How many answers there were.
        count: How many of them another process gave than the one that was asked.
    """

    def __init__(self) -> None:
        self.answers = 0
        self.count = 0

    def answer(self, asked: Asked) -> bytes:
        to = urlsplit(asked.target)
        connection = http.client.HTTPConnection(to.netloc, timeout=TIMEOUT_S)
        try:
            connection.request("GET", to._replace(scheme="", netloc="").geturl())
            answer = connection.getresponse()
            body = answer.read()
        except (OSError, http.client.HTTPException):
            return Last()
        finally:
            connection.close()
        owner = answer.headers["x-pystreams-owner"]
        self.answers += 1
        self.count += owner is not None
        told = "" if owner is None else f"x-pystreams-owner: {owner}\r\n"
        head = f"HTTP/1.1 {answer.status} X\r\n{told}content-length: {len(body)}\r\n\r\n"
        return head.encode() + body


class OwnersAsked:
    """Asks for all keys, the one way and the other.

    Attributes:
        passed_on: What stands between.
    """

    def __init__(self, url: str, keys: list[str], passed_on: PassedOn, proxy: str) -> None:
        self.passed_on = passed_on
        self._keys = keys
        self._proxy = proxy
        self._of_one = Client(url)
        self._of_owners = Client(url, asks_owners=True)

    def is_right(self, value: int) -> bool:
        """Return whether whatever is answered is right; what is refused may be asked again."""
        for key in self._keys:
            try:
                found = self._get(key)
            except HttpQueryError as refusal:
                if refusal.status not in (0, 503):
                    raise
            else:
                if found is None or found["value"] != value:
                    return False
        return True

    def has_nothing_passed_on(self) -> bool:
        """Return whether all is answered, as for the other client, and all by who was asked."""
        count, answers = self.passed_on.count, self.passed_on.answers
        try:
            expected = [self._of_one.get("counts", key, **COMMITTED) for key in self._keys]
            found = [self._get(key) for key in self._keys]
            missing = self._get("absent")
        except HttpQueryError:
            return False
        assert (found, missing) == (expected, None)
        asked = self.passed_on.answers - answers
        return (self.passed_on.count, asked) == (count, len(self._keys) + 1)

    def close(self) -> None:
        self._of_one.close()
        self._of_owners.close()

    def _get(self, key: str) -> dict[str, Any] | None:
        with pytest.MonkeyPatch.context() as environment:
            for name in ("no_proxy", "NO_PROXY"):
                environment.delenv(name, raising=False)
            environment.setenv("http_proxy", self._proxy)
            return self._of_owners.get("counts", key, **COMMITTED)


@contextlib.contextmanager
def asking_owners(url: str, keys: list[str]) -> Iterator[OwnersAsked]:
    """Ask for keys, at an address and at those of the owners."""
    passed_on = PassedOn()
    with (
        scripted(passed_on.answer) as proxy,
        contextlib.closing(OwnersAsked(url, keys, passed_on, proxy.url)) as asked,
    ):
        yield asked
