"""A command that is run before another one goes on, and how both are stopped: real processes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pystreams.cli.exit_codes import ExitCode
from tests.signals import signal_until_ended

PROGRAM = Path(__file__).parent / "programs" / "before.py"
END_TIMEOUT_S = 120


class Program:
    """A started program; lines of its standard output are steps, `<step> <pid>`."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process
        self.steps: dict[str, int] = {}

    def wait_for(self, step: str) -> int:
        """Read steps until this one; return the pid of who told it."""
        while step not in self.steps:
            assert self._read_line(), f"ended before {step!r}; told: {self.steps}"
        return self.steps[step]

    def end(self) -> int:
        """Read to the end of all output; return the exit code."""
        while self._read_line():
            pass
        return self.process.wait(END_TIMEOUT_S)

    def _read_line(self) -> bytes:
        assert self.process.stdout is not None
        line: bytes = self.process.stdout.readline()
        if line:
            step, pid = line.decode().split()
            self.steps[step] = int(pid)
        return line


@contextmanager
def started(role: str, *behaviour: str, stderr: int = subprocess.DEVNULL) -> Iterator[Program]:
    process = subprocess.Popen(
        [sys.executable, str(PROGRAM), role, *behaviour],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=stderr,
        start_new_session=True,
    )
    with process:
        program = Program(process)
        try:
            yield program
        finally:
            for pid in {process.pid, *program.steps.values()}:
                kill(pid)


def kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def test_what_is_done_lets_the_other_go_on() -> None:
    with started("parent", "done") as program:
        assert program.end() == 0
        assert list(program.steps) == ["works", "goes-on"]


def test_what_fails_ends_the_other_with_its_code() -> None:
    with started("parent", "fails") as program:
        assert program.end() == 3
        assert list(program.steps) == ["works"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_stop_reaches_it_and_ends_both_with_0(number: signal.Signals) -> None:
    with started("parent", "waits") as program:
        program.wait_for("works")
        program.process.send_signal(number)

        assert program.end() == 0
        assert list(program.steps) == ["works", "left"]


def test_second_signal_takes_it_along() -> None:
    with started("parent", "hangs") as program:
        program.wait_for("works")
        program.process.send_signal(signal.SIGTERM)
        program.wait_for("cleans-up")
        signal_until_ended(program.process, signal.SIGTERM)

        # The end of its output is the end of both.
        assert program.end() == 143
        assert "left" not in program.steps


def test_it_is_killed_when_its_stop_takes_longer_than_was_allowed() -> None:
    with started("parent", "hangs", "0.2", stderr=subprocess.PIPE) as program:
        program.wait_for("works")
        program.process.send_signal(signal.SIGTERM)
        program.wait_for("cleans-up")

        assert program.end() == ExitCode.FAILED
        assert program.process.stderr is not None
        lines = [json.loads(line) for line in program.process.stderr]
        [told] = [line for line in lines if line["message"].endswith("are killed")]
        assert told["timeout_s"] == 0.2


def test_it_stops_when_the_other_is_killed() -> None:
    with started("parent", "waits") as program:
        program.wait_for("works")
        program.process.kill()
        program.wait_for("left")

        assert program.end() == -signal.SIGKILL


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_command_that_works_in_its_main_thread_cleans_up_and_leaves(
    number: signal.Signals, code: int
) -> None:
    with started("child", "waits") as program:
        program.wait_for("works")
        program.process.send_signal(number)

        assert program.end() == code
        assert list(program.steps) == ["works", "left"]


def test_command_that_cleans_up_for_too_long_ends_at_the_second_signal() -> None:
    with started("child", "hangs") as program:
        program.wait_for("works")
        program.process.send_signal(signal.SIGTERM)
        program.wait_for("cleans-up")
        signal_until_ended(program.process, signal.SIGINT)

        assert program.end() == 130
