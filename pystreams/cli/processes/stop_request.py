"""How a process is asked to stop: by signals, or by the end of its parent.

The first SIGTERM or SIGINT (or the end of the parent) asks for a stop: tasks commit and close. The
second one ends the process at once with 128 + the signal's number; what was not committed is
processed again after the next start, as after a crash. One that comes right behind the first is the
same: `timeout` sends each to the process and then to its group. SIGHUP, of a terminal that is
closed, only asks: it may come twice, from the system and from the shell, and late. Under `nohup` it
is left alone.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

STOP_TIMEOUT_S = 25.0
"""How long a stop may take if `--stop-timeout` does not say: Kubernetes kills after 30 s."""

_STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_SAME_FOR_S = 0.2
"""So long after the first signal another is taken for the same."""
_SHOW_CURSOR = b"\x1b[?25h\n"


class StopRequest:
    """Whether the process was asked to stop; set by signals and by the parent's end.

    Attributes:
        timeout_s: How long the stop may take (s).

    Args:
        ends_at_second_signal: False in a child of `--processes`, whose parent decides that.
    """

    def __init__(
        self, timeout_s: float = STOP_TIMEOUT_S, *, ends_at_second_signal: bool = True
    ) -> None:
        self.timeout_s = timeout_s
        self._ends_at_second_signal = ends_at_second_signal
        self._event = threading.Event()
        self._hung_up = False
        self._first_s: float | None = None

    @property
    def requested(self) -> bool:
        """Whether to stop."""
        return self._event.is_set()

    def request(self) -> None:
        """Ask for a stop; asking twice changes nothing."""
        self._event.set()

    @contextmanager
    def by_signals(self) -> Iterator[None]:
        """Let signals ask within the block. Main thread only.

        After a SIGHUP another is ignored for the rest of the process, which is about to end.
        """
        taken = [
            number
            for number in _STOP_SIGNALS
            if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN
        ]
        before = {number: signal.signal(number, self._on_signal) for number in taken}
        try:
            yield
        finally:
            if self._hung_up:
                before[signal.SIGHUP] = signal.SIG_IGN
            for number, handler in before.items():
                signal.signal(number, handler)

    def _on_signal(self, number: int, _frame: FrameType | None) -> None:
        if self._asks_again(number) and self._ends_at_second_signal:
            self._end(number)
        self._hung_up |= number == signal.SIGHUP
        self.request()

    def _asks_again(self, number: int) -> bool:
        """Return whether a signal that came is not the first to ask, nor the same once more."""
        now_s, first_s = time.monotonic(), self._first_s
        if first_s is None:
            self._first_s = now_s
        elif now_s - first_s < _SAME_FOR_S:
            return False
        return self.requested and number != signal.SIGHUP

    def _end(self, number: int) -> None:
        end_at_once(number)


def end_at_once(signal_number: int) -> None:
    """End the process now, without cleaning up; 128 + the signal's number is the exit code."""
    if sys.stderr.isatty():
        # A live display has hidden it.
        os.write(2, _SHOW_CURSOR)
    os._exit(128 + signal_number)
