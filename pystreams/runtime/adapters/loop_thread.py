"""The thread of an asyncio event loop, and what runs in it: calls, with their retries.

A call that does not await what it waits for stands in the way of all others, and no time-out ends
it. It is told where the loop stands, once a minute at most.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import sys
import threading
import traceback
from collections.abc import Callable
from types import AsyncGeneratorType, GeneratorType
from typing import Any

from pystreams.kernel.async_functions import RETURN_ONE
from pystreams.kernel.loggers import get_logger
from pystreams.topology.contracts.held_records import Call, CallLimits

RAISED_BY_CODE = (Exception, SystemExit, KeyboardInterrupt, GeneratorExit, asyncio.CancelledError)
"""Whatever code of the application may raise: also what elsewhere ends a process or a task."""

_STOP_S = 5.0
_TELL_EVERY_S = 60.0
_FRAMES = 5

_log = get_logger("pystreams.processing")


class LoopThread:
    """A loop that runs; any thread may use it.

    Args:
        blocked_s: A loop that does not react for so long is blocked.
    """

    def __init__(self, blocked_s: float) -> None:
        self._blocked_s = blocked_s
        self._told_s = -_TELL_EVERY_S
        self._lock = threading.Lock()
        self._loop = asyncio.new_event_loop()
        self.time = self._loop.time
        self._thread = threading.Thread(
            target=self._loop.run_forever, name="pystreams-async-calls", daemon=True
        )
        self._thread.start()

    def do(self, action: Callable[..., object], *arguments: Any) -> None:
        """Let the loop's thread do something, soon."""
        self._loop.call_soon_threadsafe(action, *arguments)

    def begin(self, call: Call, limits: CallLimits) -> asyncio.Task[None]:
        """Begin a call; for the loop's thread."""
        return self._loop.create_task(make_call(call, limits))

    def reacts(self) -> bool:
        """Return whether the loop does anything for us; tells where it stands if not."""
        reacted = threading.Event()
        self.do(reacted.set)
        if not reacted.wait(self._blocked_s):
            self._tell_blocked(self._blocked_s)
        return reacted.is_set()

    def tell_if_late(self, asked_s: float) -> None:
        """Tell that calls have waited for others to let the loop go on, now and then.

        Args:
            asked_s: When the loop's thread was asked for what it does now.
        """
        if (blocked_s := self.time() - asked_s) > self._blocked_s:
            self._tell_blocked(blocked_s)

    def stop(self) -> None:
        """Cancel what is under way and end the thread; a loop that is blocked is left behind."""
        with contextlib.suppress(TimeoutError):
            asyncio.run_coroutine_threadsafe(_cancel_all(), self._loop).result(_STOP_S)
        self.do(self._loop.stop)
        self._thread.join(_STOP_S)
        if not self._thread.is_alive():
            self._loop.close()

    def _tell_blocked(self, blocked_s: float) -> None:
        with self._lock:
            if self.time() < self._told_s + _TELL_EVERY_S:
                return
            self._told_s = self.time()
        frame = sys._current_frames().get(self._thread.ident or 0)  # noqa: SLF001 - documented
        in_loop = self._thread is threading.current_thread()
        where = [] if in_loop else traceback.format_stack(frame, _FRAMES)
        _log.warning(
            "a call blocks the event loop that all calls of map_values_async share; no time-out "
            "ends it: await what it waits for, or let a thread do it "
            "(await asyncio.to_thread(...))",
            blocked_s=round(blocked_s, 1),
            at="".join(where) or "a call that has gone on since",
        )


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
    answer: Any = call.function(*call.arguments)
    if not inspect.isawaitable(answer):
        is_generator = isinstance(answer, AsyncGeneratorType | GeneratorType)
        cure = RETURN_ONE if is_generator else "make it `async def`, or use map_values"
        raise TypeError(
            f"map_values_async: the function returned {answer!r}, which can't be awaited: {cure}"
        )
    return await answer


async def _cancel_all() -> None:
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
