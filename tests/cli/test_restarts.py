"""`--processes N`: a child that was killed, or stopped, is started again; a failed one ends all."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pystreams.cli.processes.restarts import MOST, WITHIN_S, Restarts
from tests.broker.waiting import DEADLINE_S, wait_until

STOPPED = "a process was stopped alone, starting it again"
KILLED = "a process was killed, starting it again"
PARENT = """
import sys
from pystreams.cli.display.logs import configure_logging
from pystreams.cli.processes.children import run_processes

configure_logging("info", "json")
sys.exit(run_processes(2, [sys.executable, sys.argv[1]]))
"""
CHILD = """
import os, pathlib, signal, sys, threading, time

signal.signal(signal.SIGTERM, lambda *_: os._exit(0))

here, number = pathlib.Path(__file__).parent, sys.argv[2]
(here / f"{number}.{os.getpid()}").touch()


def end_with_parent():
    os.read(0, 1)
    os._exit(0)


threading.Thread(target=end_with_parent, daemon=True).start()
while not (here / f"fail-{number}").exists():
    time.sleep(0.02)
sys.exit(4)
"""


class Parent:
    """A parent of two children that do nothing until they are told to fail."""

    def __init__(self, place: Path, process: subprocess.Popen[str]) -> None:
        self._place = place
        self.process = process

    def started(self, number: int) -> list[int]:
        """Return the processes that were child N so far."""
        return [int(file.suffix[1:]) for file in self._place.glob(f"{number}.*")]

    def end_child(self, number: int, how: signal.Signals) -> None:
        """Send a signal to a child; returns when it was started again."""
        before = self.started(number)
        for pid in before[-1:]:
            os.kill(pid, how)
        wait_until(lambda: len(self.started(number)) > len(before), "another one")

    def fail(self, number: int) -> None:
        (self._place / f"fail-{number}").touch()

    def told(self, message: str) -> dict[str, Any]:
        """Return the next line with a message."""
        assert self.process.stderr is not None
        for line in self.process.stderr:
            told: dict[str, Any] = json.loads(line)
            if told["message"] == message:
                return told
        raise AssertionError(f"nobody said {message!r}")

    def exit_code(self) -> int:
        return self.process.wait(DEADLINE_S)


@contextmanager
def parent(place: Path) -> Iterator[Parent]:
    (place / "parent.py").write_text(PARENT)
    (place / "child.py").write_text(CHILD)
    words = [sys.executable, str(place / "parent.py"), str(place / "child.py")]
    with subprocess.Popen(words, stderr=subprocess.PIPE, text=True) as process:
        running = Parent(place, process)
        try:
            wait_until(lambda: running.started(1) and running.started(2), "both children")
            yield running
        finally:
            process.kill()


def test_a_child_that_was_killed_is_started_again_and_the_others_go_on(tmp_path: Path) -> None:
    with parent(tmp_path) as running:
        running.end_child(2, signal.SIGKILL)
        assert running.process.poll() is None
        assert len(running.started(1)) == 1
        line = running.told(KILLED)
        running.process.send_signal(signal.SIGTERM)
        assert running.exit_code() == 0

    assert (line["process"], line["signal"], line["seconds"]) == (2, "SIGKILL", 1.0)


def test_a_child_that_somebody_has_stopped_alone_is_started_again(tmp_path: Path) -> None:
    with parent(tmp_path) as running:
        running.end_child(2, signal.SIGTERM)
        assert running.process.poll() is None
        assert len(running.started(1)) == 1
        line = running.told(STOPPED)
        running.process.send_signal(signal.SIGTERM)
        assert running.exit_code() == 0

    assert (line["process"], line["seconds"]) == (2, 1.0)
    assert line["cure"] == f"to stop all, signal process {running.process.pid}"


def test_a_child_that_failed_ends_all_with_its_exit_code(tmp_path: Path) -> None:
    with parent(tmp_path) as running:
        running.fail(1)
        assert running.exit_code() == 4

    assert len(running.started(1)) == len(running.started(2)) == 1


def test_a_stop_does_not_wait_for_a_child_that_is_to_start(tmp_path: Path) -> None:
    with parent(tmp_path) as running:
        (pid,) = running.started(1)
        os.kill(pid, signal.SIGKILL)
        running.told(KILLED)
        running.process.send_signal(signal.SIGTERM)
        assert running.exit_code() == 0


def test_pauses_grow_and_end_when_a_child_is_killed_too_often() -> None:
    restarts = Restarts()
    pauses = [restarts.pause_s(1, float(second)) for second in range(MOST + 1)]

    assert pauses == [1.0, 2.0, 4.0, 8.0, 16.0, None]
    assert restarts.pause_s(2, 0.0) == 1.0


def test_a_child_that_was_killed_long_ago_starts_again_soon() -> None:
    restarts = Restarts()
    for second in range(MOST):
        restarts.pause_s(1, float(second))

    assert restarts.pause_s(1, WITHIN_S + MOST) == 1.0
