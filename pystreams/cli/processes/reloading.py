"""`run --reload`: the application in a child process, started anew when its files change.

A change stops the child as SIGTERM does: it commits, and the next one goes on from there. A child
that fails is told of, and the next change starts it again: a program with a mistake in it is what
is to be expected while somebody writes. A child sees the end of this process, however that comes.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path

from pystreams.cli.processes.children import StopChildren, start_child, this_command
from pystreams.kernel.loggers import get_logger

RELOADED_OPTION = "--reloaded"
"""Hidden option of `pystreams run` that makes a process one that is started anew."""

_LOOK_INTERVAL_S = 0.3
_MARGIN_S = 3.0  # A child that is late says why, and ends by itself.
_SUFFIXES = (".py", ".toml", ".properties")
_SKIPPED = {"__pycache__", "build", "dist", "node_modules", "site-packages", "venv"}

_log = get_logger("pystreams.cli")


def run_reloading(directory: Path, *, stop_timeout_s: float) -> int:
    """Run the current command until a signal stops it, anew after each change of its files.

    Args:
        directory: Where the application's files are: modules and configuration in it and below.

    Returns:
        The exit code of the last run.
    """
    stop = StopChildren(stop_timeout_s)
    with stop.by_signals():
        while True:
            changed = partial(_changed, directory, dict(_times(directory)))
            code = _run_until_change(changed, stop)
            if stop.requested:
                return code
            _log.info("files have changed: starting again", files=changed())


def _changed(directory: Path, before: Mapping[str, int]) -> list[str]:
    """Return the files that are new, other, or gone."""
    now = dict(_times(directory))
    return sorted(name for name in before.keys() | now if before.get(name) != now.get(name))


def _times(directory: Path) -> Iterator[tuple[str, int]]:
    for folder, subfolders, names in os.walk(directory):
        subfolders[:] = [
            name for name in subfolders if name not in _SKIPPED and not name.startswith(".")
        ]
        for name in names:
            path = Path(folder, name)
            if name.endswith(_SUFFIXES) and path.is_file():
                yield str(path.relative_to(directory)), path.stat().st_mtime_ns


def _run_until_change(changed: Callable[[], list[str]], stop: StopChildren) -> int:
    """Run the child until files change or a stop is asked for; return its exit code."""
    # In a group of its own, so that a terminal's Ctrl-C comes to it once, from here.
    child, channel = start_child([*this_command(), RELOADED_OPTION], process_group=0)
    stop.children = [child]
    told = False
    with channel:
        while not stop.requested and not changed():
            if child.poll() is not None and not told:
                _log.warning("waiting for a change", exit_code=child.returncode)
                told = True
            time.sleep(_LOOK_INTERVAL_S)
        return _stopped(child, stop.timeout_s)


def _stopped(child: subprocess.Popen[bytes], timeout_s: float) -> int:
    """Stop a child, which commits; return its exit code."""
    if child.poll() is None:
        child.send_signal(signal.SIGTERM)
        try:
            child.wait(timeout_s + _MARGIN_S)
        except subprocess.TimeoutExpired:
            child.kill()
    code = child.wait()
    return 128 - code if code < 0 else code
