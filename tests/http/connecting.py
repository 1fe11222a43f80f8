"""Connections as a client has them, and as the server keeps them."""

from __future__ import annotations

import contextlib
import gc
import socket

from pystreams.http.server import HttpServer
from tests.broker.waiting import DEADLINE_S, wait_until
from tests.http.asking import ask


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
    return sum(
        type(found).__qualname__.endswith("<locals>.Connection") for found in gc.get_objects()
    )
