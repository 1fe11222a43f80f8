"""Connections that stay open for the next question."""

from __future__ import annotations

import contextlib
import http.client
import os
import select
import ssl
import time
import weakref
from collections import deque
from typing import Any, NamedTuple

from pystreams.client.proxies import proxy_before

_KEPT_S = 10.0
"""Less than a server keeps a connection on which nothing is asked."""
_CLOSED = (ConnectionError, ssl.SSLEOFError, ssl.SSLZeroReturnError)
_OWN_HEADERS = {"User-Agent": "pystreams"}


class HttpAnswer(NamedTuple):
    """An answer, whole.

    Attributes:
        reason: What stands behind its status.
        location: Where it sends on to, if it does.
    """

    status: int
    reason: str
    location: str | None
    body: bytes


class Address(NamedTuple):
    """Who is asked.

    Attributes:
        scheme: `http` or `https`.
        place: `host:port`, or `host` alone.
    """

    scheme: str
    place: str


class KeptConnections:
    """Asks, each time over a connection that waits, or a new one. Safe to use from any thread.

    There is no lock, which a forked process might inherit while it is held: what is shared is
    taken and put back in one step.

    Args:
        timeout_s: How long each step of an answer may take (s).
        tls: How certificates are checked; as the system does it when None.
    """

    def __init__(self, timeout_s: float, tls: ssl.SSLContext | None) -> None:
        self._timeout_s = timeout_s
        self._tls = tls
        self._waiting: _Waiting = {}
        weakref.finalize(self, _close_all, self._waiting)

    def __reduce__(self) -> tuple[Any, ...]:
        return KeptConnections, (self._timeout_s, self._tls)

    def get(self, address: Address, target: str, headers: dict[str, str]) -> HttpAnswer:
        """Ask for something.

        Raises:
            OSError: There is no answer, or not in time.
            HTTPException: What is answered is no HTTP, or ends early.
        """
        waiting = self._waiting.setdefault(address, deque())
        connection = _taken_of(waiting)
        if connection is not None:
            try:
                return self._ask(waiting, connection, target, headers)
            except _CLOSED:
                if connection.is_answering:
                    raise
                # It was closed while it waited.
        connection = _Connection(address, self._timeout_s, self._tls)
        return self._ask(waiting, connection, target, headers)

    def close(self) -> None:
        """Close those that wait."""
        _close_all(self._waiting)

    def _ask(
        self,
        waiting: deque[_Connection],
        connection: _Connection,
        target: str,
        headers: dict[str, str],
    ) -> HttpAnswer:
        try:
            answer = connection.get(target, headers)
        except BaseException:
            connection.close()
            raise
        if connection.stays_open:
            waiting.append(connection)
            _close_old(waiting)
        return answer


class _Connection:
    """A connection to an address, or to a proxy before it.

    Attributes:
        is_answering: Whether the answer has begun: its headers have come.
        since_s: When the last answer had come.
        process: Which process has opened it: one that was forked must not use it.
    """

    def __init__(self, address: Address, timeout_s: float, tls: ssl.SSLContext | None) -> None:
        scheme, place = address
        self.is_answering = False
        self.since_s = 0.0
        self.process = os.getpid()
        self._before_target = ""
        self._headers = _OWN_HEADERS
        proxy = proxy_before(scheme, place)
        connected_to = place if proxy is None else proxy.place
        is_secure = scheme == "https" or (proxy is not None and proxy.is_secure)
        self._http = (
            http.client.HTTPSConnection(connected_to, timeout=timeout_s, context=tls)
            if is_secure
            else http.client.HTTPConnection(connected_to, timeout=timeout_s)
        )
        if proxy is None:
            return
        if scheme == "https":
            self._http.set_tunnel(place, headers=proxy.headers)
        else:
            self._before_target = f"{scheme}://{place}"
            self._headers = {**_OWN_HEADERS, **proxy.headers}

    @property
    def stays_open(self) -> bool:
        """Whether the next request can go over it, after an answer."""
        return self._http.sock is not None

    @property
    def is_silent(self) -> bool:
        """Whether nothing has come unasked: its end, or what a server says before it."""
        if self._http.sock is None:
            return False
        come = select.poll()
        come.register(self._http.sock, select.POLLIN)
        return not come.poll(0)

    def get(self, target: str, headers: dict[str, str]) -> HttpAnswer:
        self.is_answering = False
        self._http.request(
            "GET", f"{self._before_target}{target}", headers={**self._headers, **headers}
        )
        answer = self._http.getresponse()
        self.is_answering = True
        with answer:
            body = answer.read()
        self.since_s = time.monotonic()
        return HttpAnswer(answer.status, answer.reason, answer.getheader("location"), body)

    def close(self) -> None:
        self._http.close()


_Waiting = dict[Address, deque[_Connection]]


def _taken_of(waiting: deque[_Connection]) -> _Connection | None:
    """Return the one that waits since the latest time; None if all do for too long."""
    oldest_s = time.monotonic() - _KEPT_S
    with contextlib.suppress(IndexError):
        while True:
            connection = waiting.pop()
            is_ours = connection.process == os.getpid()
            if is_ours and connection.since_s >= oldest_s and connection.is_silent:
                return connection
            connection.close()
    return None


def _close_old(waiting: deque[_Connection]) -> None:
    oldest_s = time.monotonic() - _KEPT_S
    with contextlib.suppress(IndexError):  # Another thread has taken it.
        while waiting[0].since_s < oldest_s:
            waiting.popleft().close()


def _close_all(waiting: _Waiting) -> None:
    for of_address in list(waiting.values()):
        with contextlib.suppress(IndexError):
            while True:
                of_address.pop().close()
