"""Connections that are closed when no request comes on them, or not in time.

uvicorn closes a connection that rests between two requests; one that never sends a request, or
sends it a byte a minute, it keeps.
"""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol


def closed_when_idle(idle_timeout_s: float) -> type[H11Protocol]:
    """Return connections that wait so long (s), and at most twice as long, for a whole request."""

    class Connection(H11Protocol):
        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            self._look_later()

        def connection_lost(self, exc: Exception | None) -> None:
            self._next_look.cancel()
            super().connection_lost(exc)

        def _look_later(self) -> None:
            self._next_look = self.loop.call_later(idle_timeout_s, self._look, self.cycle)

        def _look(self, before: Any) -> None:
            now = self.cycle
            if now is before and (now is None or now.response_complete):
                self.transport.abort()
            else:
                self._look_later()

    return Connection
