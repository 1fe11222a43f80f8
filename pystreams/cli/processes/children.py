"""Child processes of `run`: N of them with `--processes N`, and a command that runs before it.

With `--processes` the parent does nothing else:

- Each child finds an identity of its own in the state directory, so the N need no numbers but for
  their log lines.
- A stop signal to the parent reaches the children as SIGTERM; they commit and close. A second one
  kills them. Children take further signals as the same request: a terminal sends Ctrl-C to all.
- A child that fails ends the others, and its exit code is the command's: what made it fail would
  meet it again. One that was killed by a signal (out of memory, a crash of native code), or that
  somebody has stopped alone, is started again, a few times (`Restarts`); its partitions wait for it
  meanwhile, or are the others'.
- A child's standard input is a socket whose other end only the parent has. When the parent dies,
  however that happens, children see its end and stop. On a terminal they tell the parent through
  it how they are doing, and the parent shows one live line (`ChildReports`).
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from pystreams.cli.display.live_line import LiveDisplay
from pystreams.cli.exit_codes import ExitCode
from pystreams.cli.processes.child_reports import REPORT_OPTION, ChildReports
from pystreams.cli.processes.restarts import Restarts
from pystreams.cli.processes.stop_request import STOP_TIMEOUT_S, StopRequest
from pystreams.kernel.clock import SystemClock
from pystreams.kernel.loggers import get_logger

PROCESS_OPTION = "--process-number"
"""Hidden option of `pystreams run` that makes a process one of several."""
RESTARTS_OPTION = "--restarts"
"""Hidden option that tells such a process how often it was started again."""

_WATCH_INTERVAL_S = 0.1
_MARGIN_S = 3.0
_STOPPED = {
    -signal.SIGTERM,
    -signal.SIGINT,
    -signal.SIGHUP,
    128 + signal.SIGTERM,
    ExitCode.INTERRUPTED,
}

_log = get_logger("pystreams.cli")


def run_processes(
    count: int, command: Sequence[str] | None = None, *, stop_timeout_s: float = STOP_TIMEOUT_S
) -> int:
    """Run the current command in several processes until they end; return the exit code.

    Args:
        command: The command to start, to which each child's number is added; the running one if
            not given.
        stop_timeout_s: How long each may take to stop; what is there soon after is killed.
    """
    command = this_command() if command is None else command
    reports = ChildReports(count) if sys.stderr.isatty() else None
    stop = StopChildren(stop_timeout_s)
    with stop.by_signals():
        children = _Children(
            stop, lambda number, restarts: _start(command, number, restarts, reports)
        )
        for number in range(1, count + 1):
            children.start(number)
        _log.info("started", processes=count, pids=[child.pid for child in stop.children])
        try:
            return _supervise(stop, reports, children)
        finally:
            children.close()


def run_before(
    command: Sequence[str], *, stdout: int | None, stop_timeout_s: float = STOP_TIMEOUT_S
) -> int | None:
    """Run another command of pystreams before this one continues; return None when it is done.

    It is stopped as a child of `--processes` is: a signal to this process reaches it as SIGTERM,
    and it sees the end of this process (`stop_with_parent`). It is in a process group of its own,
    so that a terminal's Ctrl-C comes to it once, from here.

    Args:
        stdout: Where its standard output goes; None for where ours goes.
        stop_timeout_s: How long it may take to stop; soon after it is killed.

    Returns:
        What this process is to end with: the command has failed, or a stop was asked for. None
        otherwise.
    """
    stop = StopChildren(stop_timeout_s)
    with stop.by_signals():
        process, channel = start_child(command, stdout=stdout, process_group=0)
        stop.children = [process]
        with channel:
            code = _supervise(stop, None, None)
    return code if code != 0 or stop.requested else None


def stop_with_parent(stop: StopRequest) -> None:
    """Ask for a stop when the parent's end of standard input closes. Call once in a child."""

    def watch() -> None:
        # A parent that dies with reports unread resets the connection.
        with contextlib.suppress(ConnectionResetError):
            while os.read(0, 1):
                pass
        stop.request()
        # The main thread stops the client; if it can't, nobody is left who would kill it.
        time.sleep(stop.timeout_s + _MARGIN_S)
        os._exit(ExitCode.FAILED)

    threading.Thread(target=watch, name="parent-watch", daemon=True).start()


class Child(NamedTuple):
    """A started process and our end of its standard input."""

    process: subprocess.Popen[bytes]
    channel: socket.socket


def start_child(command: Sequence[str], **how: Any) -> Child:
    """Start a process whose standard input ends with this one; `how` as `Popen` takes it."""
    channel, theirs = socket.socketpair()
    with theirs:
        return Child(subprocess.Popen(command, stdin=theirs.fileno(), **how), channel)


class StopChildren(StopRequest):
    """The parent's request: a second signal takes the children along."""

    children: Sequence[subprocess.Popen[bytes]] = ()

    def _end(self, number: int) -> None:
        _kill(self.children)
        super()._end(number)


