"""A server that is asked badly in many ways, in a process of its own: what it keeps is counted.

    python -m tests.http.abused_server <state directory>

Nothing else of the process opens files, threads or memory, so that what there was before must be
all there is afterwards. It ends with an error if it is not.
"""

from __future__ import annotations

import contextlib
import resource
import socket
import sys
import threading
import tracemalloc
from pathlib import Path

from pystreams import KafkaStreams, StreamsBuilder
from pystreams.http.server import HttpOptions, HttpServer
from pystreams.serdes import STRING
from tests.broker.waiting import wait_until
from tests.http.connecting import connected, connections_kept, wait_for_answer

IDLE = 1000
ROUNDS = 3
SPARE_BYTES = 1_000_000
"""Less than a thousand connections take, and more than what Python keeps for later."""
TOKEN = "secret"
BAD = (
    b"nothing that is HTTP\r\n\r\n",
    b"GET /v1/status HTTP/1.1\r\n\r\n",
    b"GET /v1/status HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer wrong\r\n\r\n",
    b"GET /v1/stores/counts/a HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer wrong\r\n\r\n",
    b"GET /%b HTTP/1.1\r\nHost: localhost\r\n\r\n" % (b"x" * 20_000),
    b"GET / HTTP/1.1\r\nHost: localhost\r\nX: %b\r\n\r\n" % (b"x" * 100_000),
    b"POST /v1/status HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9999999\r\n\r\nx",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",  # TLS where there is none.
)


def abuse(server: HttpServer) -> None:
    """Send bad requests, begin some, and stay; let go when the server has let go of all."""
    with contextlib.ExitStack() as stack:
        opened = [stack.enter_context(connected(server)) for _ in range(IDLE)]
        for number, connection in enumerate(opened[: 20 * len(BAD)]):
            with contextlib.suppress(ConnectionError):  # It is let go before it has said all.
                connection.sendall(BAD[number % len(BAD)])
        for connection in opened[-100:]:
            with contextlib.suppress(ConnectionError):
                connection.sendall(b"GET /livez HTTP/1.1\r\nX-Slow: ")
        wait_for_answer(server)
        for connection in opened:
            _read_to_end(connection)


def _read_to_end(connection: socket.socket) -> None:
    with contextlib.suppress(ConnectionError):
        while connection.recv(1 << 16):
            pass


def counted() -> tuple[int, int, int]:
    """Return what is open: descriptors, threads, connections."""
    descriptors = sum(1 for _ in Path("/proc/self/fd").iterdir())
    return descriptors, threading.active_count(), connections_kept()


def _wait_for(before: tuple[int, int, int]) -> None:
    wait_until(
        lambda: all(now <= then for now, then in zip(counted(), before, strict=True)),
        f"of {IDLE} connections nothing is kept, as before: {before}",
        told=lambda: str(counted()),
    )


def main(directory: str) -> None:
    """Abuse a server for some rounds; of each nothing may be kept, beyond what the first needs."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 2 * IDLE + 500  # Both ends are here.
    assert most == resource.RLIM_INFINITY or most >= wanted, f"only {most} files may be open"
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, most))
    builder = StreamsBuilder()
    builder.stream("in", key_serde=STRING, value_serde=STRING).group_by_key().count(name="counts")
    config = {"application.id": "a", "bootstrap.servers": "127.0.0.1:1", "state.dir": directory}
    streams = KafkaStreams(builder.build(), config)
    tracemalloc.start()
    with HttpServer(streams, HttpOptions(port=0, token=TOKEN, idle_timeout_s=0.5)) as server:
        before, bytes_before = (0, 0, 0), 0
        for number in range(ROUNDS):
            abuse(server)
            if number:
                _wait_for(before)
                kept = tracemalloc.get_traced_memory()[0] - bytes_before
                assert kept < SPARE_BYTES, f"{kept} bytes are kept"
            else:
                wait_until(lambda: connections_kept() == 0, "nothing is kept of the first ones")
                before, bytes_before = counted(), tracemalloc.get_traced_memory()[0]
        wait_for_answer(server)
    wait_until(lambda: "pystreams-http" not in str(threading.enumerate()), "the thread has ended")


if __name__ == "__main__":
    main(sys.argv[1])
