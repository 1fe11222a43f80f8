"""Questions for keys that other processes have, asked on from where a request is read.

Connections stay open for the next question, and are read and written as those of the server are.
Only a value is passed on. Whatever else comes back (no such key, a partition that has moved,
nothing) is told as None: the request goes the ordinary way then, where the owner is asked again.
"""

from __future__ import annotations

import asyncio
import re
import socket
import ssl
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

from pystreams.http.direct_sockets import DirectSockets
from pystreams.http.guard import MAX_HEADER_BYTES
from pystreams.http.lock_keeping_socket import LockKeepingSocket
from pystreams.runtime.cluster.streams_metadata import HostInfo

_TIMEOUT_S = 2.0
_KEPT_S = 10.0
"""Less than a server keeps a connection on which nothing is asked."""
_MAX_CONNECTIONS = 32
"""To one process: a burst is answered sooner over those than over one more for each question."""
_LENGTH = re.compile(rb"\r\ncontent-length: (\d+)\r\n")

Done = Callable[[bytes | None], None]
"""Is given the body of the owner's answer, or None. Never raises."""


class Forward(NamedTuple):
    """A question for another process.

    Attributes:
        owner: Which process.
        request: All bytes of it.
    """

    owner: HostInfo
    request: bytes


class QuickForwards:
    """Asks other processes. Belongs to the thread of the server's event loop.

    Args:
        sockets: Those of the event loop.
        tls: How they are asked over TLS; None asks without.
        timeout_s: How long a question waits for a connection, and again for its answer.
    """

    def __init__(
        self,
        sockets: DirectSockets,
        tls: ssl.SSLContext | None,
        *,
        timeout_s: float = _TIMEOUT_S,
    ) -> None:
        self._sockets = sockets
        self._tls = tls
        self._timeout_s = timeout_s
        self._owners: dict[HostInfo, _Owner] = {}

    def ask(self, forward: Forward, done: Done) -> None:
        """Ask; `done` is called once, perhaps at once."""
        owner = self._owners.get(forward.owner)
        if owner is None:
            owner = self._owners[forward.owner] = _Owner(
                forward.owner, self._sockets, self._tls, self._timeout_s, self._let_go
            )
        owner.ask(forward.request, done)

    @property
    def owners(self) -> frozenset[HostInfo]:
        """Those to whom there are connections, or that are asked just now."""
        return frozenset(self._owners)

    def close(self) -> None:
        """Close all connections; what is asked gets no answer."""
        for owner in list(self._owners.values()):
            owner.close()

    def _let_go(self, owner: _Owner) -> None:
        """Forget a process to which there is no connection: its address may never come again."""
        if self._owners.get(owner.address) is owner:
            del self._owners[owner.address]


class _Question:
    """What is asked, until there is an answer, or none in time."""

    __slots__ = ("done", "gives_up", "request")

    def __init__(self, request: bytes, done: Done) -> None:
        self.request = request
        self.done = done
        self.gives_up: asyncio.TimerHandle | None = None

    def stop_waiting(self) -> None:
        if self.gives_up is not None:
            self.gives_up.cancel()


class _Owner:
    """The connections to another process, and the questions that wait for one, in their order.

    A question that no connection has taken in time is told as None.

    Args:
        let_go: Called when there is neither a connection nor a question any more.
    """

    def __init__(
        self,
        address: HostInfo,
        sockets: DirectSockets,
        tls: ssl.SSLContext | None,
        timeout_s: float,
        let_go: Callable[[_Owner], None],
    ) -> None:
        self.address = address
        self.sockets = sockets
        self.timeout_s = timeout_s
        self._tls = tls
        self._let_go = let_go
        self._links: set[_Link] = set()
        self._free: list[_Link] = []
        self._connecting: set[asyncio.Task[None]] = set()
        self._waiting: deque[_Question] = deque()
        self._closed = False

    def ask(self, request: bytes, done: Done) -> None:
        question = _Question(request, done)
        if self._free and not self._waiting:
            self._free.pop().ask(question)
            return
        self._waiting.append(question)
        self._go_on()
        if self._waiting and self._waiting[-1] is question:
            loop = asyncio.get_running_loop()
            question.gives_up = loop.call_later(self.timeout_s, self._give_up, question)

    def opened(self, link: _Link) -> None:
        self._links.add(link)

    def is_free(self, link: _Link) -> None:
        """Take a connection back on which nothing is asked any more."""
        self._free.append(link)
        if self._waiting:
            self._go_on()

    def lost(self, link: _Link) -> None:
        self._links.discard(link)
        with suppress(ValueError):
            self._free.remove(link)
        self._go_on()
        self._rest()

    def close(self) -> None:
        self._closed = True
        waiting, self._waiting = self._waiting, deque()
        for question in waiting:
            question.stop_waiting()
            question.done(None)
        for link in list(self._links):
            link.close()

    def _go_on(self) -> None:
        """Ask what waits, as far as there are connections for it, or may be more."""
        while self._waiting and not self._closed:
            if self._free:
                self._free.pop().ask(self._next())
            elif len(self._links) + len(self._connecting) < _MAX_CONNECTIONS:
                task = asyncio.get_running_loop().create_task(self._connect(self._next()))
                self._connecting.add(task)
                task.add_done_callback(self._connected)
            else:
                return

    def _next(self) -> _Question:
        question = self._waiting.popleft()
        question.stop_waiting()
        return question

    def _give_up(self, question: _Question) -> None:
        self._waiting.remove(question)
        question.done(None)
        self._rest()

    async def _connect(self, question: _Question) -> None:
        try:
            async with asyncio.timeout(self.timeout_s):
                link = await self._new_link()
        except Exception:  # noqa: BLE001 - the ordinary way meets it again, and tells of it
            question.done(None)
            return
        link.ask(question)

    def _connected(self, task: asyncio.Task[None]) -> None:
        self._connecting.discard(task)
        self._go_on()
        self._rest()

    def _rest(self) -> None:
        if not (self._links or self._connecting or self._waiting):
            self._let_go(self)

    async def _new_link(self) -> _Link:
        loop, host = asyncio.get_running_loop(), self.address.host
        connected = await _connected_socket(self.address)
        keeping = LockKeepingSocket(connected.detach(), self.sockets.calls)
        keeping.setblocking(False)
        _, link = await loop.create_connection(
            lambda: _Link(self),
            sock=keeping,
            ssl=self._tls,
            server_hostname=host if self._tls else None,
        )
        return link


