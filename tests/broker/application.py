"""`pystreams run` as a child process: its log is read, it is stopped, killed and started again."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Self

from tests.broker.waiting import DEADLINE_S, wait_until

LogLine = dict[str, Any]
_TAIL_LINES = 25


NOT_IN_TIME = (
    "did not stop in time; what is not committed is processed again after the next start. "
    "If it needs longer, set --stop-timeout"
)
"""What `run` says of a stop that took too long."""


class Running:
    """A process that was started, in a process group of its own; one that crashes says where.

    Attributes:
        process: The process (with `--processes`, the parent).
    """

    def __init__(self, command: list[str], environment: Mapping[str, str], log: Path) -> None:
        self._log = log
        self._lines: list[LogLine] = []
        self._taken_bytes = 0
        with log.open("wb") as output:
            self.process = subprocess.Popen(
                command,
                env={**environment, "PYTHONFAULTHANDLER": "1"},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )

    def lines(self, message: str | None = None) -> list[LogLine]:
        """Return the log so far, or the lines with one message; text that is no JSON as message."""
        with self._log.open("rb") as log:
            log.seek(self._taken_bytes)
            whole, end, _ = log.read().rpartition(b"\n")
        self._taken_bytes += len(whole + end)
        if end:
            self._lines += map(_line_of, whole.decode(errors="replace").split("\n"))
        return [line for line in self._lines if message is None or line["message"] == message]

    def tail(self) -> str:
        """Return the end of the log as it is."""
        return "\n".join(self.told().splitlines()[-_TAIL_LINES:])

    def told(self) -> str:
        """Return the whole log as it is."""
        return self._log.read_text(errors="replace")

    def alive(self) -> bool:
        return self.process.poll() is None

    def wait_for(
        self, *messages: str, count: int = 1, deadline_s: float = DEADLINE_S, **fields: Any
    ) -> list[LogLine]:
        """Wait for lines with one of the messages and the fields; fails at the process's end."""

        def found() -> list[LogLine]:
            return [
                line
                for line in self.lines()
                if line["message"] in messages
                and all(line.get(name) == value for name, value in fields.items())
            ]

        def enough_or_ended() -> bool:
            return not self.alive() or len(found()) >= count

        what = f"{count} x {messages}"
        wait_until(enough_or_ended, what, deadline_s=deadline_s, told=self.tail)
        lines = found()
        assert len(lines) >= count, (
            f"ended ({self.process.returncode}) before {what}\n{self.tail()}"
        )
        return lines

    def running_tasks(self) -> set[str]:
        """Return the tasks that run now, by the log; one that restores again does not."""
        running: set[tuple[object, object, str]] = set()
        for line in self.lines():
            place = (line.get("process"), line.get("thread"), str(line.get("task")))
            if line["message"] == "task running":
                running.add(place)
            elif line["message"] in {"restoring", "task closed"}:
                running.discard(place)
        return {task for _, _, task in running}

    def wait_for_tasks(self, count: int) -> None:
        """Wait until so many tasks run at once: a log may name one of them more than once."""
        self.wait_until(lambda: len(self.running_tasks()) >= count, f"{count} tasks that run")

    def wait_until(
        self, condition: Callable[[], object], what: str, *, deadline_s: float = DEADLINE_S
    ) -> None:
        """Wait for a condition that the process brings about; fails when it ends before."""
        wait_until(
            lambda: condition() or not self.alive(), what, deadline_s=deadline_s, told=self.tail
        )
        assert condition(), f"ended ({self.process.returncode}) before {what}\n{self.tail()}"

    def ended(self, *, deadline_s: float = DEADLINE_S) -> int:
        """Wait for the end; return the exit code."""
        wait_until(
            lambda: not self.alive(), "end of process", deadline_s=deadline_s, told=self.tail
        )
        return int(self.process.returncode)

    def stop(self, number: signal.Signals = signal.SIGTERM) -> None:
        """Ask for a stop and see that it is a clean one; before it has begun, none can be."""
        self.wait_for("connecting", "started")
        self.process.send_signal(number)
        code = self.ended()
        assert code == 0, f"exit code {code}\n{self.tail()}"

    def gone(self) -> bool:
        """Whether the process and all its children have ended."""
        if self.alive():
            return False
        try:
            os.killpg(self.process.pid, 0)
        except ProcessLookupError:
            return True
        return False

    def kill(self) -> None:
        """Kill the process and its children, as a power failure would."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(DEADLINE_S)


def _line_of(text: str) -> LogLine:
    try:
        line: LogLine = json.loads(text)
    except ValueError:
        line = {"message": text.strip()}
    return line


class Application:
    """One application: its id, its topology, its state directory; any number of processes.

    Args:
        application_id: Its id.
        directory: Where logs and state lie.
        topology: What `pystreams run` is given.
        settings: Configuration.
        environment: Environment variables beside the test's own.

    Attributes:
        state_directory: Where the tasks' directories lie.
    """

    def __init__(
        self,
        application_id: str,
        directory: Path,
        topology: Path,
        settings: Mapping[str, object],
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.id = application_id
        self.directory = directory
        self.state_directory = directory / "state" / application_id
        self._topology = topology
        self._environment = dict(os.environ) | dict(environment or {})
        self._settings: dict[str, object] = {
            "application.id": application_id,
            "state.dir": directory / "state",
            **settings,
        }
        self._started: list[Running] = []

    def command(self, *options: str, **settings: object) -> list[str]:
        """Return the command line; an underscore in a setting's name stands for a dot."""
        own = {name.replace("_", "."): value for name, value in settings.items()}
        words = [sys.executable, "-m", "pystreams", "run", str(self._topology), *options]
        words += ["--log-level", "debug"]  # Tests wait for what single tasks do.
        for key, value in (self._settings | own).items():
            words += ["-c", f"{key}={value}"]
        return words

    def start(self, *options: str, **settings: object) -> Running:
        """Start it; the caller sees to its end."""
        log = self.directory / f"{self.id}-{len(self._started) + 1}.log"
        running = Running(self.command(*options, **settings), self._environment, log)
        self._started.append(running)
        return running

    @contextlib.contextmanager
    def running(self, *options: str, **settings: object) -> Iterator[Running]:
        """Start it; whatever of it still runs at the end of the block is killed."""
        running = self.start(*options, **settings)
        try:
            yield running
        finally:
            running.kill()

    def wait_until_all_gone(self) -> None:
        """Wait until nothing that was ever started still runs, children included."""
        for running in self._started:
            wait_until(running.gone, "end of all processes", told=running.tail)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Kill whatever of it still runs."""
        for running in self._started:
            if not running.gone():
                running.kill()