class _Children:
    """The children of a parent, by their numbers: started, and started again.

    Args:
        stop: Is told which processes there are.
        start: Starts one, by its number and how often it was started before.
    """

    def __init__(self, stop: StopChildren, start: Callable[[int, int], Child]) -> None:
        self._stop = stop
        self._start = start
        self._children: dict[int, Child] = {}
        self._restarts = Restarts()
        self._due_s: dict[int, float] = {}

    @property
    def awaited(self) -> bool:
        """Whether one is to be started again."""
        return bool(self._due_s)

    def start(self, number: int) -> subprocess.Popen[bytes]:
        """Start a child, for the first time or again."""
        if (before := self._children.get(number)) is not None:
            before.channel.close()
        child = self._start(number, self._restarts.ends(number))
        self._children[number] = child
        self._stop.children = [each.process for each in self._children.values()]
        return child.process

    def starts_again(self, process: subprocess.Popen[bytes]) -> bool:
        """Return whether a child that has ended is started again; `start_due` does it."""
        if process.returncode > 0:
            return False
        number = next(n for n, child in self._children.items() if child.process is process)
        now_s = time.monotonic()
        pause_s = self._restarts.pause_s(number, now_s)
        what, told = "stopped alone", {"cure": f"to stop all, signal process {os.getpid()}"}
        if process.returncode < 0:
            what, told = "killed", {"signal": signal.Signals(-process.returncode).name}
        if pause_s is None:
            _log.error(f"a process was {what} too often", process=number, **told)
            return False
        _log.warning(
            f"a process was {what}, starting it again",
            process=number,
            pid=process.pid,
            seconds=pause_s,
            **told,
        )
        self._due_s[number] = now_s + pause_s
        return True

    def start_due(self) -> list[subprocess.Popen[bytes]]:
        """Start again those whose pause is over."""
        now_s = time.monotonic()
        due = [number for number, due_s in self._due_s.items() if due_s <= now_s]
        for number in due:
            del self._due_s[number]
        return [self.start(number) for number in due]

    def close(self) -> None:
        for child in self._children.values():
            child.channel.close()


def this_command() -> list[str]:
    """Return the command line of this process, with the interpreter's real path."""
    return [sys.executable, *sys.orig_argv[1:]]


def _start(
    command: Sequence[str], number: int, restarts: int, reports: ChildReports | None
) -> Child:
    """Start a child; with reports it tells how it is doing, and prints through us."""
    words = [*command, PROCESS_OPTION, str(number), RESTARTS_OPTION, str(restarts)]
    if reports is None:
        return start_child(words)
    child = start_child(
        [*words, REPORT_OPTION],
        # Output that goes to a file needs no way round.
        stdout=subprocess.PIPE if sys.stdout.isatty() else None,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    reports.follow(number, child.channel)
    for name, output in (("stdout", child.process.stdout), ("stderr", child.process.stderr)):
        if output is not None:
            reports.relay(number, output, name)
    return child


def _supervise(stop: StopChildren, reports: ChildReports | None, children: _Children | None) -> int:
    """Wait for the end of all, and show how they are doing; return the first failure, or 0."""
    if reports is None:
        return _wait_for_all(stop, lambda: None, children)
    display = LiveDisplay(reports.statistics, SystemClock().monotonic_ms)
    with display:
        exit_code = _wait_for_all(stop, display.show_stopping, children)
        reports.close(_MARGIN_S)
    return exit_code


def _wait_for_all(
    stop: StopChildren, on_stopping: Callable[[], None], children: _Children | None
) -> int:
    exit_code = 0
    running = list(stop.children)
    kill_at_s: float | None = None
    while running or (children is not None and children.awaited and not stop.requested):
        if children is not None and not stop.requested:
            running += children.start_due()
        for child in [child for child in running if child.poll() is not None]:
            running.remove(child)
            code = _exit_code(child, stopping=stop.requested)
            if children is not None and not stop.requested:
                if children.starts_again(child):
                    continue
                code = code or ExitCode.FAILED
            if code != 0:
                _log.error("a process failed", pid=child.pid, exit_code=code)
                exit_code = exit_code or code
                stop.request()
        if stop.requested and kill_at_s is None:
            _log.info("stopping", processes=len(running))
            on_stopping()
            for child in running:
                child.send_signal(signal.SIGTERM)
            kill_at_s = time.monotonic() + stop.timeout_s + _MARGIN_S
        if kill_at_s is not None and running and time.monotonic() > kill_at_s:
            _log.error(
                "processes did not stop in time and are killed",
                processes=len(running),
                timeout_s=stop.timeout_s,
            )
            _kill(running)
            return exit_code or ExitCode.FAILED
        time.sleep(_WATCH_INTERVAL_S)
    return exit_code


def _exit_code(child: subprocess.Popen[bytes], *, stopping: bool) -> int:
    """Return the exit code; of a process that a signal ended 128 + its number, as shells do.

    A child that meets a stop signal before it listens has nothing to commit: that is no failure.
    """
    code = child.returncode
    if stopping and code in _STOPPED:
        return 0
    return 128 - code if code < 0 else code


def _kill(children: Sequence[subprocess.Popen[bytes]]) -> None:
    for child in children:
        child.kill()
