"""One client in this process: from start to a clean stop, by signals.

The main thread only waits; the stream threads work, and a display has a thread of its own.
"""

from __future__ import annotations

import os
import sys
from contextlib import nullcontext
from typing import TYPE_CHECKING, NoReturn, Protocol

from pystreams.cli.errors import CommandFailure, exit_code_of
from pystreams.cli.exit_codes import ExitCode
from pystreams.cli.processes.standard_output import forget_output, reader_has_gone
from pystreams.cli.processes.stop_request import StopRequest
from pystreams.kernel.garbage_collection import collected_seldom
from pystreams.kernel.loggers import get_logger

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pystreams.cli.display.live_line import LiveDisplay
    from pystreams.errors import StreamsError
    from pystreams.runtime.loop.statistics import Statistics
    from pystreams.runtime.loop.thread_metadata import ThreadMetadata

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

    def close(self, *, timeout_s: float) -> bool:
        """Stop, commit, close; return whether that was done in time."""

    def statistics(self) -> Statistics:
        """Return how it is doing."""

    def metadata_for_local_threads(self) -> Sequence[ThreadMetadata]:
        """Return what its threads say of themselves."""


def run_until_stopped(
    streams: RunningStreams,
    stop: StopRequest,
    display: LiveDisplay | None,
    *,
    readable: bool = False,
) -> int:
    """Run a client until it is asked to stop or stops by itself.

    Args:
        streams: The client, not yet started.
        stop: Asks for the stop.
        display: Shows how it is doing, when there is somebody to look at it.
        readable: Whether lines are for readers: then an error ends them, as that of any command.

    Returns:
        The exit code.
    """
    with stop.by_signals(), collected_seldom():
        streams.start()
        with display or nullcontext():
            while not stop.requested and not streams.wait(_WATCH_INTERVAL_S):
                pass
            if stop.requested:
                _log.info("stopping: commits and closes; a second signal stops at once")
                if display is not None:
                    display.show_stopping()
            closed_in_time = streams.close(timeout_s=stop.timeout_s)
    if not closed_in_time and streams.error is None:
        _end_unfinished(streams, stop.timeout_s)
    return _outcome(streams, readable=readable)


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


def _end_unfinished(streams: RunningStreams, timeout_s: float) -> NoReturn:
    """Tell what is still at work, and end the process."""
    try:
        _tell_what_is_at_work(streams, timeout_s)
    finally:
        # The interpreter would wait for the threads.
        sys.stdout.flush()
        os._exit(ExitCode.FAILED)


def _tell_what_is_at_work(streams: RunningStreams, timeout_s: float) -> None:
    from pystreams.runtime.application.watchdog import stack_of

    for thread in streams.metadata_for_local_threads():
        if stack := stack_of(thread.thread_name):
            _log.error(
                "still at work",
                thread=thread.thread_name,
                at_work=thread.at_work,
                tasks=[str(task.task_id) for task in thread.active_tasks],
                stack=stack,
            )
    _log.error(
        "did not stop in time; what is not committed is processed again after the next start",
        timeout_s=timeout_s,
        cure="`still at work` says where each thread is: if it needs longer, give --stop-timeout "
        "more seconds, and the platform more than those before it kills",
    )
