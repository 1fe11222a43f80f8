"""An asyncio event loop beside the stream threads, which makes the calls of `map_values_async`.

One loop a process: clients that the user's code makes in the first call, such as an HTTP session,
serve all later ones. It begins with the first call.

A call that does not await what it waits for stands in the way of all others, and no time-out ends
it. It is told where the loop stands, once a minute at most.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import sys
import threading
import time
import traceback

from pystreams.kernel.loggers import get_logger
from pystreams.topology.contracts.held_records import Call, CallLimits

RAISED_BY_CODE = (Exception, SystemExit, KeyboardInterrupt, GeneratorExit, asyncio.CancelledError)
"""Whatever code of the application may raise: also what elsewhere ends a process or a task."""

_STOP_S = 5.0
_BLOCKED_S = 1.0
"""A loop that does not react for so long is blocked."""
_TELL_EVERY_S = 60.0
_FRAMES = 5

_log = get_logger("pystreams.processing")


class EventLoop:
    """A loop in a thread of its own. Safe to use from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._told_s = -_TELL_EVERY_S

    def calls(self) -> EventLoopCalls:
        """Return what makes the calls of one task."""
        return EventLoopCalls(self)

    def running(self) -> asyncio.AbstractEventLoop:
        """Return the loop; starts it if need be."""
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(
                    target=self._loop.run_forever, name="pystreams-async-calls", daemon=True
                )
                self._thread.start()
            return self._loop

    def reacts(self) -> bool:
        """Return whether the loop does anything for us; tells where it stands if not."""
        reacted = threading.Event()
        self.running().call_soon_threadsafe(reacted.set)
        if not reacted.wait(_BLOCKED_S):
            self.tell_blocked(_BLOCKED_S)
        return reacted.is_set()

    def tell_blocked(self, blocked_s: float) -> None:
        """Tell that calls have waited for others to let the loop go on, now and then."""
        with self._lock:
            loop, thread = self._loop, self._thread
            if loop is None or thread is None or loop.time() < self._told_s + _TELL_EVERY_S:
                return
            self._told_s = loop.time()
        frame = sys._current_frames().get(thread.ident or 0)  # noqa: SLF001 - documented
        in_loop = thread is threading.current_thread()
        where = [] if in_loop else traceback.format_stack(frame, _FRAMES)
        _log.warning(
            "a call blocks the event loop that all calls of map_values_async share; no time-out "
            "ends it: await what it waits for, or let a thread do it "
            "(await asyncio.to_thread(...))",
            blocked_s=round(blocked_s, 1),
            at="".join(where) or "a call that has gone on since",
        )

    def close(self) -> None:
        """Cancel what is under way and end the thread; a loop that is blocked is left behind."""
        with self._lock:
            loop, thread, self._loop, self._thread = self._loop, self._thread, None, None
        if loop is None or thread is None:
            return
        with contextlib.suppress(TimeoutError):
            asyncio.run_coroutine_threadsafe(_cancel_all(), loop).result(_STOP_S)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(_STOP_S)
        if not thread.is_alive():
            loop.close()


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
        loop = self._loop.running()
        loop.call_soon_threadsafe(self._start, call, limits, loop.time())

    def wait(self, timeout_s: float) -> bool:
        """See `AsyncCalls`."""
        left_s, began_s = timeout_s, time.monotonic()
        while not (ended := self._ended.wait(min(left_s, _BLOCKED_S))) and left_s > _BLOCKED_S:
            left_s -= _BLOCKED_S if self._loop.reacts() else 2 * _BLOCKED_S
            left_s = max(left_s, 0.0)
        self._ended.clear()
        self.waited_s += time.monotonic() - began_s
        return ended

    def cancel(self) -> None:
        """See `AsyncCalls`."""
        self._loop.running().call_soon_threadsafe(self._cancel)

    def _start(self, call: Call, limits: CallLimits, asked_s: float) -> None:
        loop = asyncio.get_running_loop()
        if (blocked_s := loop.time() - asked_s) > _BLOCKED_S:
            self._loop.tell_blocked(blocked_s)
        task = loop.create_task(make_call(call, limits))
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


async def make_call(call: Call, limits: CallLimits) -> None:
    """Make one call, with its retries; leaves what comes of it in the call."""
    for attempt in range(limits.retries + 1):
        if attempt:
            call.retries = attempt
            await asyncio.sleep(limits.retry_backoff_ms * 2 ** (attempt - 1) / 1000)
        try:
            async with asyncio.timeout(limits.timeout_ms / 1000) as limit:
                call.result = await _awaited(call)
            call.error = None
            break
        except TimeoutError as error:
            call.error = error
            if limit.expired():
                call.error = TimeoutError(f"no answer within {limits.timeout_ms} ms")
        except asyncio.CancelledError:
            raise
        except BaseException as error:  # noqa: BLE001 - SystemExit would end the loop
            call.error = error if isinstance(error, Exception) else RuntimeError(repr(error))
    call.done = True


async def _awaited(call: Call) -> object:
    answer = call.function(*call.arguments)
    if not inspect.isawaitable(answer):
        raise TypeError(
            f"map_values_async: the function returned {answer!r}, which can't be awaited: make it "
            "`async def`, or use map_values"
        )
    return await answer


async def _cancel_all() -> None:
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
