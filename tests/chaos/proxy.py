"""A TCP proxy before each broker: it cuts, delays, goes silent, and refuses to connect.

It knows nothing of Kafka. Brokers tell the members to come to it (`advertised.listeners`), so that
no member has another way; the brokers among themselves, and the test, have a listener of their own.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Coroutine
from random import Random
from typing import Any

from pystreams.broker.settings import LOOPBACK

_PIECE_BYTES = 1 << 16


class Proxy:
    """Passes bytes on, for any number of ports.

    Args:
        ports: Where each broker is found, by the port it listens on.

    Attributes:
        delay_ms: How long each piece takes, in each direction.
        cuts: How many connections were cut.
    """

    def __init__(self, ports: dict[int, int]) -> None:
        self.delay_ms = 0
        self.cuts = 0
        self._connections: set[asyncio.StreamWriter] = set()
        self._silent: dict[asyncio.StreamWriter, asyncio.Event] = {}
        self._refusing = False
        self._servers: list[asyncio.Server] = []
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="proxy", daemon=True)
        self._thread.start()
        for port, broker_port in ports.items():
            self._call(self._listen(port, broker_port))

    def cut(self, share: float, draw: Random) -> None:
        """Cut some of the connections."""
        self._call(self._cut(share, draw))

    def refuse(self) -> None:
        """Cut all connections, and take no others."""
        self._refusing = True
        self._call(self._cut(1, Random(0)))

    def silence(self, share: float, draw: Random) -> None:
        """Pass nothing on that comes on some of the connections; whoever waits is told nothing."""
        self._call(self._silence(share, draw))

    def heal(self) -> None:
        """Take connections again; cut the silent ones, so that nobody has to notice by himself."""
        self._refusing = False
        self.delay_ms = 0
        self._call(self._cut_silent())

    def close(self) -> None:
        self._call(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    # ------------------------------------------------------------------ in the loop

    def _call(self, doing: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(doing, self._loop).result()

    async def _end(self) -> None:
        for server in self._servers:
            server.close()
        running = asyncio.all_tasks() - {asyncio.current_task()}
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    async def _listen(self, port: int, broker_port: int) -> None:
        async def accepted(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await self._serve(reader, writer, broker_port)

        self._servers.append(await asyncio.start_server(accepted, LOOPBACK, port))

    async def _serve(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, broker_port: int
    ) -> None:
        if self._refusing:
            writer.transport.abort()
            return
        try:
            answers, requests = await asyncio.open_connection(LOOPBACK, broker_port)
        except OSError:
            writer.transport.abort()
            return
        self._connections.add(writer)
        there = asyncio.ensure_future(self._pass(reader, requests, writer))
        back = asyncio.ensure_future(self._pass(answers, writer, writer))
        try:
            await asyncio.wait([there, back], return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._connections.discard(writer)
            self._silent.pop(writer, None)
            for ended in (there, back):
                ended.cancel()
            writer.transport.abort()
            requests.transport.abort()

    async def _pass(
        self,
        source: asyncio.StreamReader,
        target: asyncio.StreamWriter,
        client: asyncio.StreamWriter,
    ) -> None:
        with contextlib.suppress(OSError):
            while piece := await source.read(_PIECE_BYTES):
                if self.delay_ms:
                    await asyncio.sleep(self.delay_ms / 1000)
                if client in self._silent:
                    await self._silent[client].wait()
                target.write(piece)
                await target.drain()

    async def _cut(self, share: float, draw: Random) -> None:
        for connection in list(self._connections):
            if draw.random() < share:
                self.cuts += 1
                connection.transport.abort()

    async def _silence(self, share: float, draw: Random) -> None:
        for connection in self._connections:
            if draw.random() < share:
                self._silent[connection] = asyncio.Event()

    async def _cut_silent(self) -> None:
        """What was sent last arrives late, when nobody waits for the answer any more."""
        for connection, over in self._silent.items():
            self.cuts += 1
            connection.transport.abort()
            over.set()
