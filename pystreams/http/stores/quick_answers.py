"""Keys of stores, answered where a request is read: what is asked a thousand times a second.

The server shares Python's lock with the stream threads, so that each microsecond of it is taken
from them. A parser in Python, a task, its cycle and a router cost several times what the store
does. So a request that is nothing but `GET /v1/stores/STORE/KEY`, whole, by somebody who may ask,
is answered at once; whatever is out of the ordinary goes the ordinary way, where all is decided
that matters. Both give the same answers.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from http import HTTPStatus
from typing import Final
from urllib.parse import unquote

from starlette.datastructures import QueryParams
from starlette.responses import Response

from pystreams.http.guard import MAX_ADDRESS_BYTES, Guard
from pystreams.http.responses import RequestError, as_json, as_problem
from pystreams.http.stores.store_queries import Elsewhere, StoreQueries
from pystreams.readable_values import json_of_value

_PREFIX = b"GET /v1/stores/"
_END = b"\r\n\r\n"
# What may stand in an address (RFC 3986); anything else is for the ordinary parser to refuse.
_TARGET = re.compile(
    rb"([A-Za-z0-9\-._~!$&'()*+,;=:@%/]+)(?:\?([A-Za-z0-9\-._~!$&'()*+,;=:@%/?]*))? HTTP/1\.1\r\n"
)
_HEADER = re.compile(rb"([!#$%&'*+\-.^_`|~0-9A-Za-z]+):([\t\x20-\x7e\x80-\xff]*)")
_EXTRAORDINARY: Final = frozenset(
    {b"content-length", b"expect", b"http2-settings", b"te", b"transfer-encoding", b"upgrade"}
)
_NOTHING = QueryParams()

Answerer = Callable[[bytes, bytes], bytes | None]


class QuickAnswers:
    """Answers for keys of stores."""

    def __init__(self, stores: StoreQueries, guard: Guard) -> None:
        self._stores = stores
        self._guard = guard

    def of_connection(self) -> Answerer:
        """Return what answers the requests of one connection.

        It is given what was read, and the date as HTTP writes it. It returns all bytes of the
        answer, or None where that was no ordinary question for a key that is here.

        A connection's requests mostly have the same headers. Those that were let through are
        remembered, and need not be looked at again.
        """
        let_through = b""

        def answer(data: bytes, date: bytes) -> bytes | None:
            nonlocal let_through
            if not data.startswith(_PREFIX) or len(data) > MAX_ADDRESS_BYTES:
                return None
            asked = _TARGET.match(data, len(_PREFIX))
            if asked is None:
                return None
            headers = data[asked.end() :]
            if headers != let_through:
                if not self._lets_through(headers):
                    return None
                let_through = headers
            store, _, key = unquote(asked[1].decode("ascii")).partition("/")
            query = asked[2]
            given = QueryParams(query.decode("ascii")) if query else _NOTHING
            return self._answer(store, key, given, date) if store and key else None

        return answer

    def _lets_through(self, block: bytes) -> bool:
        """Return whether a request with these headers is whole, ordinary and allowed."""
        if not block.endswith(_END):
            return False
        headers: dict[bytes, bytes] = {}
        for line in block[: -len(_END)].split(b"\r\n"):
            header = _HEADER.fullmatch(line)
            if header is None:
                return False
            name = header[1].lower()
            if name in headers or name in _EXTRAORDINARY:
                return False
            headers[name] = header[2].strip(b" \t")
        if headers.get(b"connection", b"keep-alive").lower() != b"keep-alive":
            return False
        return b"host" in headers and self._guard.refusal_of(headers) is None

    def _answer(self, store: str, key: str, given: QueryParams, date: bytes) -> bytes | None:
        try:
            answer = self._stores.of_key(store, key, given)
            if isinstance(answer, Elsewhere):
                return None
            body = json_of_value(answer)
        except RequestError as error:
            return _bytes_of(as_problem(error), date)
        except Exception:  # noqa: BLE001 - the ordinary way meets it again, and tells of it
            return None
        return b"HTTP/1.1 200 OK\r\ndate: %b\r\n%bcontent-length: %d\r\n\r\n%b" % (
            date,
            _HEADERS,
            len(body),
            body,
        )


def _bytes_of(response: Response, date: bytes) -> bytes:
    status = response.status_code
    return b"HTTP/1.1 %d %b\r\ndate: %b\r\n%b\r\n%b" % (
        status,
        HTTPStatus(status).phrase.encode(),
        date,
        _written(response.raw_headers),
        bytes(response.body),
    )


def _written(headers: list[tuple[bytes, bytes]]) -> bytes:
    return b"".join(b"%b: %b\r\n" % header for header in headers)


_HEADERS = _written(
    [header for header in as_json(None).raw_headers if header[0] != b"content-length"]
)
"""What answers that are no problem say beside their length."""
