"""One client in this process: from start to a clean stop, by signals.

The main thread only waits; the stream threads work, and a display has a thread of its own. The
first SIGTERM or SIGINT (or the end of the parent) asks for a stop: tasks commit and close. The
second one ends the process at once with 128 + the signal's number; what was not committed is
processed again after the next start, as after a crash. SIGHUP, of a terminal that is closed, only
asks: it may come twice, from the system and from the shell. Under `nohup` it is left alone.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Protocol

from pystreams.cli.exit_codes import ExitCode
from pystreams.cli.failures import exit_code_of
from pystreams.cli.output import forget_output, reader_has_gone
from pystreams.loggers import get_logger

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

    from pystreams.cli.display import LiveDisplay
    from pystreams.errors import StreamsError
    from pystreams.runtime.statistics import Statistics

CLOSE_TIMEOUT_S = 25.0
"""How long a clean stop may take: less than the 30 s after which Kubernetes kills."""

_WATCH_INTERVAL_S = 0.25
_STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_SHOW_CURSOR = b"\x1b[?25h\n"

_log = get_logger("pystreams.cli")


class RunningStreams(Protocol):
    """What is run: `KafkaStreams`, as far as this module uses it."""

    @property
    def error(self) -> StreamsError | None:
        """What stopped it by itself, or None."""

    def start(self) -> None:
        """Start its threads and return."""

    def wait(self, timeout_s: float) -> bool:
        """Wait up to the timeout; return whether it has stopped."""

    def close(self, *, timeout_s: float) -> bool:
        """Stop, commit, close; return whether that was done in time."""

    def statistics(self) -> Statistics:
        """Return how it is doing."""


class StopRequest:
    """Whether the process was asked to stop; set by signals and by the parent's end.

    Args:
        ends_at_second_signal: False in a child of `--processes`, whose parent decides that.
    """

    def __init__(self, *, ends_at_second_signal: bool = True) -> None:
        self._ends_at_second_signal = ends_at_second_signal
        self._event = threading.Event()

    @property
    def requested(self) -> bool:
        """Whether to stop."""
        return self._event.is_set()

    def request(self) -> None:
        """Ask for a stop; asking twice changes nothing."""
        self._event.set()

    @contextmanager
    def by_signals(self) -> Iterator[None]:
        """Let signals ask within the block. Main thread only."""
        taken = [
            number
            for number in _STOP_SIGNALS
            if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN
        ]
        before = {number: signal.signal(number, self._on_signal) for number in taken}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _on_signal(self, number: int, _frame: FrameType | None) -> None:
        if self.requested and self._ends_at_second_signal and number != signal.SIGHUP:
            end_at_once(number)
        self.request()


def end_at_once(signal_number: int) -> None:
    """End the process now, without cleaning up; 128 + the signal's number is the exit code."""
    if sys.stderr.isatty():
        # A live display has hidden it.
        os.write(2, _SHOW_CURSOR)
    os._exit(128 + signal_number)


def run_until_stopped(
    streams: RunningStreams, stop: StopRequest, display: LiveDisplay | None
) -> int:
    """Run a client until it is asked to stop or stops by itself.

    Args:
        streams: The client, not yet started.
        stop: Asks for the stop.
        display: Shows how it is doing, when there is somebody to look at it.

    Returns:
        The exit code.
    """
    with stop.by_signals():
        streams.start()
        with display or nullcontext():
            while not stop.requested and not streams.wait(_WATCH_INTERVAL_S):
                pass
            if stop.requested:
                _log.info("stopping: commits and closes; a second signal stops at once")
                if display is not None:
                    display.show_stopping()
            closed_in_time = streams.close(timeout_s=CLOSE_TIMEOUT_S)
    return _outcome(streams, closed_in_time=closed_in_time)


def _outcome(streams: RunningStreams, *, closed_in_time: bool) -> int:
    """Log the end; return the exit code."""
    error = streams.error
    if error is not None and isinstance(error.__cause__, BrokenPipeError) and reader_has_gone():
        _log.info("stopped: nobody reads standard output any more")
        forget_output()
        return ExitCode.OUTPUT_CLOSED
    if error is not None:
        _log.error("stopped by an error", error=str(error), kind=type(error).__name__)
        return exit_code_of(error)
    if not closed_in_time:
        _log.error(
            "did not stop in time; what is not committed is processed again after the next start",
            timeout_s=CLOSE_TIMEOUT_S,
        )
        # Threads still work, and the interpreter would wait for them.
        sys.stdout.flush()
        os._exit(ExitCode.FAILED)
    statistics = streams.statistics()
    _log.info("stopped", records=statistics.processed_records, commits=statistics.commits)
    return ExitCode.DONE
