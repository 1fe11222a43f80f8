"""The members: processes of the application, each with a directory, a disk and a clock of its own.

One that ends by itself is started again, as an orchestrator would; why it ended is kept.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from pystreams.broker import network
from tests.broker.application import Application, Running
from tests.broker.waiting import wait_until
from tests.chaos import application, planted, skew

DISK_BYTES = 256 * 1024 * 1024
"""Of a member's own disk, where one can be mounted."""
_AGAIN_AFTER_S = 2.0
_BALLAST = "ballast"
_LEFT_FREE_BYTES = 16 * 1024


@dataclass(frozen=True)
class Ended:
    """A member that ended by itself.

    Attributes:
        member: Its number.
        code: Its exit code.
        error: What it said.
        full: Whether it said that its disk was full, and it was or had just been.
    """

    member: int
    code: int
    error: str
    full: bool


class Member:
    """One process at a time.

    Args:
        name: The application's id.
        directory: Where its log, its clock and its state lie.
        settings: Configuration.
        plant: A bug that it has, if any.

    Attributes:
        wanted: Whether it should run.
        held: Whether it stands still.
        troubled: Whether something is being done to it.
        port: Where it answers questions.
    """

    def __init__(
        self,
        number: int,
        name: str,
        directory: Path,
        settings: Mapping[str, object],
        plant: str | None,
    ) -> None:
        self.number = number
        self.wanted = self.held = self.troubled = False
        self.ended: list[Ended] = []
        self._directory = directory / f"member-{number}"
        self._directory.mkdir()
        self._clock = self._directory / "clock"
        skew.write(self._clock, 0)
        environment = {"CHAOS_NAME": name, skew.VARIABLE: str(self._clock)}
        if plant is not None:
            environment[planted.VARIABLE] = plant
        # Beside the package, as the file imports its neighbours.
        environment["PYTHONPATH"] = str(Path(application.__file__).parents[2])
        (self.port,) = network.free_ports(1)
        file = Path(f"{application.__file__}")
        self._application = Application(name, self._directory, file, settings, environment)
        self._running: Running | None = None
        self._again_s = 0.0
        self._full_until_s = 0.0
        self._mounted = False

    @property
    def alive(self) -> bool:
        return self._running is not None and self._running.alive()

    @property
    def running(self) -> Running:
        assert self._running is not None
        return self._running

    def start(self) -> None:
        self.wanted = True
        self._running = self._application.start("--http", str(self.port))

    def tend(self) -> None:
        """Start it again if it has ended by itself, after a moment."""
        if not self.wanted or self.alive:
            return
        if self._running is not None:
            self._note_end(self._running)
            self._running = None
            self._again_s = time.monotonic() + _AGAIN_AFTER_S
        elif time.monotonic() >= self._again_s:
            self.start()

    def kill(self) -> None:
        self.wanted = False
        if self._running is not None:
            self._running.kill()
            self._running = None

    def leave(self) -> None:
        """Ask it to stop, and see it end."""
        self.wanted = False
        if self._running is None:
            return
        running, self._running = self._running, None
        with suppress(ProcessLookupError):
            running.process.send_signal(signal.SIGTERM)
        code = running.ended(deadline_s=180)
        if code not in {0, 128 + signal.SIGTERM, -signal.SIGTERM}:
            self._note_end(running)

    def hold(self) -> None:
        self.held = True
        os.killpg(self.running.process.pid, signal.SIGSTOP)

    def let_go(self) -> None:
        self.held = False
        with suppress(ProcessLookupError):
            os.killpg(self.running.process.pid, signal.SIGCONT)

    def move_clock(self, skew_ms: int) -> None:
        skew.write(self._clock, skew_ms)

    def lose_state(self) -> None:
        """Delete what lies on its disk, as that of a pod that moves."""
        for path in self._state.glob("*"):
            shutil.rmtree(path) if path.is_dir() else path.unlink()

    def mount_disk(self) -> bool:
        """Give it a disk of its own; return whether that is allowed here."""
        self._state.mkdir(exist_ok=True)
        size = f"size={DISK_BYTES}"
        mount = ["mount", "-t", "tmpfs", "-o", size, "tmpfs", str(self._state)]
        try:
            self._mounted = subprocess.run(mount, capture_output=True, check=False).returncode == 0
        except OSError:
            self._mounted = False
        return self._mounted

    def fill_disk(self) -> None:
        """Leave next to no room on its disk."""
        self._full_until_s = float("inf")
        free = shutil.disk_usage(self._state).free
        with (self._state / _BALLAST).open("ab") as ballast, suppress(OSError):
            os.posix_fallocate(ballast.fileno(), 0, max(1, free - _LEFT_FREE_BYTES))

    def free_disk(self) -> None:
        (self._state / _BALLAST).unlink(missing_ok=True)
        self._full_until_s = time.monotonic() + 60

    def close(self) -> None:
        """Kill it, and give its disk back."""
        self.kill()
        self._application.__exit__()
        if self._mounted:
            subprocess.run(["umount", "--lazy", str(self._state)], check=False)

    @property
    def _state(self) -> Path:
        return self._directory / "state"

    def _note_end(self, running: Running) -> None:
        wait_until(lambda: not running.alive(), "end of process")
        told = [
            f"{line['error']}" for line in running.lines("stopped by an error") if "error" in line
        ]
        error = told[-1] if told else running.tail()[-1500:]
        full = "the disk is full" in error and time.monotonic() < self._full_until_s
        self.ended.append(Ended(self.number, int(running.process.returncode), error, full))
