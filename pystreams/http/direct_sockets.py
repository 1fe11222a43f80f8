"""Sockets of connections, read and written beside their transports.

A transport has whatever is out of the ordinary: the end of a connection, its errors, what the
system has no room for, and all of TLS.
"""

from __future__ import annotations

import asyncio

from pystreams.http.lock_keeping_socket import LockKeepingCalls
from pystreams.http.reading_selector import Reader


class DirectSockets:
    """Those of one event loop.

    Attributes:
        readers: By descriptor, for a `ReadingSelector`.
        calls: What reads and writes them.
    """

    def __init__(self) -> None:
        self.readers: dict[int, Reader] = {}
        self.calls = LockKeepingCalls()

    def of(self, transport: asyncio.Transport, reader: Reader) -> DirectSocket:
        """Return the socket of a connection that is made; `reader` is asked until it is closed.

        Over TLS no reader is ever asked.
        """
        return DirectSocket(self, transport, reader)


class DirectSocket:
    """One connection's, as `DirectSockets.of` returns it."""

    __slots__ = ("_calls", "_descriptor", "_readers", "_transport")

    def __init__(
        self, sockets: DirectSockets, transport: asyncio.Transport, reader: Reader
    ) -> None:
        self._readers, self._calls = sockets.readers, sockets.calls
        self._transport = transport
        self._descriptor: int | None = None
        if transport.get_extra_info("sslcontext") is None:
            descriptor = self._descriptor = transport.get_extra_info("socket").fileno()
            self._readers[descriptor] = reader

    @property
    def is_secure(self) -> bool:
        """Whether TLS lies between."""
        return self._descriptor is None

    def read(self) -> bytes:
        """Return what has come; nothing where that is for the transport to find.

        Only for a reader, while its transport reads.
        """
        assert self._descriptor is not None
        try:
            return self._calls.recv(self._descriptor)
        except OSError:
            return b""

    def write(self, data: bytes) -> None:
        """Send what there is room for, unless something waits for room; the rest goes later."""
        if self._descriptor is None or self._transport.get_write_buffer_size():
            self._transport.write(data)
            return
        try:
            sent = self._calls.send(self._descriptor, data)
        except OSError:
            sent = 0  # The transport meets it again.
        if sent < len(data):
            self._transport.write(data[sent:])

    def fail(self, protocol: asyncio.BaseProtocol, error: BaseException) -> None:
        """Do what the event loop does when a connection has failed at what it was given."""
        self._transport.abort()
        told = {"message": "a connection has failed", "exception": error}
        asyncio.get_running_loop().call_exception_handler(
            {**told, "transport": self._transport, "protocol": protocol}
        )

    def close(self) -> None:
        """Let its reader go, before the system gives its descriptor to another connection."""
        if self._descriptor is not None:
            del self._readers[self._descriptor]
