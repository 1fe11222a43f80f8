"""What is done when an error has ended a stream thread: the program's handler says.

A thread that is replaced keeps its name, its identity in the group, its producers' ids and its part
of the state directory: the one in its place is to the group a member that has come back, and fences
what the one before has left open. It goes on from the last commit, so an error of a record comes
again unless something else has changed.

Spec: KIP-671.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from enum import Enum

from pystreams.errors import StreamsError
from pystreams.kernel.loggers import get_logger
from pystreams.runtime.loop.stream_thread import StreamThread
from pystreams.runtime.tasks.thread_parts import ThreadParts

_log = get_logger("pystreams.client")

_PAUSE_S = 0.5
"""Before a thread takes the place of another: an error that comes at once shall not come always."""


class StreamThreadExceptionResponse(Enum):
    """What to do when an error has ended a stream thread.

    Differs from Kafka: there is no SHUTDOWN_APPLICATION, which stops all processes. It travels in
    the assignor's user data there, and librdkafka's assignors have none.
    """

    REPLACE_THREAD = "replace thread"
    """Start another in its place, after half a second; the others go on meanwhile."""
    SHUTDOWN_CLIENT = "shutdown client"
    """Stop this process's threads: the application ends with the error."""


UncaughtExceptionHandler = Callable[[StreamsError], StreamThreadExceptionResponse]
"""Called with what has ended a thread, by that thread."""


class ThreadRunner:
    """Runs the stream threads of one application, each in a thread that calls `run`.

    Args:
        threads: Those that run; one that is replaced is replaced here.
        parts: What they are made of.
        handler: What the program says; None stops the application.
        stop: Set when the application stops.

    Attributes:
        replaced: How many were replaced so far.
    """

    def __init__(
        self,
        threads: list[StreamThread],
        parts: ThreadParts,
        handler: UncaughtExceptionHandler | None,
        stop: threading.Event,
    ) -> None:
        self.replaced = 0
        self._threads = threads
        self._parts = parts
        self._handler = handler
        self._stop = stop
        self._lock = threading.Lock()

    def run(self, number: int) -> StreamsError | None:
        """Run a thread, and those in its place; return what has ended the last one.

        Args:
            number: Its place in the list.
        """
        while True:
            thread = self._threads[number]
            thread.run()
            error = thread.error
            if error is None or not self._replaces(error) or self._stop.wait(_PAUSE_S):
                return error
            with self._lock:
                self.replaced += 1
            self._threads[number] = another = StreamThread(number + 1, self._parts)
            _log.warning("stream thread replaced", thread=another.name, error=str(error))
            if self._stop.is_set():  # Who set it may have told the one before.
                another.stop()

    def _replaces(self, error: StreamsError) -> bool:
        if self._handler is None or self._stop.is_set():
            return False
        try:
            return self._handler(error) is StreamThreadExceptionResponse.REPLACE_THREAD
        except Exception as raised:  # noqa: BLE001 - the user's code may raise anything
            _log.error("the uncaught exception handler failed", error=str(raised))
            return False
