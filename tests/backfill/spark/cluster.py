"""A Spark cluster on this machine: a master and workers, each a Java process of its own.

Workers have addresses of their own in the loopback network: Spark takes them for hosts.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Self

import pyspark

from pystreams.backfill.spark.session import find_spark_java
from tests.broker.waiting import wait_until

_STARTED = re.compile(r"Starting Spark master at (spark://\S+)")
_REGISTERED = "Successfully registered with master"
_DEADLINE_S = 300.0


class Cluster:
    """A master, and the workers that are added.

    Args:
        directory: Where logs and the workers' files lie.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._processes: list[subprocess.Popen[bytes]] = []
        arguments = ["--host", "127.0.0.1", "--port", "0", "--webui-port", "0"]
        log = self._start("master.Master", arguments, {})
        self._wait(log, lambda text: _STARTED.search(text) is not None)
        found = _STARTED.search(log.read_text())
        assert found is not None
        self.url = found[1]

    def add_worker(self, *, own: Path | None = None) -> None:
        """Start a worker with two cores; return when it has registered.

        Args:
            own: A directory that is another one for this worker, as on a machine without the mount.
        """
        number = len(self._processes)
        arguments = ["--host", f"127.0.0.{number}", "--port", "0", "--webui-port", "0"]
        arguments += ["--cores", "2", "--memory", "2g"]
        arguments += ["--work-dir", str(self._directory / f"work-{number}"), self.url]
        local = self._directory / f"local-{number}"
        log = self._start("worker.Worker", arguments, {"SPARK_LOCAL_DIRS": str(local)}, own)
        self._wait(log, lambda text: _REGISTERED in text)

    def kill_executor(self) -> None:
        """SIGKILL one process that runs tasks: its directory is below a worker's."""
        for directory in Path("/proc").glob("[0-9]*"):
            try:
                command = (directory / "cmdline").read_text(errors="replace")
                home = (directory / "cwd").resolve()
            except OSError:
                continue
            if "CoarseGrainedExecutorBackend" in command and home.is_relative_to(self._directory):
                os.kill(int(directory.name), signal.SIGKILL)
                return
        raise AssertionError("no executor runs")

    def _start(
        self,
        name: str,
        arguments: list[str],
        more: Mapping[str, str],
        own: Path | None = None,
    ) -> Path:
        home = Path(pyspark.__file__).parent
        java = find_spark_java().executable.resolve().parent.parent
        environment = {**os.environ, "JAVA_HOME": str(java), "SPARK_HOME": str(home), **more}
        # Web interfaces would listen on all of the machine's addresses.
        environment["SPARK_LOCAL_IP"] = arguments[1]
        log = self._directory / f"{name}-{len(self._processes)}.log"
        command = [str(home / "bin" / "spark-class"), f"org.apache.spark.deploy.{name}", *arguments]
        if own is not None:
            mounted = ["sh", "-c", 'mount -t tmpfs tmpfs "$0" && exec "$@"', str(own)]
            command = ["unshare", "--mount", *mounted, *command]
        with log.open("wb") as output:
            self._processes.append(
                subprocess.Popen(
                    command,
                    env=environment,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    start_new_session=True,
                )
            )
        return log

    def _wait(self, log: Path, is_there: Callable[[str], bool]) -> None:
        wait_until(
            lambda: is_there(log.read_text()) or self._processes[-1].poll() is not None,
            f"a line in {log.name}",
            deadline_s=_DEADLINE_S,
            told=log.read_text,
        )
        assert is_there(log.read_text()), log.read_text()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for process in reversed(self._processes):
            process.terminate()
        for process in self._processes:
            process.wait(_DEADLINE_S)
