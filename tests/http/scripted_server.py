"""A server whose answers a test writes, and which remembers what it was asked; and one in between.

Both count connections, which nobody sees from outside.
"""

from __future__ import annotations

import contextlib
import json
import socket
import socketserver
import ssl
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from tests.broker.waiting import DEADLINE_S


@dataclass
class Asked:
    """A request.

    Attributes:
        target: What stands behind GET.
        connection: The number of the connection over which it came, from 1 on.
    """

    target: str
    headers: dict[str, str]
    connection: int


@dataclass
class ScriptedServer:
    """A server at `port`.

    Attributes:
        accepted: How many connections there were.
        opened: How many there are.
        asked: What it was asked, in order.
    """

    port: int = 0
    accepted: int = 0
    opened: int = 0
    asked: list[Asked] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"


class Last(bytes):
    """What is sent before the connection is ended, of which it says nothing."""


Answer = Callable[[Asked], bytes]


def as_json(value: object) -> bytes:
    body = json.dumps(value).encode()
    return b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body)


def sent_on(location: str, status: int = 302) -> bytes:
    head = f"HTTP/1.1 {status} Found\r\nlocation: {location}\r\ncontent-length: 0\r\n\r\n"
    return head.encode("latin-1")


@contextlib.contextmanager
def scripted(
    answer: Answer, host: str = "127.0.0.1", port: int = 0, tls: ssl.SSLContext | None = None
) -> Iterator[ScriptedServer]:
    """Run a server; its connections end when it does, and when what comes is no request."""
    found = ScriptedServer()

    def serve(connection: socket.socket, number: int) -> None:
        with connection.makefile("rb") as lines:
            while line := lines.readline():
                if len(line.split(b" ")) != 3:
                    return
                headers: dict[str, str] = {}
                while header := lines.readline().decode("latin-1").strip():
                    name, _, value = header.partition(": ")
                    headers[name.lower()] = value
                asked = Asked(line.split(b" ")[1].decode(), headers, number)
                found.asked.append(asked)
                said = answer(asked)
                connection.sendall(said)
                if isinstance(said, Last):
                    return

    with _listening(found, serve, (host, port), tls):
        yield found


@contextlib.contextmanager
def in_between(place: str | None = None) -> Iterator[ScriptedServer]:
    """Pass on bytes to a server; without one to whom a request `CONNECT host:port` asks for."""
    found = ScriptedServer()

    def serve(connection: socket.socket, number: int) -> None:
        to = place
        if to is None:
            head = b""
            while not head.endswith(b"\r\n\r\n"):
                head += connection.recv(1)
            line, *rest = head.decode().splitlines()
            headers = dict(header.lower().split(": ", 1) for header in rest if header)
            to = line.split()[1]
            found.asked.append(Asked(to, headers, number))
            connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
        host, _, port = to.rpartition(":")
        with socket.create_connection((host, int(port)), DEADLINE_S) as other:
            back = threading.Thread(target=_pass_on, args=(other, connection))
            back.start()
            _pass_on(connection, other)
            back.join()

    with _listening(found, serve, ("127.0.0.1", 0)):
        yield found


@contextlib.contextmanager
def trickling(port: int = 0) -> Iterator[tuple[str, threading.Thread]]:
    """Answer one connection byte by byte; give where, and what does so until it is ended."""
    done = threading.Event()

    def trickle(listening: socket.socket) -> None:
        connection, _ = listening.accept()
        with connection, contextlib.suppress(OSError):
            while not done.wait(0.05):
                connection.send(b"H")

    with socket.create_server(("127.0.0.1", port)) as owner:
        thread = threading.Thread(target=trickle, args=(owner,), daemon=True)
        thread.start()
        try:
            yield f"127.0.0.1:{owner.getsockname()[1]}", thread
        finally:
            done.set()


def _pass_on(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(1 << 16):
            target.sendall(data)
    for end in (source, target):
        with contextlib.suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)


@contextlib.contextmanager
def _listening(
    found: ScriptedServer,
    serve: Callable[[socket.socket, int], None],
    address: tuple[str, int],
    tls: ssl.SSLContext | None = None,
) -> Iterator[None]:
    lock = threading.Lock()
    connections: set[socket.socket] = set()

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            with lock:
                found.accepted += 1
                found.opened += 1
                number = found.accepted
                connections.add(self.request)
            try:
                with contextlib.suppress(ConnectionError, ssl.SSLError):
                    if tls is None:
                        serve(self.request, number)
                    else:
                        with tls.wrap_socket(self.request, server_side=True) as secure:
                            serve(secure, number)
            finally:
                with lock:
                    found.opened -= 1
                    connections.discard(self.request)

    class Server(socketserver.ThreadingTCPServer):
        allow_reuse_address = True
        request_queue_size = 64

    with Server(address, Handler) as server:
        found.port = server.server_address[1]
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield
        finally:
            server.shutdown()
            thread.join()
            with lock:
                for connection in connections:
                    with contextlib.suppress(OSError):
                        connection.shutdown(socket.SHUT_RDWR)
