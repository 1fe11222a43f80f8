"""Another process, whose answers a test writes, and what asks it in the same event loop."""

from __future__ import annotations

import asyncio
import contextlib
import selectors
import ssl
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from itertools import pairwise
from typing import NamedTuple

from pystreams.http.direct_sockets import DirectSockets
from pystreams.http.reading_selector import ReadingSelector
from pystreams.http.stores.quick_forwards import Done, Forward, QuickForwards
from pystreams.runtime.cluster.streams_metadata import HostInfo
from tests.broker.waiting import DEADLINE_S
from tests.http.scripted_server import Last


class Owner:
    """Answers each request with the next of some answers; an empty one hangs up, as a `Last` does.

    Args:
        cuts: Where each answer is cut into pieces, which are sent one after the other.

    Attributes:
        connections: How often somebody has connected.
        ended: No connection is open any more.
    """

    def __init__(self, answers: Sequence[bytes], cuts: Sequence[int] = (9,)) -> None:
        self._answers = list(answers)
        self._cuts = cuts
        self.connections = 0
        self.ended = asyncio.Event()
        self.ended.set()
        self._open: set[asyncio.StreamWriter] = set()

    def say(self, data: bytes) -> None:
        """Say something on each connection, unasked."""
        for writer in self._open:
            writer.write(data)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self._open.add(writer)
        self.ended.clear()
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                await reader.readuntil(b"\r\n\r\n")
                answer = self._answers.pop(0)
                for begin, end in pairwise((0, *self._cuts, len(answer))):
                    writer.write(answer[begin:end])
                    await writer.drain()
                    await asyncio.sleep(0)  # In which a piece is read.
                if not answer or isinstance(answer, Last):
                    break
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()
        self._open.discard(writer)
        if not self._open:
            self.ended.set()


class Tls(NamedTuple):
    """How an owner is served over TLS, and how it is asked."""

    served: ssl.SSLContext
    asked: ssl.SSLContext


class Asking:
    """Asks an owner.

    Attributes:
        forwards: What asks.
        errors: What the event loop was told that has failed.
        heard: How often the event loop was left to read an answer.
        to: Whom it asks.
    """

    def __init__(self, sockets: DirectSockets, forwards: QuickForwards) -> None:
        self.forwards = forwards
        self.errors: list[BaseException] = []
        self.heard = 0
        self.to = HostInfo("", 0)
        self._sockets = sockets

    def ask(self, done: Done) -> None:
        self.forwards.ask(Forward(self.to, b"GET / HTTP/1.1\r\n\r\n"), done)

    def asked(self) -> asyncio.Future[bytes | None]:
        """Ask, and return what is going to be the answer."""
        answer: asyncio.Future[bytes | None] = asyncio.get_running_loop().create_future()
        self.ask(answer.set_result)
        return answer

    async def until_let_go(self) -> None:
        """Wait until there is no connection any more."""
        async with asyncio.timeout(DEADLINE_S):
            while self.forwards.owners or self._sockets.readers:  # noqa: ASYNC110 - none tells
                await asyncio.sleep(0)


class _Told(ReadingSelector):
    """Counts what the event loop is told of connections that have a reader."""

    def __init__(self, sockets: DirectSockets, asking: Asking) -> None:
        super().__init__(sockets.readers)
        self._readers_now = sockets.readers
        self._asking = asking

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        told = super().select(timeout)
        self._asking.heard += sum(key.fd in self._readers_now for key, _ in told)
        return told


def run_asking(
    owner: Owner,
    do: Callable[[Asking], Awaitable[None]],
    *,
    tls: Tls | None = None,
    timeout_s: float = DEADLINE_S,
) -> None:
    """Do something with an owner, and see that nothing is left of its connections."""
    sockets = DirectSockets()
    asking = Asking(
        sockets, QuickForwards(sockets, tls.asked if tls else None, timeout_s=timeout_s)
    )

    async def serve() -> None:
        asyncio.get_running_loop().set_exception_handler(
            lambda _, told: asking.errors.append(told["exception"])
        )
        server = await asyncio.start_server(
            owner.serve, "127.0.0.1", 0, ssl=tls.served if tls else None
        )
        (listening,) = server.sockets
        asking.to = HostInfo("127.0.0.1", listening.getsockname()[1])
        await do(asking)
        asking.forwards.close()
        server.close()
        await asking.until_let_go()
        await owner.ended.wait()

    loop = partial(asyncio.SelectorEventLoop, _Told(sockets, asking))
    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(serve())


def asked(
    owner: Owner,
    times: int,
    *,
    at_once: bool = False,
    tls: Tls | None = None,
    timeout_s: float = DEADLINE_S,
) -> list[bytes | None]:
    """Return what an owner is understood to have answered, however slow this machine is."""
    bodies: list[bytes | None] = []

    async def ask_all(asking: Asking) -> None:
        if at_once:
            bodies.extend(await asyncio.gather(*(asking.asked() for _ in range(times))))
        else:
            bodies.extend([await asking.asked() for _ in range(times)])

    run_asking(owner, ask_all, tls=tls, timeout_s=timeout_s)
    return bodies
