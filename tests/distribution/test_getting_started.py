"""docs/getting-started.md, as a new user follows it: from an empty directory, by the wheel."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import signal
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.broker.waiting import DEADLINE_S, wait_until
from tests.distribution.conftest import ROOT, Installed, environment

PAGE = (ROOT / "docs" / "getting-started.md").read_text("utf-8")
RUN = "pystreams run topology.py --dev"
COUNTS = {"the": 5, "sea": 4, "calm": 2, "small": 2, "boat": 2, "was": 3, "and": 2, "a": 1, "on": 1}


def commands() -> list[str]:
    """All commands of the page, in order."""
    blocks = re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL)
    return [line for block in blocks for line in block.splitlines()]


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
        lines = self.type("pystreams consume topology.py words-counts --dev").splitlines()
        return {word: int(count) for word, count in (line.split("\t") for line in lines)}


@pytest.fixture
def variables(installed_with_pytest: Installed, tmp_path: Path) -> Iterator[dict[str, str]]:
    """A home of its own, and in it a broker that ends with the test."""
    kept = environment(installed_with_pytest)
    kept |= {"XDG_STATE_HOME": str(tmp_path / "home"), "XDG_DATA_HOME": str(tmp_path / "home")}
    kept["PYSTREAMS_STATE_DIR"] = str(tmp_path / "state")
    yield kept
    stop = [str(installed_with_pytest.programs / "pystreams"), "broker", "stop"]
    subprocess.run(stop, env=kept, check=False, capture_output=True)


@pytest.mark.broker
def test_every_command_of_the_page_works(variables: dict[str, str], tmp_path: Path) -> None:
    typed = commands()
    # What the fixture has done, in its own way.
    for done in (
        "python3 -m venv .venv",
        ". .venv/bin/activate",
        "pip install 'pystreams-kafka[java]' pytest",
    ):
        typed.remove(done)
    produce = "pystreams produce topology.py words-lines --dev --from-file lines.txt"

    def said(command: str) -> str:
        assert typed.pop(0) == command
        return command

    Terminal(tmp_path, variables).type(said("pystreams new words"))
    said("cd words")
    terminal = Terminal(tmp_path / "words", variables)
    with terminal.running(said(RUN)) as process:
        terminal.wait_for("all tasks run")
        assert "topics created for --dev" in terminal.log.read_text()
        terminal.type(said(produce))
        wait_until(lambda: terminal.counts() == COUNTS, "counted", told=terminal.log.read_text)
        terminal.type(said("pystreams consume topology.py words-counts --dev"))
        assert "stable, 1 member" in terminal.type(said("pystreams status words --dev"))
        process.send_signal(signal.SIGKILL)
    with terminal.running(said(RUN)) as process:
        terminal.wait_for("all tasks run", count=2)
        terminal.type(produce)
        twice = {word: 2 * count for word, count in COUNTS.items()}
        wait_until(lambda: terminal.counts() == twice, "counted", told=terminal.log.read_text)
        process.send_signal(signal.SIGINT)
        assert process.wait(DEADLINE_S) == 0
    with terminal.running(said(f"{RUN} --reload")) as process:
        terminal.wait_for("all tasks run", count=3)
        os.utime(terminal.directory / "topology.py")
        terminal.wait_for("all tasks run", count=4)
        process.send_signal(signal.SIGINT)
        assert process.wait(DEADLINE_S) == 0
    while typed:
        terminal.type(typed.pop(0))


def test_what_the_page_shows_is_what_new_writes(installed: Installed, tmp_path: Path) -> None:
    assert installed.run("pystreams", "new", "words", cwd=tmp_path).returncode == 0
    written = "".join(
        (tmp_path / "words" / name).read_text() for name in ("topology.py", "test_topology.py")
    )

    shown = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    assert len(shown) == 2
    assert all(block in written for block in shown)
