"""Answers as JSON, and what went wrong as JSON, too."""

from __future__ import annotations

from typing import Any

from starlette.responses import Response

from pystreams.readable_values import json_of_value

OWNER_HEADER = "x-pystreams-owner"
_HEADERS = {
    401: ("www-authenticate", "Bearer"),
    405: ("allow", "GET, HEAD"),
    503: ("retry-after", "1"),
}
"""What an answer of a status has to say beside its text."""


class RequestError(Exception):
    """A request that can't be answered.

    Args:
        fields: What else the answer says.
    """

    def __init__(self, status: int, message: str, **fields: Any) -> None:
        super().__init__(message)
        self.status = status
        self.fields = fields


_SAFE = {"cache-control": "no-store", "x-content-type-options": "nosniff"}


def as_json(value: Any, status: int = 200) -> Response:
    """Return an answer that must not be kept by caches."""
    return Response(json_of_value(value), status, _SAFE, media_type="application/json")


def forwarded(status: int, body: bytes, media_type: str, owner: str) -> Response:
    """Return what another process has answered, and which."""
    return Response(body, status, {**_SAFE, OWNER_HEADER: owner}, media_type=media_type)


def as_problem(error: RequestError) -> Response:
    """Return what went wrong. Spec: RFC 9457."""
    content = {"status": error.status, "detail": str(error), **error.fields}
    answer = as_json(content, error.status)
    answer.headers["content-type"] = "application/problem+json"
    if error.status in _HEADERS:
        name, value = _HEADERS[error.status]
        answer.headers[name] = value
    return answer
