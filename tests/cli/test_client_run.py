"""Signals, exit codes and several processes: real processes around a stand-in for the client."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.signals import signal_until_ended

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

APPLICATION = Path(__file__).parent / "programs" / "application.py"
END_TIMEOUT_S = 120
KILL, TERM, INT = signal.SIGKILL, signal.SIGTERM, signal.SIGINT


@pytest.fixture(autouse=True)
def _told_of_hangups() -> Iterator[None]:
    """The tests themselves may run under `nohup`, which processes inherit."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


class Application:
    """A started program; lines of its standard output are its steps, `<step> <number> <pid>`."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process
        self.steps: list[tuple[str, int, int]] = []

    def wait_for(self, step: str, times: int = 1) -> None:
        """Read steps until this one has been told by so many processes."""
        while len(self.told(step)) < times:
            line = self._read_line()
            assert line, f"ended before {step!r}; told: {self.steps}"

    def told(self, step: str) -> list[int]:
        """Return the numbers of the processes that told a step."""
        return sorted(number for name, number, _pid in self.steps if name == step)

    def pid_of(self, number: int) -> int:
        return next(pid for _name, told_by, pid in self.steps if told_by == number)

    def send(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def end(self) -> int:
        """Read to the end of all processes' output; return the exit code."""
        while self._read_line():
            pass
        return self.process.wait(END_TIMEOUT_S)

    def logs(self) -> list[dict[str, object]]:
        assert self.process.stderr is not None
        return [json.loads(line) for line in self.process.stderr.read().splitlines()]

    def _read_line(self) -> bytes:
        assert self.process.stdout is not None
        line: bytes = self.process.stdout.readline()
        if line:
            step, number, pid = line.decode().split()
            self.steps.append((step, int(number), int(pid)))
        return line


@contextmanager
def started(
    *arguments: str, stderr: int = subprocess.PIPE, before: Sequence[str] = ()
) -> Iterator[Application]:
    """Start the program in a process group of its own, as a terminal would."""
    process = subprocess.Popen(
        [*before, sys.executable, str(APPLICATION), *arguments],
        stdout=subprocess.PIPE,
        stderr=stderr,
        start_new_session=True,
    )
    with process:
        try:
            yield Application(process)
        finally:
            if process.poll() is None:
                process.kill()


@pytest.mark.parametrize("number", [TERM, INT, signal.SIGHUP])
def test_the_first_signal_closes_and_ends_with_0(number: signal.Signals) -> None:
    with started("runs") as application:
        application.wait_for("started")
        application.send(number)

        assert application.end() == 0
        assert application.told("closed") == [0]
        assert [line["message"] for line in application.logs()][-1] == "stopped"


@pytest.mark.parametrize(("number", "code"), [(TERM, 143), (INT, 130)])
def test_the_second_signal_ends_at_once(number: signal.Signals, code: int) -> None:
    with started("hangs") as application:
        application.wait_for("started")
        application.send(TERM)
        application.wait_for("closing")
        signal_until_ended(application.process, number)

        assert application.end() == code


@pytest.mark.parametrize(
    ("behaviour", "code"), [("fails", 1), ("finds-no-broker", 3), ("has-a-bug", 70)]
)
def test_an_error_ends_with_its_code_and_one_line(behaviour: str, code: int) -> None:
    with started(behaviour) as application:
        assert application.end() == code
        last = application.logs()[-1]
        assert last["message"] == "stopped by an error"
        assert last["level"] == "error"


def test_a_close_that_takes_too_long_ends_with_1_though_threads_still_work() -> None:
    with started("is-late") as application:
        application.wait_for("started")
        application.send(TERM)

        assert application.end() == 1
        assert "did not stop in time" in str(application.logs()[-1]["message"])


def test_a_close_that_takes_too_long_tells_which_thread_is_not_done_and_where_it_is() -> None:
    with started("is-late") as application:
        application.wait_for("started")
        application.send(TERM)
        assert application.end() == 1
        *_, thread, last = application.logs()
    assert thread["thread"] == "StreamThread-1"
    assert thread["why"] == "task 0_1 processes in-1 at offset 7"
    assert "in wait" in str(thread["stack"])
    assert last["threads"] == ["StreamThread-1"]
    assert last["timeout_s"] == 25


def test_an_error_ends_the_process_though_another_thread_does_not_stop() -> None:
    with started("fails-and-is-late") as application:
        assert application.end() == 1
        told = [line["message"] for line in application.logs()]
    assert "has not stopped" in told
    assert told[-1] == "stopped by an error"


def test_on_a_terminal_there_is_one_live_line() -> None:
    ours, theirs = pty.openpty()
    with started("runs", stderr=theirs) as application:
        os.close(theirs)
        shown = b""
        while b"3 tasks" not in shown:
            shown += os.read(ours, 4096)
        application.send(TERM)
        assert application.end() == 0
        shown += _rest(ours)

    assert b"RUNNING" in shown
    assert b"STOPPING" in shown
    # The cursor, which a live display hides, is back.
    assert shown.rindex(b"\x1b[?25h") > shown.rindex(b"\x1b[?25l")


