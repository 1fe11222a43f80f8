"""What is done when an error has ended a stream thread: the program's handler says.

A thread that is replaced keeps its name, its identity in the group, its producers' ids and its part
of the state directory: the one in its place is to the group a member that has come back, and fences
what the one before has left open. Until then the one before stays a member, so that no other has to
wait; where none takes its place at the first try, it leaves as at any other end. The next one goes
on from the last commit, so an error of a record comes again unless something else has changed.

Spec: KIP-671.
"""

from __future__ import annotations

import reprlib
import threading
from collections.abc import Callable
from dataclasses import replace
from enum import Enum

from pystreams.errors import StreamsError, as_streams_error
from pystreams.exception_texts import named_exception
from pystreams.kernel.loggers import get_logger
from pystreams.kernel.user_tracebacks import traceback_field
from pystreams.runtime.adapters.loop_thread import RAISED_BY_CODE
from pystreams.runtime.loop.membership.application_shutdown import ApplicationShutdown
from pystreams.runtime.loop.stream_thread import StreamThread
from pystreams.runtime.tasks.thread_parts import ThreadParts

_log = get_logger("pystreams.client")

_PAUSE_S = 0.5
"""Before a thread takes the place of another: an error that comes at once shall not come always."""


class StreamThreadExceptionResponse(Enum):
    """What to do when an error has ended a stream thread."""

    REPLACE_THREAD = "replace thread"
    """Start another in its place, after half a second; the others go on meanwhile. Where it can't
    be made, the handler is asked about that."""
    SHUTDOWN_CLIENT = "shutdown client"
    """Stop this process's threads: the application ends with the error."""
    SHUTDOWN_APPLICATION = "shutdown application"
    """Stop all processes of the application. The others commit and end, with an error that names
    this one: within seconds, or half a minute where a share does not change. This one waits for
    them."""


UncaughtExceptionHandler = Callable[[StreamsError], StreamThreadExceptionResponse]
"""Called with what has ended a thread, or kept it from being replaced, by that thread."""


class ThreadRunner:
    """Runs the stream threads of one application, each in a thread that calls `run`.

    Args:
        threads: Those that run; one that is replaced is replaced here.
        handler: What the program says; None stops the application.
        stop: Set when the application stops.
        failed: Stops this process for an error, and has its members leave the group if so told.

    Attributes:
        replaced: How many were replaced so far.
    """

    def __init__(
        self,
        threads: list[StreamThread],
        parts: ThreadParts,
        handler: UncaughtExceptionHandler | None,
        stop: threading.Event,
        failed: Callable[[StreamsError, bool | None], None],
    ) -> None:
        self.replaced = 0
        self._threads = threads
        self._parts = parts
        self._handler = handler
        self._stop = stop
        self._failed = failed
        self._lock = threading.Lock()
        self._asks_others = False

    def run(self, number: int) -> None:
        """Run a thread, and those in its place; tell what has ended the last one.

        Args:
            number: Its place in the list.
        """
        response, error = self._run_once(number)
        while response is StreamThreadExceptionResponse.REPLACE_THREAD:
            if self._stop.wait(_PAUSE_S):
                break
            response, error = self._run_another(number)
        self._threads[number].give_up_place()
        if error is None:
            return
        asks_others = response is StreamThreadExceptionResponse.SHUTDOWN_APPLICATION
        self._failed(error, True if asks_others else None)
        if asks_others and self._is_first():
            ApplicationShutdown(self._threads[number].name, self._parts).run()

    def _run_once(self, number: int) -> tuple[StreamThreadExceptionResponse, StreamsError | None]:
        """Run a thread; return what is to be done, and the error that has ended it."""
        thread = self._threads[number]
        thread.run()
        response = StreamThreadExceptionResponse.SHUTDOWN_CLIENT
        if thread.error is not None:
            response = self._response(thread.error)
        if response is StreamThreadExceptionResponse.SHUTDOWN_APPLICATION:
            thread.stop(leave_group=True)  # Nobody shall wait for its session.
        thread.shut_down(to_be_replaced=response is StreamThreadExceptionResponse.REPLACE_THREAD)
        return response, thread.error

    def _run_another(
        self, number: int
    ) -> tuple[StreamThreadExceptionResponse, StreamsError | None]:
        """Run one in a thread's place; where its clients can't be made, ask what to do then."""
        try:
            self._replace(number)
        except Exception as raised:  # noqa: BLE001 - the program's handler decides, whatever it is
            error = as_streams_error(raised)
            _log.error(
                "stream thread can't be replaced",
                thread=self._threads[number].name,
                error=str(error),
                **traceback_field(error),
            )
            response = self._response(error)
            if response is StreamThreadExceptionResponse.REPLACE_THREAD:
                # Its clients may take the memory, files or threads that those of the next one lack.
                self._threads[number].give_up_place()
            elif response is StreamThreadExceptionResponse.SHUTDOWN_APPLICATION:
                self._threads[number].stop(leave_group=True)
            return response, error
        return self._run_once(number)

    def _replace(self, number: int) -> None:
        before = self._threads[number]
        # It is no newcomer, and would wait for the one before, which says nothing any more.
        parts = replace(self._parts, identity=replace(self._parts.identity, newcomer=False))
        another = StreamThread(number + 1, parts)
        before.give_up_place(leave_group=False)
        self._threads[number] = another
        with self._lock:
            self.replaced += 1
        _log.warning("stream thread replaced", thread=another.name, error=str(before.error))
        if self._stop.is_set():  # Who set it may have told the one before.
            another.stop(leave_group=before.leave_group)

    def _is_first(self) -> bool:
        """Return whether no other thread of this process asks the others already."""
        with self._lock:
            first, self._asks_others = not self._asks_others, True
        return first

    def _response(self, error: StreamsError) -> StreamThreadExceptionResponse:
        if self._handler is None or self._stop.is_set():
            return StreamThreadExceptionResponse.SHUTDOWN_CLIENT
        try:
            response: object = self._handler(error)
        except RAISED_BY_CODE as raised:
            failed = named_exception(raised)
        else:
            if isinstance(response, StreamThreadExceptionResponse):
                return response
            failed = (
                f"it returned {reprlib.repr(response)}, which counts as SHUTDOWN_CLIENT: return a "
                "StreamThreadExceptionResponse"
            )
        _log.error("the uncaught exception handler failed", error=failed)
        return StreamThreadExceptionResponse.SHUTDOWN_CLIENT
