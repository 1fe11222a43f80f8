"""Runs a stand-in for `KafkaStreams` the way `pystreams run` runs a real one; started by tests.

Arguments: what the stand-in does, and `--processes N`. It tells each step in a line on standard
output, so that a test can wait for it.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
import threading

from pystreams import BrokerNotAvailableError, ProcessingError, ProductionError, StreamsError
from pystreams.cli.commands.applications.run import _display
from pystreams.cli.display.logs import configure_logging
from pystreams.cli.processes.child_reports import report_to_parent
from pystreams.cli.processes.children import run_processes, stop_with_parent
from pystreams.cli.processes.client_run import run_until_stopped
from pystreams.cli.processes.stop_request import StopRequest
from pystreams.errors import as_streams_error
from pystreams.runtime.application.unfinished_threads import UnfinishedThread, unfinished_among
from pystreams.runtime.loop.reports.statistics import Statistics, ThreadStatistics, total
from pystreams.runtime.loop.reports.thread_metadata import ThreadMetadata


class StandIn:
    """Answers like a client that works on nothing."""

    def __init__(self, behaviour: str, number: int | None) -> None:
        self._behaviour = behaviour
        self._fails = number in (None, 2)
        self._number = number
        self._running = threading.Event()
        self._closed = threading.Event()
        self.error: StreamsError | None = None

    def start(self) -> None:
        self._tell("started")
        if self._behaviour == "prints":
            try:
                while True:
                    print("line", flush=True)
            except BrokenPipeError as error:
                self.error = ProcessingError("the user's code raised", task_id=None, node=None)
                self.error.__cause__ = error

    def wait(self, timeout_s: float) -> bool:
        if self._behaviour in {"fails", "fails-and-is-late"} and self._fails:
            self.error = ProductionError("the record is too large", topic="out")
        elif self._behaviour == "has-a-bug" and self._fails:
            self.error = as_streams_error(KeyError("internal"))
        elif self._behaviour == "finds-no-broker":
            self.error = BrokerNotAvailableError("no broker answered")
        return self.error is not None or self._running.wait(timeout_s)

    def unfinished_threads(self) -> list[UnfinishedThread]:
        metadata = ThreadMetadata(
            thread_name="StreamThread-1",
            silent_ms=0,
            max_poll_interval_ms=300_000,
            active_tasks=(),
            at_work="task 0_1 processes in-1 at offset 7",
        )
        return unfinished_among([metadata], [("one that has ended", "nothing")])

    def close(self, *, timeout_s: float, leave_group: bool | None) -> bool:
        assert timeout_s > 0
        self._tell("closing")
        if self._behaviour == "hangs":
            threading.Event().wait()
        if self._behaviour in {"is-late", "fails-and-is-late"}:
            threading.Thread(target=threading.Event().wait, name="StreamThread-1").start()
            return False
        self._closed.set()
        self._tell("closed")
        return True

    def statistics(self) -> Statistics:
        if self._behaviour == "has-late-numbers" and not self._closed.is_set():
            self._tell("asked")
            self._closed.wait()
        return total("RUNNING", [ThreadStatistics(tasks_running=3)])

    def _tell(self, step: str) -> None:
        line = f"{step} {self._number or 0} {os.getpid()}\n"
        with contextlib.suppress(BrokenPipeError):
            os.write(1, line.encode())


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("behaviour")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--process-number", type=int)
    parser.add_argument("--restarts", type=int)
    parser.add_argument("--report", action="store_true")
    arguments = parser.parse_args()
    number = arguments.process_number
    configure_logging("info", fields={} if number is None else {"process": number})
    if arguments.processes > 1 and number is None:
        return run_processes(arguments.processes)
    is_child = number is not None
    stop = StopRequest(ends_at_second_signal=not is_child)
    if is_child:
        stop_with_parent(stop)
    streams = StandIn(arguments.behaviour, number)
    if arguments.report:
        report_to_parent(streams.statistics)
    return run_until_stopped(streams, stop, _display(streams, is_child=is_child))


if __name__ == "__main__":
    sys.exit(main())
