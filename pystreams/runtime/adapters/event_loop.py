"""An asyncio event loop beside the stream threads, which makes the calls of `map_values_async`.

One loop a process: clients that the user's code makes in the first call, such as an HTTP session,
serve all later ones. It begins with the first call; asyncio is not imported before.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

from pystreams.topology.contracts.held_records import Call, CallLimits

if TYPE_CHECKING:
    import asyncio

    from pystreams.runtime.adapters.loop_thread import LoopThread

_BLOCKED_S = 1.0
"""A loop that does not react for so long is blocked."""


class EventLoop:
    """A loop in a thread of its own. Safe to use from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: LoopThread | None = None

    def calls(self) -> EventLoopCalls:
        """Return what makes the calls of one task."""
        return EventLoopCalls(self)

    def running(self) -> LoopThread:
        """Return the thread of the loop; starts it if need be."""
        return self._running or self._started()

    def close(self) -> None:
        """Cancel what is under way and end the thread; a loop that is blocked is left behind."""
        with self._lock:
            running, self._running = self._running, None
        if running is not None:
            running.stop()

    def _started(self) -> LoopThread:
        from pystreams.runtime.adapters.loop_thread import LoopThread

        with self._lock:
            if self._running is None:
                self._running = LoopThread(_BLOCKED_S)
            return self._running


class EventLoopCalls:
    """The calls of one task; see `AsyncCalls`.

    Attributes:
        waited_s: See `AsyncCalls`.
    """

    def __init__(self, loop: EventLoop) -> None:
        self.waited_s = 0.0
        self._loop = loop
        self._ended = threading.Event()
        # Touched in the loop's thread only.
        self._tasks: set[asyncio.Task[None]] = set()

    def begin(self, call: Call, limits: CallLimits) -> None:
        """See `AsyncCalls`."""
        running = self._loop.running()
        running.do(self._start, running, call, limits, running.time())

    def wait(self, timeout_s: float) -> bool:
        """See `AsyncCalls`."""
        left_s, began_s = timeout_s, time.monotonic()
        while not (ended := self._ended.wait(min(left_s, _BLOCKED_S))) and left_s > _BLOCKED_S:
            left_s -= _BLOCKED_S if self._loop.running().reacts() else 2 * _BLOCKED_S
            left_s = max(left_s, 0.0)
        self._ended.clear()
        self.waited_s += time.monotonic() - began_s
        return ended

    def cancel(self) -> None:
        """See `AsyncCalls`."""
        self._loop.running().do(self._cancel)

    def _start(self, running: LoopThread, call: Call, limits: CallLimits, asked_s: float) -> None:
        running.tell_if_late(asked_s)
        task = running.begin(call, limits)
        self._tasks.add(task)
        task.add_done_callback(lambda task: self._end(task, call))

    def _end(self, task: asyncio.Task[None], call: Call) -> None:
        self._tasks.discard(task)
        if not call.done:
            call.error = call.error or RuntimeError("the call was cancelled")
            call.done = True
        self._ended.set()

    def _cancel(self) -> None:
        for task in self._tasks:
            task.cancel()
