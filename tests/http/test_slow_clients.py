"""Those who ask and do not read, begin and do not end, or only stay: all are let go."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator

import pytest

from pystreams.http.server import HttpOptions, HttpServer
from tests.broker.waiting import DEADLINE_S, wait_until
from tests.http.asking import ask
from tests.http.conftest import Served
from tests.http.connecting import connected, connections_kept, wait_for_answer

IDLE_S = 0.5


@pytest.fixture(autouse=True)
def _looks_at_what_is_new() -> None:
    """A look at what the server keeps passes over what was there before: half a million objects."""
    gc.collect()
    gc.freeze()


@pytest.fixture
def server(filed: Served) -> Iterator[HttpServer]:
    with HttpServer(filed.streams, HttpOptions(port=0, idle_timeout_s=IDLE_S)) as server:
        yield server


@pytest.mark.parametrize(
    "path",
    [
        "/page.css",
        pytest.param("/v1/stores/counts/a", marks=pytest.mark.sweep),
        pytest.param("/v1/stores/counts/nobody", marks=pytest.mark.sweep),
    ],
)
def test_who_asks_and_does_not_read_the_answers_is_let_go(server: HttpServer, path: str) -> None:
    before = connections_kept()
    request = f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()
    with contextlib.ExitStack() as stack:
        opened = [stack.enter_context(connected(server)) for _ in range(3)]
        for connection in opened:
            connection.setblocking(False)
            with contextlib.suppress(BlockingIOError, ConnectionError):
                for _ in range(1000):
                    connection.send(request)
        wait_for_answer(server)
        wait_until(lambda: connections_kept() <= before, "nothing is kept of them")
    wait_for_answer(server)


def test_who_sends_headers_a_byte_at_a_time_for_ever_is_let_go(server: HttpServer) -> None:
    before = connections_kept()
    with connected(server) as slow:
        slow.sendall(b"GET /livez HTTP/1.1\r\nX-Slow: ")

        def refused() -> bool:
            try:
                slow.send(b"x")
            except ConnectionError:
                return True
            return False

        wait_until(refused, "it is let go, however regularly it sends")
    wait_until(lambda: connections_kept() <= before, "nothing is kept of it")


def test_of_a_thousand_connections_that_come_and_go_nothing_is_kept(filed: Served) -> None:
    """None is idle for too long, however long it takes to open them."""
    before = connections_kept()
    with HttpServer(filed.streams, HttpOptions(port=0)) as server:
        for _ in range(4):
            with contextlib.ExitStack() as stack:
                opened = [stack.enter_context(connected(server)) for _ in range(250)]
                for connection in opened[::2]:
                    connection.sendall(b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n")
                for connection in opened[::4]:
                    assert connection.recv(12) == b"HTTP/1.1 200"
        wait_until(lambda: connections_kept() <= before, "nothing is kept of them")
        assert ask(server.url, "/livez").status == 200


def test_a_server_that_stops_closes_the_connection_of_who_does_not_read(filed: Served) -> None:
    with HttpServer(filed.streams, HttpOptions(port=0)) as server:
        connection = connected(server)
        connection.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            for _ in range(1000):
                connection.send(b"GET /page.css HTTP/1.1\r\nHost: localhost\r\n\r\n")
    connection.settimeout(DEADLINE_S)
    with connection, contextlib.suppress(ConnectionError):
        while connection.recv(65536):
            pass
