"""Keys of stores, answered where a request is read: what is asked a thousand times a second.

The server shares Python's lock with the stream threads, so that each microsecond of it is taken
from them. A parser in Python, a task, its cycle and a router cost several times what the store
does. So a request that is nothing but `GET /v1/stores/STORE/KEY`, whole, by somebody who may ask,
is answered at once; whatever is out of the ordinary goes the ordinary way, where all is decided
that matters. Both give the same answers. A key that another process has is asked for there.
"""

from __future__ import annotations

import re
import string
from collections.abc import Callable
from http import HTTPStatus
from typing import Final, NamedTuple
from urllib.parse import unquote

from starlette.datastructures import QueryParams
from starlette.responses import Response

from pystreams.client.keys import UNDECODED
from pystreams.errors import StreamsError
from pystreams.http.guard import MAX_ADDRESS_BYTES, Guard
from pystreams.http.responses import OWNER_HEADER, RequestError, as_json, as_problem
from pystreams.http.stores.owners import FORWARDED_HEADER
from pystreams.http.stores.plain_keys import PlainKeys
from pystreams.http.stores.quick_forwards import Forward, QuickForwards
from pystreams.http.stores.store_queries import Elsewhere, StoreQueries
from pystreams.readable_values import json_of_value
from pystreams.runtime.cluster.streams_metadata import HostInfo

_PREFIX = b"GET /v1/stores/"
_END = b"\r\n\r\n"
# What may stand in an address (RFC 3986); anything else is for the ordinary parser to refuse.
_TARGET = re.compile(
    rb"([A-Za-z0-9\-._~!$&'()*+,;=:@%/]+)"
    rb"(?:\?([A-Za-z0-9\-._~!$&'()*+,;=:@%/?]*))?(?= HTTP/1\.1\r\n)"
)
_VERSION = b" HTTP/1.1\r\n"
_PLAIN = (string.ascii_letters + string.digits + "-._~!$&'()*+,;=:@").encode()
"""What stands for itself in a part of a path."""
_HEADER = re.compile(rb"([!#$%&'*+\-.^_`|~0-9A-Za-z]+):([\t\x20-\x7e\x80-\xff]*)")
_EXTRAORDINARY: Final = frozenset(
    {b"content-length", b"expect", b"http2-settings", b"te", b"transfer-encoding", b"upgrade"}
)
_NOTHING = QueryParams()
_OWNER, _FORWARDED = OWNER_HEADER.encode(), FORWARDED_HEADER.encode()

Answerer = Callable[[bytes, bytes], bytes | Forward | None]


class _LetThrough(NamedTuple):
    """Requests that may ask.

    Attributes:
        end: What they have behind the address, with all headers.
        passed_on: Headers that another process must be sent; None: it must not be asked.
    """

    end: bytes
    passed_on: bytes | None


class _Known(NamedTuple):
    """Questions for keys of one store.

    Attributes:
        begin: What their requests have before the key.
        store: The store's name.
        keys: Finds them.
    """

    begin: bytes
    store: str
    keys: PlainKeys


