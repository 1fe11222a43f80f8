"""Connections that stay open for the next question."""

from __future__ import annotations

import contextlib
import http.client
import io
import os
import select
import socket
import ssl
import time
import weakref
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from pystreams.client.proxies import proxy_before

_KEPT_S = 10.0
"""Less than a server keeps a connection on which nothing is asked."""
_CLOSED = (ConnectionError, ssl.SSLEOFError, ssl.SSLZeroReturnError)
_OWN_HEADERS = {"User-Agent": "pystreams"}
_ANSWERED = contextlib.nullcontext()


class HttpAnswer(NamedTuple):
    """An answer, whole.

    Attributes:
        reason: What stands behind its status.
        media_type: Of its body, if it says so.
        location: Where it sends on to, if it does.
        owner: Whom the process that was asked has passed the question on to, if it has.
    """

    status: int
    reason: str
    media_type: str | None
    location: str | None
    body: bytes
    owner: str | None = None


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

    One that has waited for too long is closed with the next question, whoever is asked. There is no
    lock, which a forked process might inherit while it is held: what is shared is taken and put
    back in one step.

    Args:
        timeout_s: How long each step of an answer may take (s).
        tls: How certificates are checked; as the system does it when None.
        through_proxies: Whether those are asked that the environment puts before an address.
        monotonic_s: The clock by which they wait (s).
    """

    def __init__(
        self,
        timeout_s: float,
        tls: ssl.SSLContext | None,
        *,
        through_proxies: bool = True,
        monotonic_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._timeout_s = timeout_s
        self._tls = tls
        self._default_tls: ssl.SSLContext | None = None
        self._through_proxies = through_proxies
        self._monotonic_s = monotonic_s
        self._waiting: _Waiting = {}
        self._ending: _Waiting = {}
        self._closed = object()
        weakref.finalize(self, _close_all, self._waiting)

    def __reduce__(self) -> tuple[Any, ...]:
        return KeptConnections, (self._timeout_s, self._tls)

    def get(
        self,
        address: Address,
        target: str,
        headers: dict[str, str],
        *,
        connect_timeout_s: float | None = None,
        within_s: float | None = None,
        ends_with_close: bool = False,
    ) -> HttpAnswer:
        """Ask for something.

        Args:
            connect_timeout_s: How long each step to a connection may take (s): to the address, by
                way of a proxy, to TLS; as long as those of an answer when None.
            within_s: How long all of it may take from the lookup of the name on (s), however many
                steps there are; those to a connection end by their own time. None: as long as its
                steps.
            ends_with_close: Whether `close` ends it: else it is answered.

        Raises:
            OSError: There is no answer, or not in time.
            HTTPException: What is answered is no HTTP, or ends early.
        """
        closed = self._closed
        self._close_old()
        until_s = None if within_s is None else time.monotonic() + within_s
        connection = self._taken(address)
        if connection is not None:
            try:
                with self._ended(connection) if ends_with_close else _ANSWERED:
                    answer = connection.get(target, headers, until_s)
                self._keep(connection, closed)
                return answer
            except _CLOSED:
                if connection.is_answering or connection.is_ended:
                    raise
                # It was closed while it waited.
        connection = _Connection(
            address, self._timeout_s, self._checking_tls, through_proxies=self._through_proxies
        )
        with self._ended(connection) if ends_with_close else _ANSWERED:
            connection.open(connect_timeout_s, until_s)
            answer = connection.get(target, headers, until_s)
        self._keep(connection, closed)
        return answer

    def close(self) -> None:
        """Close those that wait; those on which something is asked are not kept."""
        # First: what is answered just now is not kept then.
        self._closed = object()
        _close_all(self._waiting)
        for connection in list(self._ending):
            connection.end()

    @contextlib.contextmanager
    def _ended(self, connection: _Connection) -> Iterator[None]:
        """End what is asked over a connection when all are closed."""
        self._ending[connection] = True
        try:
            yield
        finally:
            self._ending.pop(connection, None)

    def _checking_tls(self) -> ssl.SSLContext:
        """Return how certificates are checked; by default as no program has set it otherwise."""
        if self._tls is not None:
            return self._tls
        if self._default_tls is None:
            context = ssl.create_default_context()
            context.set_alpn_protocols(["http/1.1"])
            self._default_tls = context
        return self._default_tls

    def _keep(self, connection: _Connection, closed: object) -> None:
        """Keep a connection unless all were closed meanwhile."""
        if closed is not self._closed:
            connection.close()
        elif connection.stays_open:
            connection.since_s = self._monotonic_s()
            self._waiting[connection] = True
            # `close` may have looked just before.
            if closed is not self._closed and self._waiting.pop(connection, False):
                connection.close()

    def _taken(self, address: Address) -> _Connection | None:
        """Return the one to an address that waits since the latest time; None if none can."""
        for connection in reversed(list(self._waiting)):
            if connection.address == address and self._waiting.pop(connection, False):
                if connection.is_ours and connection.is_silent:
                    return connection
                connection.close()
        return None

    def _close_old(self) -> None:
        oldest_s = self._monotonic_s() - _KEPT_S
        for connection in list(self._waiting):
            if connection.since_s >= oldest_s:
                return
            if self._waiting.pop(connection, False):
                connection.close()


class _Connection:
    """A connection to an address, or to a proxy before it.

    Attributes:
        is_answering: Whether the answer has begun: its headers have come.
        is_ended: Whether another thread has ended what is asked over it, as it has closed all.
        since_s: When it began to wait, by the clock of who keeps it.
    """

    def __init__(
        self,
        address: Address,
        timeout_s: float,
        tls: Callable[[], ssl.SSLContext],
        *,
        through_proxies: bool,
    ) -> None:
        self.address = address
        self.is_answering = False
        self.since_s = 0.0
        self._process = os.getpid()
        self._reading = _Reading()
        self.is_ended = False
        self._before_target = ""
        self._headers = _OWN_HEADERS
        scheme, place = address
        proxy = proxy_before(scheme, place) if through_proxies else None
        connected_to = place if proxy is None else proxy.place
        is_secure = scheme == "https" or (proxy is not None and proxy.is_secure)
        self._http = (
            http.client.HTTPSConnection(connected_to, timeout=timeout_s, context=tls())
            if is_secure
            else http.client.HTTPConnection(connected_to, timeout=timeout_s)
        )
        # It must not hold on to this connection, which is closed as nobody has it any more.
        self._http.response_class = self._reading.response  # type: ignore[assignment]
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
    def is_ours(self) -> bool:
        """Whether this process has opened it: one that was forked must not use it."""
        return self._process == os.getpid()

    @property
    def is_silent(self) -> bool:
        """Whether nothing has come unasked: its end, or what a server says before it."""
        if self._http.sock is None:
            return False
        come = select.poll()
        come.register(self._http.sock, select.POLLIN)
        return not come.poll(0)

    def open(self, timeout_s: float | None, until_s: float | None) -> None:
        """Connect, in as long as an answer may take when no time is given.

        Args:
            until_s: By when a proxy is to have answered, if there is such a time.
        """
        answer_s = self._http.timeout
        if timeout_s is not None:
            self._http.timeout = timeout_s
            if until_s is not None:
                until_s = min(until_s, time.monotonic() + timeout_s)
        self._reading.until_s = until_s
        try:
            self._http.connect()
        except BaseException:
            self._reading.give_up()
            self.close()
            raise
        self._http.sock.settimeout(answer_s)
        if self.is_ended:
            self.close()
            raise TimeoutError("all was closed meanwhile")

    def get(self, target: str, headers: dict[str, str], until_s: float | None) -> HttpAnswer:
        """Ask over it; it is closed where that gives no answer.

        Args:
            until_s: By when it is to be answered (`time.monotonic`); None: each step has its time.
        """
        self.is_answering = False
        self._reading.until_s = until_s
        try:
            if until_s is not None:
                _set_time_left(self._http.sock, until_s)
            elif self._http.sock.gettimeout() != self._http.timeout:
                self._http.sock.settimeout(self._http.timeout)
            self._http.request(
                "GET", f"{self._before_target}{target}", headers={**self._headers, **headers}
            )
            answer = self._http.getresponse()
            self.is_answering = True
            with answer:
                body = answer.read()
        except BaseException:
            self.close()
            raise
        media_type, location, owner = map(
            answer.getheader, ("content-type", "location", "x-pystreams-owner")
        )
        return HttpAnswer(answer.status, answer.reason, media_type, location, body, owner)

    def end(self) -> None:
        """End what another thread asks over it, which then gets an error."""
        self.is_ended = True
        connected = self._http.sock
        if connected is not None and self.is_ours:
            with contextlib.suppress(OSError):
                # That of TLS would let go of what the other thread reads with.
                socket.socket.shutdown(connected, socket.SHUT_RDWR)

    def close(self) -> None:
        self._http.close()


class _Reading:
    """Reads a connection's answers.

    Attributes:
        until_s: By when one is to be read to its end; None: each step has the socket's time.
    """

    until_s: float | None = None
    _begun: http.client.HTTPResponse | None = None

    def response(self, connected: socket.socket, *of: Any, **by: Any) -> http.client.HTTPResponse:
        """Return an answer that is to be read."""
        response = http.client.HTTPResponse(connected, *of, **by)
        if self.until_s is not None:
            steps = _Steps(connected, response.fp.detach(), self.until_s)
            response.fp = io.BufferedReader(steps)
        self._begun = response
        return response

    def give_up(self) -> None:
        """Close the answer that was begun last: Python before 3.11.4 leaves a proxy's open."""
        if self._begun is not None:
            self._begun.close()


class _Steps(io.RawIOBase):
    """Reads as much as there is, step by step, until a time: one that drips has no more steps."""

    def __init__(self, connected: socket.socket, read: io.RawIOBase, until_s: float) -> None:
        self._connected = connected
        self._read = read
        self._until_s = until_s

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        _set_time_left(self._connected, self._until_s)
        return self._read.readinto(buffer)

    def close(self) -> None:
        self._read.close()
        super().close()


def _set_time_left(connected: socket.socket, until_s: float) -> None:
    left_s = until_s - time.monotonic()
    if left_s <= 0:
        raise TimeoutError("timed out")
    connected.settimeout(left_s)


_Waiting = dict[_Connection, bool]
"""In the order in which they came back. Who takes one out has it for itself: it was True."""


def _close_all(waiting: _Waiting) -> None:
    for connection in list(waiting):
        if waiting.pop(connection, False):
            connection.close()
