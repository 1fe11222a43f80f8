"""One client in this process: from start to a clean stop, by signals.

The main thread only waits; the stream threads work, and a display has a thread of its own.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, NoReturn, Protocol

from pystreams.cli.errors import CommandFailure, exit_code_of
from pystreams.cli.exit_codes import ExitCode
from pystreams.cli.processes.standard_output import forget_output, reader_has_gone
from pystreams.cli.processes.stop_request import StopRequest
from pystreams.errors import StreamsError
from pystreams.kernel.loggers import get_logger

if TYPE_CHECKING:
    from pystreams.cli.display.live_line import LiveDisplay
    from pystreams.runtime.application.unfinished_threads import UnfinishedThread
    from pystreams.runtime.loop.reports.statistics import Statistics

_WATCH_INTERVAL_S = 0.25

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

    def close(self, *, timeout_s: float, leave_group: bool | None) -> bool:
        """Stop, commit, close; return whether that was done in time."""

    def unfinished_threads(self) -> Sequence[UnfinishedThread]:
        """Return what has not ended, and what it does."""

    def statistics(self) -> Statistics:
        """Return how it is doing."""


def run_until_stopped(
    streams: RunningStreams,
    stop: StopRequest,
    display: LiveDisplay | None,
    *,
    readable: bool = False,
    leave_group: bool | None = None,
) -> int:
    """Run a client until it is asked to stop or stops by itself.

    Args:
        streams: The client, not yet started.
        display: Shows how it is doing, when there is somebody to look at it.
        readable: Whether lines are for readers: then an error ends them, as that of any command.

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
            closed_in_time = streams.close(timeout_s=stop.timeout_s, leave_group=leave_group)
    if not closed_in_time:
        _end_unfinished(streams, stop.timeout_s, readable=readable)
    return _outcome(streams, readable=readable)


def _end_unfinished(streams: RunningStreams, timeout_s: float, *, readable: bool) -> NoReturn:
    """Tell what is not done, and end the process: the interpreter would wait for the threads."""
    code: int = ExitCode.FAILED
    try:
        _tell_unfinished(streams, timeout_s)
        if streams.error is not None:
            code = _outcome(streams, readable=readable)
        sys.stdout.flush()
    finally:
        os._exit(code)


def _tell_unfinished(streams: RunningStreams, timeout_s: float) -> None:
    """Log what has not stopped, and where it is."""
    unfinished = streams.unfinished_threads()
    for thread in unfinished:
        _log.error("has not stopped", thread=thread.name, why=thread.doing, stack=thread.stack)
    _log.error(
        "did not stop in time; what is not committed is processed again after the next start. "
        "If it needs longer, set --stop-timeout",
        timeout_s=timeout_s,
        threads=[thread.name for thread in unfinished],
    )


def _outcome(streams: RunningStreams, *, readable: bool) -> int:
    """Log the end; return the exit code."""
    error = streams.error
    if error is not None and isinstance(error.__cause__, BrokenPipeError) and reader_has_gone():
        _log.info("stopped: nobody reads standard output any more")
        forget_output()
        return ExitCode.OUTPUT_CLOSED
    if error is not None and readable:
        CommandFailure(error).show()
        return exit_code_of(error)
    if error is not None:
        _log.error("stopped by an error", error=str(error), kind=type(error).__name__)
        return exit_code_of(error)
    statistics = streams.statistics()
    _log.info("stopped", records=statistics.processed_records, commits=statistics.commits)
    return ExitCode.DONE
