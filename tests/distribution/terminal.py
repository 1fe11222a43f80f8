"""Where a user types: commands one by one, and applications that run beside them."""

from __future__ import annotations

import contextlib
import shlex
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

from tests.broker.waiting import wait_until


class Terminal:
    """Where a user types: a directory and an environment."""

    def __init__(self, directory: Path, variables: Mapping[str, str]) -> None:
        self.directory = directory
        self._variables = dict(variables)
        self.log = directory / "run.log"

    def type(self, command: str) -> str:
        done = subprocess.run(
            shlex.split(command),
            cwd=self.directory,
            env=self._variables,
            check=False,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    @contextlib.contextmanager
    def running(self, command: str) -> Iterator[subprocess.Popen[bytes]]:
        with (
            self.log.open("ab") as log,
            subprocess.Popen(
                shlex.split(command),
                cwd=self.directory,
                env=self._variables,
                stdout=log,
                stderr=log,
            ) as process,
        ):
            try:
                yield process
            finally:
                if process.poll() is None:
                    process.kill()

    def wait_for(self, text: str, count: int = 1) -> None:
        wait_until(lambda: self.log.read_text().count(text) >= count, text, told=self.log.read_text)

    def counts(self) -> dict[str, int]:
        """What the first application has written: the last count of each word."""
        lines = self.type("pystreams consume topology.py words-counts --dev").splitlines()
        return {word: int(count) for word, count in (line.split("\t") for line in lines)}
