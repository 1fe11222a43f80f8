"""Questions over HTTP at a fixed rate, on connections that stay open.

Each question has its time, however long the answers before it took: what waits for a connection is
part of its latency.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import cycle, islice

_GIVE_UP_S = 30.0


@dataclass
class Load:
    """What came of questions.

    Attributes:
        latencies_s: From the time that each was due to its answer (s).
        began_s: When the first was due (`time.monotonic`).
        ended_s: When the last was answered.
        cpu_s: What asking took this process (s).
    """

    latencies_s: list[float] = field(default_factory=list)
    began_s: float = 0.0
    ended_s: float = 0.0
    cpu_s: float = 0.0


class _Connection(asyncio.Protocol):
    """A connection with one question at a time."""

    def __init__(
        self, paths: Iterator[str], answered: Callable[[_Connection, int, bytes], None]
    ) -> None:
        self._paths = paths
        self._answered = answered
        self._read = b""
        self.due_s = 0.0
        self.path = ""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def ask(self, due_s: float) -> None:
        self.path, self.due_s = next(self._paths), due_s
        self.transport.write(f"GET {self.path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())

    def data_received(self, data: bytes) -> None:
        self._read += data
        head, separator, body = self._read.partition(b"\r\n\r\n")
        if not separator:
            return
        length = int(head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0])
        if len(body) >= length:
            self._read = b""
            self._answered(self, int(head[9:12]), body)


def ask_at_rate(
    paths: Mapping[int, Iterator[str]],
    *,
    rate: int,
    seconds: float,
    connections: int,
    check: Callable[[str, int, bytes], None],
) -> Load:
    """Ask for so long, and return what came of it once the last is answered.

    Args:
        paths: What is asked, by the port of the server on this machine; connections go to them in
            turn.
        rate: Questions a second.
        seconds: For how long.
        connections: How many connections; a question goes over one that is free.
        check: Is given each path, status and body; may raise.
    """
    return asyncio.run(_ask_at_rate(paths, rate, seconds, connections, check))


async def _ask_at_rate(
    paths: Mapping[int, Iterator[str]],
    rate: int,
    seconds: float,
    connections: int,
    check: Callable[[str, int, bytes], None],
) -> Load:
    loop, load, total = asyncio.get_running_loop(), Load(), int(rate * seconds)
    free: deque[_Connection] = deque()
    waiting: deque[float] = deque()
    done: asyncio.Future[None] = loop.create_future()

    def answered(connection: _Connection, status: int, body: bytes) -> None:
        load.latencies_s.append(time.monotonic() - connection.due_s)
        try:
            check(connection.path, status, body)
        except Exception as error:  # noqa: BLE001 - raised where it is awaited
            if not done.done():
                done.set_exception(error)
            return
        if waiting:
            connection.ask(waiting.popleft())
        else:
            free.append(connection)
        if len(load.latencies_s) == total and not done.done():
            done.set_result(None)

    for port in islice(cycle(paths), connections):
        _, connection = await loop.create_connection(
            partial(_Connection, paths[port], answered), "127.0.0.1", port
        )
        free.append(connection)
    every = list(free)
    load.began_s, cpu_s = time.monotonic(), time.process_time()
    for number in range(total):
        due_s = load.began_s + number / rate
        if (wait_s := due_s - time.monotonic()) > 0:
            await asyncio.sleep(wait_s)
        if free:
            free.popleft().ask(due_s)
        else:
            waiting.append(due_s)
    await asyncio.wait_for(done, _GIVE_UP_S)
    load.ended_s, load.cpu_s = time.monotonic(), time.process_time() - cpu_s
    for connection in every:
        connection.transport.close()
    return load
