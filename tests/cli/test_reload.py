"""`pystreams run --reload`: a real process that starts again when its files change."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from click.testing import CliRunner

from pystreams.cli.commands.applications.run import run
from tests import names
from tests.broker.waiting import DEADLINE_S, wait_until

if TYPE_CHECKING:
    from pystreams.broker import DevelopmentBroker

CODE = """
from pystreams import StreamsBuilder, serdes
from words import changed

config = {{"default.key.serde": "string", "default.value.serde": "string"}}
builder = StreamsBuilder()
builder.stream("{name}-in").map_values(changed).print(label="seen")
"""


class Program:
    """A topology in two files, its process, and what that prints."""

    def __init__(self, broker: DevelopmentBroker, directory: Path) -> None:
        self.name = names.unique_name("reload")
        self.directory = directory
        self.file = directory / "topology.py"
        self.file.write_text(CODE.format(name=self.name))
        self.change("upper")
        self._settings = {
            "application.id": self.name,
            "bootstrap.servers": broker.bootstrap_servers,
            "state.dir": str(directory / "state"),
            "commit.interval.ms": "100",
        }

    def change(self, method: str) -> None:
        (self.directory / "words.py").write_text(f"changed = str.{method}\n")

    def command(self, *words: str) -> list[str]:
        settings = [word for pair in self._settings.items() for word in ("-c", "=".join(pair))]
        return [sys.executable, "-m", "pystreams", *words, *settings]

    def write(self, line: str) -> None:
        words = ("produce", str(self.file), f"{self.name}-in")
        subprocess.run(self.command(*words), input=line, text=True, check=True)

    def printed(self) -> str:
        return (self.directory / "out").read_text()

    def told(self) -> str:
        return (self.directory / "err").read_text()

    def wait_for(self, text: str) -> None:
        wait_until(
            lambda: text in self.printed() + self.told(),
            text,
            told=lambda: self.printed() + self.told(),
        )

    @contextmanager
    def running(self) -> Iterator[subprocess.Popen[bytes]]:
        create = self.command("topics", "create", f"{self.name}-in", "--partitions", "1")
        subprocess.run(create, check=True)
        with (
            (self.directory / "out").open("w") as out,
            (self.directory / "err").open("w") as err,
            subprocess.Popen(
                self.command("run", str(self.file), "--reload"), stdout=out, stderr=err
            ) as process,
        ):
            try:
                yield process
            finally:
                if process.poll() is None:
                    process.kill()


def test_a_change_is_committed_before_and_at_work_after(
    broker: DevelopmentBroker, tmp_path: Path
) -> None:
    program = Program(broker, tmp_path)
    with program.running() as process:
        program.write("one")
        program.wait_for("[seen]: None, ONE")
        program.change("title")
        program.wait_for("files have changed: starting again")
        program.write("two")
        program.wait_for("[seen]: None, Two")
        process.send_signal(signal.SIGTERM)
        code = process.wait(DEADLINE_S)

    assert code == 0, program.told()
    assert program.printed() == "[seen]: None, ONE\n[seen]: None, Two\n"


def test_a_mistake_waits_for_its_correction(broker: DevelopmentBroker, tmp_path: Path) -> None:
    program = Program(broker, tmp_path)
    with program.running() as process:
        program.write("one")
        program.wait_for("[seen]: None, ONE")
        (tmp_path / "words.py").write_text("changed = str.\n")
        program.wait_for("waiting for a change")
        assert "SyntaxError" in program.told()
        program.change("lower")
        program.write("TWO")
        program.wait_for("[seen]: None, two")
        process.send_signal(signal.SIGINT)
        code = process.wait(DEADLINE_S)

    assert code == 0, program.told()


def test_the_application_ends_with_the_process_that_watches(
    broker: DevelopmentBroker, tmp_path: Path
) -> None:
    program = Program(broker, tmp_path)
    with program.running() as process:
        program.write("one")
        program.wait_for("[seen]: None, ONE")
        process.kill()
        process.wait(DEADLINE_S)
        program.wait_for('"message": "stopped"')


def test_it_is_for_one_process() -> None:
    answer = CliRunner().invoke(run, ["topology.py", "--reload", "--processes", "2"])

    assert answer.exit_code == 2
    assert "--reload is for one process" in answer.output
