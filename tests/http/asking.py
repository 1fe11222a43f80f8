"""Asks a server over HTTP as any program would."""

from __future__ import annotations

import contextlib
import http.client
import json
import ssl
import urllib.error
import urllib.request
from dataclasses import dataclass
from email.message import Message
from typing import Any
from urllib.parse import urlencode

TIMEOUT_S = 60.0


@dataclass(frozen=True)
class Answer:
    """What came back.

    Attributes:
        status: The HTTP status.
        body: The bytes.
    """

    status: int
    headers: Message
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


def ask(
    url: str,
    path: str,
    *,
    method: str = "GET",
    headers: dict[str, str] | None = None,
    trusting: ssl.SSLContext | None = None,
    **parameters: Any,
) -> Answer:
    """Return the answer, whatever its status."""
    asked = f"{url}{path}?{urlencode(parameters)}" if parameters else f"{url}{path}"
    request = urllib.request.Request(asked, method=method, headers=headers or {})
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT_S, context=trusting) as answer:
            return Answer(answer.status, answer.headers, answer.read())
    except urllib.error.HTTPError as refused:
        with refused:
            return Answer(refused.code, refused.headers, refused.read())


class KeptConnection:
    """A connection to a server on this machine on which one question follows the other."""

    def __init__(self, address: str) -> None:
        self._connection = http.client.HTTPConnection(address, timeout=TIMEOUT_S)

    def ask(self, path: str, **parameters: Any) -> Answer:
        """Return the answer; one that the server has closed meanwhile is opened again."""
        asked = f"{path}?{urlencode(parameters)}" if parameters else path
        with contextlib.suppress(http.client.HTTPException, ConnectionError):
            return self._ask(asked)
        self._connection.close()
        try:
            return self._ask(asked)
        except http.client.HTTPException as error:
            raise OSError(str(error)) from error

    def close(self) -> None:
        self._connection.close()

    def _ask(self, asked: str) -> Answer:
        self._connection.request("GET", asked)
        answer = self._connection.getresponse()
        return Answer(answer.status, answer.headers, answer.read())
