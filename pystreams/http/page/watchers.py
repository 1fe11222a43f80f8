"""Server-sent events: one rendering a second, shared by all who watch.

Only what has changed is sent, after everything to those who come. Nobody waits for a slow watcher:
one that has not taken its last events is let go. Nothing is rendered while nobody watches.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import NamedTuple

import orjson
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from pystreams.http.responses import RequestError
from pystreams.kernel.loggers import get_logger
from pystreams.kernel.user_tracebacks import traceback_field

_log = get_logger("pystreams.http")

_EVERY_S = 1.0
_MAX_WATCHERS = 50
_MAX_WAITING = 5
_LAST_FRAME_S = 1.0

_HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),  # A proxy passes events on as they come.
    (b"x-content-type-options", b"nosniff"),
]


class Frame(NamedTuple):
    """The page at one moment.

    Attributes:
        is_last: Whether nothing follows: the application has stopped.
    """

    parts: dict[str, str]
    is_last: bool


class _Watcher:
    """One who watches, and the events that wait for them; None ends them."""

    def __init__(self) -> None:
        self.events: asyncio.Queue[bytes | None] = asyncio.Queue(_MAX_WAITING)
        self.knows_all = False


class Watchers:
    """All who watch; used in the server's event loop only.

    Args:
        render: Makes a frame; called in a thread of its own.
        every_s: How long from one frame to the next (s).
    """

    def __init__(self, render: Callable[[], Frame], every_s: float = _EVERY_S) -> None:
        self._render = render
        self._every_s = every_s
        self._sending: dict[_Watcher, asyncio.Task[None]] = {}
        self._telling: asyncio.Task[None] | None = None

    async def events(self, _: Request) -> Response:
        """Answer with events, until the watcher leaves or the application has stopped."""
        if len(self._sending) >= _MAX_WATCHERS:
            raise RequestError(503, f"{_MAX_WATCHERS} watch already: read /v1/status instead")
        return _EventStream(self)

    async def close(self) -> None:
        """Tell all who watch what there is to see at the end, and end their events."""
        if not self._sending:
            return
        rendering = asyncio.ensure_future(run_in_threadpool(self._render))
        done, _ = await asyncio.wait([rendering], timeout=_LAST_FRAME_S)
        if done and rendering.exception() is None:
            last = _event(rendering.result().parts)
            for watcher in self._sending:
                self._put(watcher, last)
        self._end()

    def _end(self) -> None:
        for watcher in self._sending:
            self._put(watcher, None)

    async def serve(self, receive: Receive, send: Send) -> None:
        """Send events to one watcher."""
        watcher = _Watcher()
        sending = asyncio.ensure_future(_send_events(watcher, send))
        leaving = asyncio.ensure_future(_until_left(receive))
        self._sending[watcher] = sending
        if self._telling is None or self._telling.done():
            self._telling = asyncio.ensure_future(self._tell())
        try:
            await asyncio.wait((sending, leaving), return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._sending.pop(watcher, None)
            sending.cancel()
            leaving.cancel()
            await asyncio.gather(sending, leaving, return_exceptions=True)

    async def _tell(self) -> None:
        """Tell all, frame by frame, while there is somebody."""
        try:
            await self._tell_frames()
        except Exception as error:  # noqa: BLE001 - nobody waits for this task
            _log.error("the page can't be shown", **traceback_field(error))
        finally:
            for sending in self._sending.values():
                sending.cancel()

    async def _tell_frames(self) -> None:
        before: dict[str, str] = {}
        while self._sending:
            frame = await run_in_threadpool(self._render)
            changed = {name: part for name, part in frame.parts.items() if before.get(name) != part}
            everything, news = _event(frame.parts), _event(changed)
            for watcher in self._sending:
                self._put(watcher, news if watcher.knows_all else everything)
                watcher.knows_all = True
            if frame.is_last:
                self._end()
            before = frame.parts
            await asyncio.sleep(self._every_s)

    def _put(self, watcher: _Watcher, event: bytes | None) -> None:
        """Let an event wait; a watcher for whom too many do is let go."""
        try:
            watcher.events.put_nowait(event)
        except asyncio.QueueFull:
            self._sending[watcher].cancel()


class _EventStream(Response):
    def __init__(self, watchers: Watchers) -> None:
        super().__init__()
        self._watchers = watchers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": _HEADERS})
        await self._watchers.serve(receive, send)


def _event(parts: dict[str, str]) -> bytes:
    return b"data: " + orjson.dumps(parts) + b"\n\n"


async def _send_events(watcher: _Watcher, send: Send) -> None:
    with contextlib.suppress(OSError):  # The watcher has gone.
        while (event := await watcher.events.get()) is not None:
            await send({"type": "http.response.body", "body": event, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _until_left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