def test_a_display_that_waits_for_numbers_does_not_delay_a_stop() -> None:
    ours, theirs = pty.openpty()
    with started("has-late-numbers", stderr=theirs) as application:
        os.close(theirs)
        application.wait_for("asked")
        application.send(TERM)
        assert application.end() == 0
        _rest(ours)


def test_a_second_signal_gives_the_cursor_back() -> None:
    ours, theirs = pty.openpty()
    with started("hangs", stderr=theirs) as application:
        os.close(theirs)
        application.wait_for("started")
        application.send(INT)
        application.wait_for("closing")
        signal_until_ended(application.process, INT)
        assert application.end() == 130
        shown = _rest(ours)

    assert shown.rindex(b"\x1b[?25h") > shown.rindex(b"\x1b[?25l")


@pytest.mark.parametrize("processes", [1, 2])
def test_a_terminal_that_is_closed_stops_it_in_order(processes: int) -> None:
    ours, theirs = pty.openpty()
    with started("runs", "--processes", str(processes), stderr=theirs) as application:
        os.close(theirs)
        application.wait_for("started", times=processes)
        while b"tasks" not in os.read(ours, 4096):
            pass
        os.close(ours)
        # The system tells the processes of the terminal, and then the shell tells its jobs.
        application.send(signal.SIGHUP)
        application.wait_for("closing", times=processes)
        application.send(signal.SIGHUP)

        assert application.end() == 0
        assert len(application.told("closed")) == processes


def test_without_a_hangup_it_goes_on_when_the_terminal_is_closed() -> None:
    with started("runs", before=["nohup"]) as application:
        application.wait_for("started")
        application.send(signal.SIGHUP)
        application.send(TERM)

        assert application.end() == 0
        lines = [line["message"] for line in application.logs()]
        assert sum("stopping" in str(message) for message in lines) == 1


def test_an_output_that_nobody_reads_any_more_is_no_error_of_the_users_code() -> None:
    with started("prints") as application:
        application.wait_for("started")
        assert application.process.stdout is not None
        application.process.stdout.close()

        assert application.process.wait(END_TIMEOUT_S) == 141
        assert [line["level"] for line in application.logs()] == ["info"]


def test_several_processes_close_together() -> None:
    with started("runs", "--processes", "3") as application:
        application.wait_for("started", times=3)
        application.send(TERM)

        assert application.end() == 0
        assert application.told("closed") == [1, 2, 3]
        assert {line.get("process") for line in application.logs()} == {None, 1, 2, 3}


def test_on_a_terminal_several_processes_share_one_live_line_below_their_logs() -> None:
    ours, theirs = pty.openpty()
    with started("runs", "--processes", "2", stderr=theirs) as application:
        os.close(theirs)
        shown = b""
        while b"6 tasks" not in shown:  # 3 of each.
            shown += os.read(ours, 4096)
        application.send(TERM)
        assert application.end() == 0
        shown += _rest(ours)

    assert b"RUNNING | 6 tasks" in shown
    assert b"STOPPING" in shown
    for number in (1, 2):
        # "stopping" and "stopped"
        assert shown.count(b'"process": %d' % number) == 2, shown.decode()
    assert shown.rindex(b"\x1b[?25h") > shown.rindex(b"\x1b[?25l")


def test_a_child_that_is_killed_on_a_terminal_comes_back_below_the_live_line() -> None:
    ours, theirs = pty.openpty()
    with started("runs", "--processes", "2", stderr=theirs) as application:
        os.close(theirs)
        application.wait_for("started", times=2)
        os.kill(application.pid_of(1), KILL)
        application.wait_for("started", times=3)
        application.send(TERM)
        assert application.end() == 0
        assert application.told("closed") == [1, 2]
        _rest(ours)


def test_ctrl_c_reaches_all_processes_and_counts_as_one() -> None:
    with started("runs", "--processes", "2") as application:
        application.wait_for("started", times=2)
        os.killpg(application.process.pid, INT)

        assert application.end() == 0
        assert application.told("closed") == [1, 2]


def test_a_process_that_fails_stops_the_others() -> None:
    with started("fails", "--processes", "3") as application:
        assert application.end() == 1
        assert set(application.told("started")) >= {2}
        assert application.told("closed") == application.told("started")


def test_a_second_signal_to_the_parent_kills_the_processes() -> None:
    with started("hangs", "--processes", "2") as application:
        application.wait_for("started", times=2)
        application.send(TERM)
        application.wait_for("closing", times=2)
        signal_until_ended(application.process, TERM)

        assert application.end() == 143


def test_processes_close_when_their_parent_is_killed() -> None:
    with started("runs", "--processes", "2") as application:
        application.wait_for("started", times=2)
        application.send(KILL)

        assert application.end() == -KILL
        assert application.told("closed") == [1, 2]


def _rest(terminal: int) -> bytes:
    """Read what is left of a terminal whose other side has closed."""
    shown = b""
    try:
        while read := os.read(terminal, 4096):
            shown += read
    except OSError:
        # Linux says EIO at the end.
        pass
    finally:
        os.close(terminal)
    return shown
