"""Runs a command before it goes on, as `pystreams run --backfill` does; started by tests.

Arguments: "parent" or "child", what the child does, and how long its stop may take (s). Each tells
its steps in lines on standard output.
"""

from __future__ import annotations

import os
import sys
import threading

from pystreams.cli.display.logs import configure_logging
from pystreams.cli.processes.children import run_before, stop_with_parent
from pystreams.cli.processes.interruption import InterruptBySignal, Interrupted


def tell(step: str) -> None:
    os.write(1, f"{step} {os.getpid()}\n".encode())


def wait() -> None:
    """Wait for ever, as work does that looks up now and then.

    A signal that comes right before a wait without end is only seen after it.
    """
    while True:
        threading.Event().wait(0.1)


def parent(behaviour: str, stop_timeout_s: str = "25") -> int:
    configure_logging("info")
    command = [sys.executable, __file__, "child", behaviour]
    code = run_before(command, stdout=None, stop_timeout_s=float(stop_timeout_s))
    if code is None:
        tell("goes-on")
    return code or 0


def child(behaviour: str) -> int:
    leave = InterruptBySignal()
    stop_with_parent(leave)
    try:
        with leave.by_signals():
            try:
                tell("works")
                if behaviour in {"waits", "hangs"}:
                    wait()
            finally:
                # Cleaning up takes long.
                if behaviour == "hangs":
                    tell("cleans-up")
                    wait()
            return 3 if behaviour == "fails" else 0
    except Interrupted as left:
        tell("left")
        return left.exit_code


if __name__ == "__main__":
    role, *what = sys.argv[1:]
    sys.exit(parent(*what) if role == "parent" else child(*what))
