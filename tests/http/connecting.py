"""Connections as a client has them, and as the server keeps them."""

from __future__ import annotations

import contextlib
import gc
import re
import socket
import ssl

from uvicorn.protocols.http.h11_impl import H11Protocol

from pystreams.http.server import HttpServer
from tests.broker.waiting import DEADLINE_S, wait_until
from tests.http.asking import ask

HOST = b"Host: localhost\r\n"
ORDINARILY = b"TE: trailers\r\n"
"""A header that makes a request go the ordinary way, and changes nothing."""


def connected(server: HttpServer) -> socket.socket:
    connection = socket.socket()
    # The kernel takes little for who does not read.
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    connection.settimeout(DEADLINE_S)
    connection.connect(("127.0.0.1", int(server.url.rpartition(":")[2])))
    return connection


def wait_for_answer(server: HttpServer) -> None:
    """Wait until a server has answered.

    One that closes idle connections after half a second may do so before a client on a machine
    that stood still has sent its request.
    """

    def answered() -> bool:
        with contextlib.suppress(OSError):
            return ask(server.url, "/livez").status == 200
        return False

    wait_until(answered, "an answer")


def connections_kept() -> int:
    """Return how many connections the server still knows."""
    gc.collect()
    return sum(issubclass(type(found), H11Protocol) for found in gc.get_objects())


class Raw:
    """A connection over which bytes go as they are."""

    def __init__(self, url: str, trusting: ssl.SSLContext | None = None) -> None:
        address = ("127.0.0.1", int(url.rpartition(":")[2]))
        self._socket = socket.create_connection(address, DEADLINE_S)
        if trusting is not None:
            self._socket = trusting.wrap_socket(self._socket, server_hostname="127.0.0.1")
        self._read = b""

    def send(self, data: bytes) -> None:
        self._socket.sendall(data)

    def end(self) -> None:
        """Say that nothing more will be sent."""
        self._socket.shutdown(socket.SHUT_WR)

    def answer(self) -> bytes:
        """Return the next answer, without its date; nothing at the connection's end."""
        while b"\r\n\r\n" not in self._read:
            if not self._more():
                return b""
        head, _, rest = self._read.partition(b"\r\n\r\n")
        found = re.search(rb"content-length: (\d+)", head)
        length = int(found[1]) if found else 0
        while len(rest) < length:
            if not self._more():
                break
            rest = self._read.partition(b"\r\n\r\n")[2]
        self._read = rest[length:]
        return _without_date(head) + b"\r\n\r\n" + rest[:length]

    def close(self) -> None:
        self._socket.close()

    def _more(self) -> bool:
        read = b""
        with contextlib.suppress(ConnectionError):
            read = self._socket.recv(1 << 16)
        self._read += read
        return read != b""


def _without_date(head: bytes) -> bytes:
    return b"\r\n".join(
        sorted(line for line in head.split(b"\r\n") if not line.startswith(b"date: "))
    )