async def _connected_socket(owner: HostInfo) -> socket.socket:
    """Return a connection by the first of the owner's addresses that takes one."""
    loop, refusal = asyncio.get_running_loop(), OSError("no address")
    for family, kind, protocol, _, address in await loop.getaddrinfo(
        owner.host, owner.port, type=socket.SOCK_STREAM
    ):
        found = socket.socket(family, kind, protocol)
        try:
            found.setblocking(False)
            await loop.sock_connect(found, address)
            found.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        except OSError as error:
            found.close()
            refusal = error
        except BaseException:
            found.close()
            raise
        else:
            return found
    raise refusal


class _Link(asyncio.Protocol):
    """A connection to another process, with one question at a time."""

    def __init__(self, owner: _Owner) -> None:
        self._owner = owner
        self._question: _Question | None = None
        self._received = bytearray()
        self._since_s = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._loop = asyncio.get_running_loop()
        self._socket = self._owner.sockets.of(transport, self._read)
        self._owner.opened(self)
        self._look_later()

    def ask(self, question: _Question) -> None:
        """Ask; nothing else may be asked meanwhile."""
        self._question, self._since_s = question, self._loop.time()
        if self._transport.is_closing():
            self._unanswered()
        else:
            self._socket.write(question.request)

    def data_received(self, data: bytes) -> None:
        read = self._received
        read += data
        end = read.find(b"\r\n\r\n")
        if end < 0:
            if len(read) > MAX_HEADER_BYTES:
                self._transport.abort()
            return
        head = bytes(read[: end + 2])
        length = _LENGTH.search(head)
        missing = None if length is None else end + 4 + int(length[1]) - len(read)
        if missing is None or missing < 0 or self._question is None:
            self._transport.abort()  # Not what is asked for here.
        elif not missing:
            self._received = bytearray()
            is_value = head.startswith(b"HTTP/1.1 200 ") and (
                b"\r\ncontent-type: application/json\r\n" in head
            )
            question, self._question = self._question, None
            if b"\r\nconnection: close\r\n" in head:
                self._transport.close()
            else:
                self._since_s = self._loop.time()
                self._owner.is_free(self)
            question.done(bytes(read[end + 4 :]) if is_value else None)

    def connection_lost(self, exc: Exception | None) -> None:
        self._socket.close()
        self._next_look.cancel()
        self._owner.lost(self)
        self._unanswered()

    def close(self) -> None:
        """Close it; what is asked gets no answer."""
        self._transport.abort()

    def _read(self) -> bool:
        """Read what has come of an answer."""
        if self._transport.is_closing():
            return False
        data = self._socket.read()
        if not data:
            return False
        try:
            self.data_received(data)
        except BaseException as error:  # noqa: BLE001 - it is told
            self._socket.fail(self, error)
        return True

    def _unanswered(self) -> None:
        question, self._question = self._question, None
        if question is not None:
            question.done(None)

    def _look_later(self) -> None:
        self._next_look = self._loop.call_later(self._owner.timeout_s, self._look)

    def _look(self) -> None:
        rests_s = self._loop.time() - self._since_s
        if rests_s >= (_KEPT_S if self._question is None else self._owner.timeout_s):
            self._transport.abort()
        else:
            self._look_later()