class QuickAnswers:
    """Answers for keys of stores.

    Attributes:
        forwards: Asks other processes.
    """

    def __init__(self, stores: StoreQueries, guard: Guard, forwards: QuickForwards) -> None:
        self._stores = stores
        self._guard = guard
        self.forwards = forwards

    def of_connection(self) -> Answerer:
        """Return what answers the requests of one connection.

        It is given what was read, and the date as HTTP writes it. It returns all bytes of the
        answer, or what to ask another process, or None where that was no ordinary question.
        """
        return _Asker(self).answer

    def known(self, path: bytes) -> _Known | None:
        """Return how keys are asked for as in a path; None if that is out of the ordinary."""
        name, slash, key = path.partition(b"/")
        if not key or name.translate(None, _PLAIN):
            return None
        store = name.decode()
        keys = self._stores.plain_keys(store)
        return None if keys is None else _Known(_PREFIX + name + slash, store, keys)

    def let_through(self, end: bytes) -> _LetThrough | None:
        """Return the end of a request that is whole, ordinary and allowed."""
        if not end.endswith(_END):
            return None
        headers: dict[bytes, bytes] = {}
        for line in end[len(_VERSION) : -len(_END)].split(b"\r\n"):
            header = _HEADER.fullmatch(line)
            if header is None:
                return None
            name = header[1].lower()
            if name in headers or name in _EXTRAORDINARY:
                return None
            headers[name] = header[2].strip(b" \t")
        if headers.get(b"connection", b"keep-alive").lower() != b"keep-alive":
            return None
        if b"host" not in headers or self._guard.refusal_of(headers) is not None:
            return None
        if _FORWARDED in headers:
            return _LetThrough(end, None)
        token = headers.get(b"authorization")
        return _LetThrough(end, b"" if token is None else b"authorization: %b\r\n" % token)

    def forward(
        self, store: str, number: int, path: bytes, query: bytes | None, passed_on: bytes
    ) -> Forward | None:
        """Return what to ask the process that has a partition; None if none is known to."""
        try:
            owner = self._stores.known_owner(store, number)
        except StreamsError:
            return None
        if owner is None:
            return None
        asked = [] if query is None else [query]
        if b"partition=" not in (query or b""):
            asked.append(b"partition=%d" % number)
        return Forward(
            owner,
            b"%b%b?%b HTTP/1.1\r\nhost: %b\r\n%b: 1\r\n%b\r\n"
            % (
                *(_PREFIX, path, b"&".join(asked)),
                *(str(owner).encode(), _FORWARDED, passed_on),
            ),
        )

    def answer(
        self, store: str, key: str, given: QueryParams, date: bytes
    ) -> bytes | Elsewhere | None:
        """Return all bytes of an answer, or where it is; None: ask the ordinary way."""
        try:
            answer = self._stores.of_key(store, key, given)
            if isinstance(answer, Elsewhere):
                return answer
            body = json_of_value(answer)
        except RequestError as error:
            return _bytes_of(as_problem(error), date)
        except Exception:  # noqa: BLE001 - the ordinary way meets it again, and tells of it
            return None
        return _answer_with(_HEADERS, body, date)


class _Asker:
    """A connection, whose requests mostly have the same headers, and ask for keys of one store.

    What was let through of the last one need not be looked at again in the next.
    """

    __slots__ = ("_known", "_let_through", "_quick")

    def __init__(self, quick: QuickAnswers) -> None:
        self._quick = quick
        self._let_through = _LetThrough(b"", None)
        self._known: _Known | None = None

    def answer(self, data: bytes, date: bytes) -> bytes | Forward | None:
        """Answer what is asked as the last time but for the key; else look at all of it."""
        known, (end, passed_on) = self._known, self._let_through
        if known is None or not (data.startswith(known.begin) and data.endswith(end)):
            return self._look_at(data, date)
        key = data[len(known.begin) : -len(end)]
        if not key or key.translate(None, _PLAIN) or len(data) > MAX_ADDRESS_BYTES:
            return self._look_at(data, date)
        try:
            found = known.keys.ask(key.decode())
            if isinstance(found, dict):
                return _answer_with(_HEADERS, json_of_value(found), date)
        except Exception:  # noqa: BLE001 - it is met again
            return self._look_at(data, date)
        if found is None:
            return self._look_at(data, date)
        if passed_on is None:
            return None
        path = data[len(_PREFIX) : -len(end)]
        return self._quick.forward(known.store, found, path, None, passed_on)

    def _look_at(self, data: bytes, date: bytes) -> bytes | Forward | None:
        if not data.startswith(_PREFIX) or len(data) > MAX_ADDRESS_BYTES:
            return None
        asked = _TARGET.match(data, len(_PREFIX))
        if asked is None:
            return None
        end = data[asked.end() :]
        if end != self._let_through.end:
            found = self._quick.let_through(end)
            if found is None:
                return None
            self._let_through, self._known = found, None
        path, query = asked.groups()
        if query is None:
            self._known = self._quick.known(path)
        address = unquote(path.decode("ascii"), errors=UNDECODED)
        store, _, key = address.partition("/")
        if not store or not key:
            return None
        given = QueryParams(query.decode("ascii")) if query else _NOTHING
        answered = self._quick.answer(store, key, given, date)
        if not isinstance(answered, Elsewhere):
            return answered
        passed_on = self._let_through.passed_on
        if passed_on is None or answered.missing is not None:
            return None
        return self._quick.forward(store, answered.partitions[0], path, query, passed_on)


def forwarded_answer(body: bytes, owner: HostInfo, date: bytes) -> bytes:
    """Return all bytes of an answer that another process gave."""
    return _answer_with(b"%b%b: %b\r\n" % (_HEADERS, _OWNER, str(owner).encode()), body, date)


def _answer_with(headers: bytes, body: bytes, date: bytes) -> bytes:
    return b"HTTP/1.1 200 OK\r\ndate: %b\r\n%bcontent-length: %d\r\n\r\n%b" % (
        *(date, headers),
        *(len(body), body),
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
