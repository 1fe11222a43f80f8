"""Programs under measurement: started, watched, stopped, and what they cost."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

_STOP_TIMEOUT_S = 60.0
_LOG_TAIL_LINES = 15


class ProgramError(Exception):
    """A program ended by itself, hung, or could not be built."""


@dataclass(frozen=True, slots=True)
class Cost:
    """What processes have used.

    Attributes:
        user_s: CPU time in user mode (s).
        system_s: CPU time in the kernel (s).
        peak_bytes: Most resident memory, added up over the processes.
    """

    user_s: float
    system_s: float
    peak_bytes: int

    @property
    def cpu_s(self) -> float:
        """All CPU time (s)."""
        return self.user_s + self.system_s


class Program:
    """One running process.

    Attributes:
        started_s: When it was started (`time.perf_counter`).
        log_file: What it has printed.
    """

    def __init__(self, child: subprocess.Popen[bytes], log_file: Path, started_s: float) -> None:
        self._child = child
        self.log_file = log_file
        self.started_s = started_s
        self._peak_bytes = 0

    @property
    def pid(self) -> int:
        """Its number."""
        return self._child.pid

    @classmethod
    def start(cls, command: Sequence[str], log_file: Path) -> Self:
        """Start a program; its output goes to `log_file`."""
        log_file.parent.mkdir(parents=True, exist_ok=True)
        with log_file.open("wb") as log:
            started_s = time.perf_counter()
            child = subprocess.Popen(
                list(command), stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT
            )
        return cls(child, log_file, started_s)

    def watch(self) -> None:
        """Look after it: is it alive, how big is it.

        Raises:
            ProgramError: It has ended.
        """
        if self._child.poll() is not None:
            raise ProgramError(f"ended with exit code {self._child.returncode}:\n{self.log_tail()}")
        self._peak_bytes = max(self._peak_bytes, _peak_bytes(self._child.pid))

    def used(self) -> Cost:
        """Return what it has cost so far, its children left out; on Linux."""
        fields = Path(f"/proc/{self._child.pid}/stat").read_text("ascii").rpartition(")")[2].split()
        tick_s = 1 / os.sysconf("SC_CLK_TCK")
        user_s, system_s = int(fields[11]) * tick_s, int(fields[12]) * tick_s
        return Cost(user_s, system_s, _peak_bytes(self._child.pid))

    def resident_bytes(self) -> int:
        """Return the memory it has now; on Linux."""
        return _status_bytes(self._child.pid, "VmRSS")

    def stand_still(self, seconds: float) -> None:
        """Begin a pause of so many seconds, in which it gets no processor time; does not wait."""
        self._child.send_signal(signal.SIGSTOP)
        timer = threading.Timer(seconds, self._child.send_signal, [signal.SIGCONT])
        timer.daemon = True
        timer.start()

    def kill(self) -> None:
        """End it as a crash would; does nothing when it has ended."""
        if self._child.returncode is None:
            self._child.send_signal(signal.SIGKILL)
            self._child.wait()

    def stop(self) -> Cost:
        """Ask it to stop, wait for that, and return what it has cost from its start to its end.

        Raises:
            ProgramError: It did not stop in time, or not cleanly.
        """
        self.watch()
        self._child.send_signal(signal.SIGTERM)
        deadline_s = time.monotonic() + _STOP_TIMEOUT_S
        while True:
            pid, status, usage = os.wait4(self._child.pid, os.WNOHANG)
            if pid:
                break
            if time.monotonic() > deadline_s:
                self.kill()
                raise ProgramError(f"did not stop in {_STOP_TIMEOUT_S:g} s:\n{self.log_tail()}")
            time.sleep(0.02)
        self._child.returncode = os.waitstatus_to_exitcode(status)
        # 143: a JVM that ended by SIGTERM, after its shutdown hooks.
        if self._child.returncode not in {0, -signal.SIGTERM, 128 + signal.SIGTERM}:
            message = f"stopped with exit code {self._child.returncode}:\n{self.log_tail()}"
            raise ProgramError(message)
        return Cost(usage.ru_utime, usage.ru_stime, self._peak_bytes or _max_rss(usage.ru_maxrss))

    def log_text(self) -> str:
        """Return what it has printed."""
        return self.log_file.read_text("utf-8", errors="replace")

    def log_tail(self) -> str:
        """Return the last lines it has printed."""
        return "\n".join(self.log_text().splitlines()[-_LOG_TAIL_LINES:])


def _peak_bytes(pid: int) -> int:
    """Return the most memory a process has had; 0 where the system does not tell.

    Not `ru_maxrss` where there is a choice: after a fork that begins with the parent's.
    """
    return _status_bytes(pid, "VmHWM")


def _status_bytes(pid: int, field: str) -> int:
    try:
        status = Path(f"/proc/{pid}/status").read_text("ascii", errors="replace")
    except OSError:
        return 0
    found = re.search(rf"{field}:\s+(\d+) kB", status)
    return int(found.group(1)) * 1024 if found else 0


def _max_rss(value: int) -> int:
    return value if sys.platform == "darwin" else value * 1024
