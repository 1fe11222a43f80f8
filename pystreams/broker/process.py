"""Start a server process that outlives its parent, recognise it later, and end it.

A process is recognised by its pid *and* by a marker in its command line (the path of its settings
file). The pid alone is not enough: after a crash or a reboot it may belong to somebody else, and
`stop` would kill a stranger.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

_POLL_S = 0.02


def spawn_detached(command: Sequence[str], log_file: Path) -> int:
    """Start a program in a session of its own, its output in `log_file`; return its pid.

    A session of its own means that Ctrl-C in the terminal, or its closing, does not reach it.
    `posix_spawn` rather than `subprocess.Popen`, whose object would warn that nobody waited.
    """
    log = os.open(log_file, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
    null = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.posix_spawn(
            command[0],
            list(command),
            os.environ,
            file_actions=[
                (os.POSIX_SPAWN_DUP2, null, 0),
                (os.POSIX_SPAWN_DUP2, log, 1),
                (os.POSIX_SPAWN_DUP2, log, 2),
            ],
            setsid=True,
        )
    finally:
        os.close(log)
        os.close(null)


def has_exited(child_pid: int) -> bool:
    """Whether a process that this one spawned has ended.

    Asked of the system, not of the command line, which is empty for an instant after the spawn.
    """
    try:
        return os.waitpid(child_pid, os.WNOHANG)[0] == child_pid
    except ChildProcessError:
        return True


def is_running(pid: int, marker: str) -> bool:
    """Whether `pid` is alive and is the program whose command line holds `marker`."""
    # A child of ours that ended stays a zombie until it is waited for.
    with contextlib.suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)
    return marker in _command_line(pid)


def _command_line(pid: int) -> str:
    """Return a process's command line; empty when there is no such process, or a zombie."""
    if Path("/proc/self/cmdline").exists():
        try:
            raw = Path(f"/proc/{pid}/cmdline").read_bytes()
        except OSError:
            return ""
        return raw.replace(b"\0", b" ").decode(errors="surrogateescape")
    # macOS has no /proc.
    answer = subprocess.run(
        ["/bin/ps", "-ww", "-o", "command=", "-p", str(pid)],
        capture_output=True,
        text=True,
        check=False,
    )
    return answer.stdout


def terminate(pid: int, marker: str, *, timeout_s: float) -> bool:
    """End the process: SIGTERM, and SIGKILL when it has not gone in time.

    Returns:
        Whether it ended by itself. True also when it had ended already.
    """
    if _signal_and_wait(pid, marker, signal.SIGTERM, timeout_s):
        return True
    _signal_and_wait(pid, marker, signal.SIGKILL, timeout_s)
    return False


def kill(pid: int, marker: str) -> None:
    """End the process with SIGKILL, as a crash would, and wait until it is gone."""
    _signal_and_wait(pid, marker, signal.SIGKILL, 10.0)


def _signal_and_wait(pid: int, marker: str, number: signal.Signals, timeout_s: float) -> bool:
    deadline_s = time.monotonic() + timeout_s
    if not is_running(pid, marker):
        return True
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)
    while time.monotonic() < deadline_s:
        if not is_running(pid, marker) and not _is_ending(pid):
            return True
        time.sleep(_POLL_S)
    return False


def _is_ending(pid: int) -> bool:
    """Whether a process that is killed still has its files open, and its ports with them.

    It loses its command line first. Its first thread may be a zombie while others still end.
    """
    process = Path(f"/proc/{pid}")
    try:
        state = (
            (process / "stat").read_text("utf-8", errors="replace").rpartition(")")[2].split()[0]
        )
        threads = len(list((process / "task").iterdir()))
    except OSError:
        return False
    return not _command_line(pid) and (state not in "ZX" or threads > 1)
