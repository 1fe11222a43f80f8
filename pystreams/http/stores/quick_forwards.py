"""Questions for keys that other processes have, asked on from where a request is read.

Connections stay open for the next question, and keep Python's lock as those of the server do. Only
a value is passed on. Whatever else comes back (no such key, a partition that has moved, nothing)
is told as None: the request goes the ordinary way then, where the owner is asked again.
"""

from __future__ import annotations

import asyncio
import re
import socket
import ssl
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

from pystreams.http.guard import MAX_HEADER_BYTES
from pystreams.http.lock_keeping_socket import LockKeepingSocket
from pystreams.runtime.cluster.streams_metadata import HostInfo

_TIMEOUT_S = 2.0
_KEPT_S = 10.0
"""Less than a server keeps a connection on which nothing is asked."""
_MAX_KEPT = 64
_LENGTH = re.compile(rb"\r\ncontent-length: (\d+)\r\n")

Done = Callable[[bytes | None], None]
"""Is given the body of the owner's answer, or None."""


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
        tls: How they are asked over TLS; None asks without.
    """

    def __init__(self, tls: ssl.SSLContext | None) -> None:
        self._tls = tls
        self._free: dict[HostInfo, list[_Link]] = {}
        self._links: set[_Link] = set()
        self._connecting: set[asyncio.Task[None]] = set()

    def ask(self, forward: Forward, done: Done) -> None:
        """Ask; `done` is called once, later."""
        free = self._free.get(forward.owner)
        if free:
            free.pop().ask(forward.request, done)
            return
        task = asyncio.get_running_loop().create_task(self._connect(forward, done))
        self._connecting.add(task)
        task.add_done_callback(self._connecting.discard)

    def close(self) -> None:
        """Close all connections; what is asked gets no answer."""
        for link in list(self._links):
            link.close()

    async def _connect(self, forward: Forward, done: Done) -> None:
        try:
            async with asyncio.timeout(_TIMEOUT_S):
                link = await self._connected(forward.owner)
        except Exception:  # noqa: BLE001 - the ordinary way meets it again, and tells of it
            done(None)
            return
        link.ask(forward.request, done)

    async def _connected(self, owner: HostInfo) -> _Link:
        loop = asyncio.get_running_loop()
        keeping = LockKeepingSocket((await _connected_socket(owner)).detach())
        keeping.setblocking(False)
        _, link = await loop.create_connection(
            lambda: _Link(self._links, self._free.setdefault(owner, [])),
            sock=keeping,
            ssl=self._tls,
            server_hostname=owner.host if self._tls else None,
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
    """A connection to another process, with one question at a time.

    Args:
        links: All that are open.
        free: Those to the same process on which nothing is asked.
    """

    def __init__(self, links: set[_Link], free: list[_Link]) -> None:
        self._links = links
        self._free = free
        self._done: Done | None = None
        self._read = bytearray()
        self._since_s = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._loop = asyncio.get_running_loop()
        self._links.add(self)
        self._look_later()

    def ask(self, request: bytes, done: Done) -> None:
        """Ask; nothing else may be asked meanwhile."""
        self._done, self._since_s = done, self._loop.time()
        if self._transport.is_closing():
            self._end(None)
        else:
            self._transport.write(request)

    def data_received(self, data: bytes) -> None:
        read = self._read
        read += data
        end = read.find(b"\r\n\r\n")
        if end < 0:
            if len(read) > MAX_HEADER_BYTES:
                self._transport.abort()
            return
        head = bytes(read[: end + 2])
        length = _LENGTH.search(head)
        missing = None if length is None else end + 4 + int(length[1]) - len(read)
        if missing is None or missing < 0 or self._done is None:
            self._transport.abort()  # Not what is asked for here.
        elif not missing:
            self._read = bytearray()
            is_value = head.startswith(b"HTTP/1.1 200 ") and (
                b"\r\ncontent-type: application/json\r\n" in head
            )
            if b"\r\nconnection: close\r\n" in head or len(self._free) >= _MAX_KEPT:
                self._transport.close()
            else:
                self._since_s = self._loop.time()
                self._free.append(self)
            self._end(bytes(read[end + 4 :]) if is_value else None)

    def connection_lost(self, exc: Exception | None) -> None:
        self._next_look.cancel()
        self._links.discard(self)
        with suppress(ValueError):
            self._free.remove(self)
        self._end(None)

    def close(self) -> None:
        """Close it; what is asked gets no answer."""
        self._transport.abort()

    def _end(self, body: bytes | None) -> None:
        done, self._done = self._done, None
        if done is not None:
            done(body)

    def _look_later(self) -> None:
        self._next_look = self._loop.call_later(_TIMEOUT_S, self._look)

    def _look(self) -> None:
        rests_s = self._loop.time() - self._since_s
        if rests_s >= (_KEPT_S if self._done is None else _TIMEOUT_S):
            self._transport.abort()
        else:
            self._look_later()
