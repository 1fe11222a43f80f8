"""The processes of a backfill: the command, its Java, and the Python workers of that.

pystreams backfill  ->  java  ->  pyspark.daemon  ->  a worker for each core
"""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path

from tests.spark_classes import java_options

_FOR_FEW_ROWS = {
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.driver.memory": "1g",
    "spark.driver.extraJavaOptions": java_options(),
}
OPTIONS_FOR_FEW_ROWS = tuple(f"--spark-conf={key}={value}" for key, value in _FOR_FEW_ROWS.items())
"""For a command that starts Spark: compiling code would take longer than running without."""


def kill(pid: int) -> bool:
    """SIGKILL, to a process that may have ended; return whether it was there."""
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
        return True
    return False


def java_of(command: int) -> int | None:
    """Return the pid of the command's Java, or None while there is none."""
    return next((pid for pid in children(command) if "SparkSubmit" in command_line(pid)), None)


def workers_of(command: int) -> list[int]:
    """Return the pids of the command's Python workers, without those that have ended."""
    java = java_of(command)
    if java is None:
        return []
    daemons = [pid for pid in children(java) if "pyspark.daemon" in command_line(pid)]
    workers = [worker for daemon in daemons for worker in children(daemon)]
    # One that has ended and that nobody has looked after yet has no command line.
    return [worker for worker in workers if command_line(worker)]


def children(parent: int) -> list[int]:
    """Return the pids of a process's children, sorted."""
    found = []
    for directory in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            # The name stands in brackets and may hold anything, brackets too.
            _, _, rest = (directory / "stat").read_text().rpartition(")")
            if int(rest.split()[1]) == parent:
                found.append(int(directory.name))
    return sorted(found)


def command_line(pid: int) -> str:
    """Return a process's command line; empty when it has ended."""
    with suppress(OSError):
        return (Path("/proc") / str(pid) / "cmdline").read_text().replace("\0", " ")
    return ""
