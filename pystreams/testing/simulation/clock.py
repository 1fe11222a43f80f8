"""Time that moves only when told to, and what waits on it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any


class ManualClock:
    """A `Clock` that a test moves; wall clock and monotonic clock go together, but for jumps."""

    def __init__(self, now_ms: int = 0) -> None:
        self._start_ms = now_ms
        self._elapsed_ms = 0.0

    def now_ms(self) -> int:
        """Return wall-clock time (ms)."""
        return self._start_ms + int(self._elapsed_ms)

    def monotonic_ms(self) -> float:
        """Return the milliseconds it was moved so far."""
        return self._elapsed_ms

    def advance_ms(self, advance_ms: float) -> None:
        """Move on; time never goes back."""
        assert advance_ms >= 0, "time never goes back"
        self._elapsed_ms += advance_ms

    def jump_ms(self, jump_ms: int) -> None:
        """Put the wall clock alone forward or back, as NTP or an administrator does."""
        self._start_ms += jump_ms


class ManualEvent(threading.Event):
    """An event whose `wait` takes manual time instead of real time.

    Args:
        clock: Moved by the timeout of a wait that ends without the event.
    """

    def __init__(self, clock: ManualClock) -> None:
        super().__init__()
        self._clock = clock

    def wait(self, timeout: float | None = None) -> bool:
        """Return whether the event is set, after letting the timeout (s) pass if it is not."""
        if not self.is_set():
            assert timeout is not None, "nobody else would set the event meanwhile"
            self._clock.advance_ms(timeout * 1000)
        return self.is_set()


class InlineExecutor(Executor):
    """Runs what is submitted at once, in the caller's thread: the same order in every run.

    As with threads, a call that raises does not keep the others from running; a crash (a
    `BaseException`) does.
    """

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Run `fn` now and return its outcome."""
        future: Future[Any] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as error:  # noqa: BLE001 - belongs to whoever asks for the result
            future.set_exception(error)
        return future
