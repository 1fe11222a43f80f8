"""A Spark that is interrupted while it starts leaves no process."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable

import pytest

from tests.broker.backfill.spark_processes import children, command_line, java_of, kill
from tests.broker.waiting import wait_until

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

STARTED = "pyspark-shell"
"""Stands in the command lines of Java and of the shell that it was."""
START = """
import signal
from pystreams.backfill.spark.session import spark_session

signal.signal(signal.SIGINT, signal.default_int_handler)  # Behind a shell's & it is ignored.
with spark_session("local[1]"):
    pass
"""


def shell_of(pid: int) -> int | None:
    """Return the pid of what is to become Java; first it is the shell that looks for it."""
    return next((child for child in children(pid) if STARTED in command_line(child)), None)


@pytest.mark.parametrize("child_of", [shell_of, java_of])
def test_java_ends_with_what_was_interrupted(child_of: Callable[[int], int | None]) -> None:
    with subprocess.Popen([sys.executable, "-c", START], stderr=subprocess.DEVNULL) as process:
        wait_until(lambda: child_of(process.pid) is not None, "Spark's start")
        child = child_of(process.pid)
        assert child is not None
        process.send_signal(signal.SIGINT)

    try:
        wait_until(lambda: STARTED not in command_line(child), "the end of Java")
    finally:
        if command_line(child):
            kill(child)
    assert process.returncode != 0
