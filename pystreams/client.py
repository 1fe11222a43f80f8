"""Asks a running application for its stores over HTTP; needs nothing but Python itself.

from pystreams.client import Client

client = Client("http://127.0.0.1:8080")
client.get("counts", "alice")  # {"key": "alice", "value": 3, "partition": 0, ...}
for entry in client.range("counts"):
    print(entry["key"], entry["value"])
"""

from __future__ import annotations

import json
import ssl
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote, urlencode

from pystreams.errors import StreamsError

_TIMEOUT_S = 10.0
_NOT_FOUND = 404


class HttpQueryError(StreamsError):
    """An application did not answer, or refused to.

    Attributes:
        status: The HTTP status, 0 where there was no answer: 503 may be asked again.
        answer: What it said beside the message: the owner, the position.
    """

    def __init__(self, message: str, *, status: int = 0, answer: dict[str, Any]) -> None:
        super().__init__(message)
        self.status = status
        self.answer = answer


class Client:
    """Asks one process, which asks the others of its application.

    Args:
        url: Where it is served: `http://host:port`, `https://...`, or `host:port` alone.
        token: What it asks for (`--http-token-file`), or None.
        tls: How its certificate is checked; as the system does it when None.
        timeout_s: How long an answer may take (s).

    Raises:
        HttpQueryError: The URL is of another kind.
    """

    def __init__(
        self,
        url: str,
        *,
        token: str | None = None,
        tls: ssl.SSLContext | None = None,
        timeout_s: float = _TIMEOUT_S,
    ) -> None:
        self._url = (url if "://" in url else f"http://{url}").rstrip("/")
        if not self._url.startswith(("http://", "https://")):
            raise HttpQueryError(f"{url} is no http:// or https:// address", answer={})
        self._headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        self._tls = tls
        self._timeout_s = timeout_s

    def get(self, store: str, key: Any, **asked: Any) -> dict[str, Any] | None:
        """Return what a store has of a key; None if it has no such key.

        Args:
            key: The key: a text, a number, or what its serde takes as JSON.
            **asked: `isolation`, `min_position`, `partition`; `as_of`, `time_from`, `time_to`.

        Raises:
            HttpQueryError: There is no answer.
        """
        text = key if isinstance(key, str) else json.dumps(key)
        path = f"/v1/stores/{quote(store, safe='')}/{quote(text, safe='')}"
        try:
            found: dict[str, Any] = self._ask(path, asked)
        except HttpQueryError as error:
            if error.status == _NOT_FOUND and "partition" in error.answer:
                return None
            raise
        return found

    def range(self, store: str, **asked: Any) -> Iterator[dict[str, Any]]:
        """Give the entries of a range, partition by partition, those of other processes as well.

        Args:
            **asked: `from`, `to` (in a dict: `**{"from": "a"}`), `order`, `limit` of each
                partition; `time_from`, `time_to`; `isolation`, `min_position`, `partition`.

        Raises:
            HttpQueryError: A partition does not answer.
        """
        path = f"/v1/stores/{quote(store, safe='')}"
        answer = self._ask(path, asked)
        yield from _entries(answer)
        for number in answer["elsewhere"]:
            yield from _entries(self._ask(path, {**asked, "partition": number}))

    def status(self) -> dict[str, Any]:
        """Return what the process shows of itself.

        Raises:
            HttpQueryError: There is no answer.
        """
        found: dict[str, Any] = self._ask("/v1/status", {})
        return found

    def _ask(self, path: str, asked: dict[str, Any]) -> Any:
        given = {
            name: json.dumps(value) if isinstance(value, dict) else value
            for name, value in asked.items()
            if value is not None
        }
        address = f"{self._url}{path}" + (f"?{urlencode(given)}" if given else "")
        request = urllib.request.Request(address, headers=self._headers)
        try:
            with urllib.request.urlopen(
                request, timeout=self._timeout_s, context=self._tls
            ) as answer:
                return json.loads(answer.read())
        except urllib.error.HTTPError as refused:
            with refused:
                said = _said(refused.read())
            message = said.pop("detail", refused.reason)
            # It says what it has to say; the status is beside it.
            raise HttpQueryError(str(message), status=refused.code, answer=said) from None
        except (OSError, ValueError) as error:
            why = getattr(error, "reason", error)
            raise HttpQueryError(f"{self._url} does not answer: {why}", answer={}) from error


def _said(body: bytes) -> dict[str, Any]:
    try:
        said = json.loads(body)
    except ValueError:
        return {}
    return said if isinstance(said, dict) else {}


def _entries(answer: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for part in answer["partitions"]:
        for entry in part["entries"]:
            yield {**entry, "partition": part["partition"]}
