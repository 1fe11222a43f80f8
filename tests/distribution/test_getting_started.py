"""docs/getting-started.md, as a new user follows it: from an empty directory, by the wheel."""

from __future__ import annotations

import json
import os
import re
import signal
from pathlib import Path

import pytest

from tests.broker.waiting import DEADLINE_S, wait_until
from tests.distribution.conftest import ROOT, Installed
from tests.distribution.terminal import Terminal
from tests.docs.blocks import examples_of
from tests.ports import ports_in_a_row

PAGE = (ROOT / "docs" / "getting-started.md").read_text("utf-8")
EXAMPLES = examples_of(ROOT / "docs" / "getting-started.md")
RUN = "pystreams run topology.py --dev"
COUNTS = {"the": 5, "sea": 4, "calm": 2, "small": 2, "boat": 2, "was": 3, "and": 2, "a": 1, "on": 1}


def commands() -> list[str]:
    """All commands of the page, in order."""
    blocks = re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL)
    return [line for block in blocks for line in block.splitlines()]


@pytest.mark.broker
def test_every_command_of_the_page_works(variables: dict[str, str], tmp_path: Path) -> None:
    typed = commands()
    # What the fixture has done, in its own way.
    for done in (
        "python3 -m venv .venv",
        ". .venv/bin/activate",
        "pip install 'pystreams-kafka[java,http]' pytest",
    ):
        typed.remove(done)
    produce = "pystreams produce topology.py words-lines --dev --from-file lines.txt"

    (port,) = ports_in_a_row(1)

    def said(command: str) -> str:
        assert typed.pop(0) == command
        return command.replace("8080", str(port))

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
    with terminal.running(said(f"{RUN} --http 8080")) as process:
        terminal.wait_for("all tasks run", count=2)
        answer = terminal.type(said("pystreams query 127.0.0.1:8080 word-counts sea"))
        assert json.loads(answer)["value"] == COUNTS["sea"]
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
        (tmp_path / "words" / name).read_text() for name in ("topology.py", "test_words.py")
    )

    assert len(EXAMPLES) == 2
    assert all(block.text in written for block in EXAMPLES)
