"""`pystreams run` as users run it: real processes, a real broker."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from tests import names
from tests.broker.reading import committed_offsets, create_topics, read_all
from tests.broker.waiting import DEADLINE_S, wait_until
from tests.broker.writing import writer_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from pystreams.broker import DevelopmentBroker

PARTITIONS = 2
CODE = """
from pystreams import serdes
from pystreams.topology.dsl.builder import StreamsBuilder

config = {{"default.key.serde": "string", "default.value.serde": "string"}}
builder = StreamsBuilder()
builder.stream("{name}-in").map_values(str.upper).to("{name}-out")
"""


class Application:
    """One application of a test: its topics, its file, its process."""

    def __init__(self, broker: DevelopmentBroker, directory: Path) -> None:
        self.name = names.unique_name("run")
        self.servers = broker.bootstrap_servers
        self._directory = directory
        self.file = directory / f"{self.name}.py"
        self.file.write_text(CODE.format(name=self.name))

    def create_topics(self) -> None:
        admin = AdminClient({"bootstrap.servers": self.servers})
        topics = [NewTopic(f"{self.name}-{end}", PARTITIONS) for end in ("in", "out")]
        create_topics(admin, topics)

    def write(self, count: int) -> None:
        writer = writer_of(self.servers, f"{self.name}-in")
        for number in range(count):
            writer.write(f"{self.name}-in", f"value {number}", f"{number}")
        writer.flush()

    def read(self, count: int) -> set[str]:
        """Wait for so many records of the output; return their values."""
        topic, values = f"{self.name}-out", set[str]()

        def all_there() -> bool:
            found = [(message.value() or b"").decode() for message in read_all(self.servers, topic)]
            values.update(found)
            return len(found) >= count

        wait_until(all_there, f"{count} records")
        return values

    def committed(self) -> int:
        """Return how many input records the application has committed."""
        offsets = committed_offsets(AdminClient({"bootstrap.servers": self.servers}), self.name)
        return sum(offset for (topic, _), offset in offsets.items() if topic == f"{self.name}-in")

    def command(self, *options: str) -> list[str]:
        command = [sys.executable, "-m", "pystreams", "run", str(self.file), *options]
        return [*command, "-c", f"state.dir={self._directory / 'state'}"]

    @contextmanager
    def running(
        self, *options: str, environment: Mapping[str, str] | None = None
    ) -> Iterator[subprocess.Popen[str]]:
        with subprocess.Popen(
            self.command(*options),
            stderr=subprocess.PIPE,
            text=True,
            env=dict(os.environ) | dict(environment or {}),
        ) as process:
            try:
                yield process
            finally:
                if process.poll() is None:
                    process.kill()

    def settings(self) -> list[str]:
        """Return options that name broker and application, and leave commits to the end."""
        settings = {
            "application.id": self.name,
            "bootstrap.servers": self.servers,
            "commit.interval.ms": "600000",
        }
        return [word for key, value in settings.items() for word in ("-c", f"{key}={value}")]


@pytest.fixture
def application(broker: DevelopmentBroker, tmp_path: Path) -> Application:
    return Application(broker, tmp_path)


def ended(process: subprocess.Popen[str]) -> tuple[int, str]:
    """Wait for the end; return exit code and standard error."""
    _out, told = process.communicate(timeout=DEADLINE_S)
    return process.returncode, told


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_stop_commits_what_was_processed(
    application: Application, number: signal.Signals
) -> None:
    application.create_topics()
    application.write(10)
    with application.running(*application.settings()) as process:
        assert application.read(10) == {f"VALUE {number}" for number in range(10)}
        assert application.committed() == 0
        process.send_signal(number)
        code, told = ended(process)

    assert code == 0, told
    assert application.committed() == 10
    lines = [json.loads(line) for line in told.splitlines()]
    assert lines[-1]["message"] == "stopped"
    assert lines[-1]["records"] == 10


def test_a_stop_that_a_function_blocks_names_the_task_and_the_line(
    application: Application,
) -> None:
    application.file.write_text(
        application.file.read_text()
        .replace("str.upper", "block")
        .replace(
            "builder =",
            "import os, threading\n\ndef block(value):\n"
            '    os.write(2, b"blocks\\n")\n    threading.Event().wait()\n\nbuilder =',
        )
    )
    application.create_topics()
    application.write(1)
    options = (*application.settings(), "--stop-timeout", "1.5")
    with application.running(*options) as process:
        assert process.stderr is not None
        while process.stderr.readline() != "blocks\n":
            assert process.poll() is None
        process.send_signal(signal.SIGTERM)
        code, told = ended(process)

    assert code == 1, told
    *_, thread, supervisor, last = [json.loads(line) for line in told.splitlines()]
    assert f"{application.name}-in" in thread["why"]
    assert "in block" in thread["stack"]
    assert supervisor["thread"] == "pystreams-supervisor"
    assert last["timeout_s"] == 1.5


def test_several_processes_share_the_work(application: Application) -> None:
    application.create_topics()
    application.write(10)
    with application.running(*application.settings(), "--processes", "2") as process:
        connected: set[int] = set()
        assert process.stderr is not None
        while connected != {1, 2}:
            line = json.loads(process.stderr.readline())
            if line["message"] == "connecting":
                connected.add(line["process"])
        assert len(application.read(10)) == 10
        process.send_signal(signal.SIGTERM)
        code, told = ended(process)

    assert code == 0, told
    assert application.committed() == 10


def test_a_missing_topic_is_an_error_that_names_it(application: Application) -> None:
    with application.running(*application.settings()) as process:
        code, told = ended(process)

    assert code == 1
    last = json.loads(told.splitlines()[-1])
    assert last["message"] == "stopped by an error"
    assert f"source topic '{application.name}-in' does not exist" in last["error"]


def test_the_command_that_a_missing_topic_is_told_with_creates_it(
    application: Application,
) -> None:
    for missing in ("source topic", "output topic"):
        with application.running(*application.settings()) as process:
            _, told = ended(process)
        error = json.loads(told.splitlines()[-1])["error"]
        assert error.startswith(missing)
        _, command, _ = error.split("`")
        words = command.replace("HOST:PORT", application.servers).split()
        assert words[0] == "pystreams"
        subprocess.run([sys.executable, "-m", *words], check=True)

    application.write(10)
    with application.running(*application.settings()) as process:
        assert process.stderr is not None
        while json.loads(process.stderr.readline())["message"] != "all tasks run":
            pass
        process.send_signal(signal.SIGTERM)
        code, told = ended(process)
    assert code == 0, told


def test_dev_starts_a_broker_that_goes_on_running_and_creates_the_topics(
    application: Application, tmp_path: Path
) -> None:
    environment = {"XDG_STATE_HOME": str(tmp_path), "XDG_DATA_HOME": str(tmp_path)}
    manage = [sys.executable, "-m", "pystreams", "broker"]
    try:
        with application.running("--dev", "--partitions", "3", environment=environment) as process:
            assert process.stderr is not None
            told = [process.stderr.readline()]
            while '"all tasks run"' not in told[-1]:
                told.append(process.stderr.readline())
                assert told[-1], "".join(told)
            process.send_signal(signal.SIGTERM)
            code, _ = ended(process)
        status = subprocess.run(
            [*manage, "status"], env=dict(os.environ) | environment, check=False
        )
    finally:
        subprocess.run([*manage, "stop"], env=dict(os.environ) | environment, check=True)

    assert code == 0
    assert "Starting the development broker" in told[0]
    created = [json.loads(line) for line in told if "topics created for --dev" in line]
    assert [(line["topics"], line["partitions"]) for line in created] == [
        ([f"{application.name}-in", f"{application.name}-out"], 3)
    ]
    assert status.returncode == 0


def test_for_readers_an_error_ends_the_lines_with_its_cure_and_the_user_s_line(
    application: Application,
) -> None:
    application.create_topics()
    application.write(1)
    code = application.file.read_text().replace("str.upper", "len")
    application.file.write_text(code)
    with application.running(*application.settings(), "--log-format", "console") as process:
        exit_code, told = ended(process)

    assert exit_code == 1
    last = told.splitlines()[-1]
    assert last.startswith("Error: task 0_")
    assert f"(to at {application.file}:7) can't write what came of the record at" in last
    assert "set the right value_serde" in last
    assert "task running" not in told
    assert "all tasks run" in told


def test_what_is_printed_comes_at_once_into_a_pipe_too(application: Application) -> None:
    application.create_topics()
    application.write(1)
    code = application.file.read_text().replace(f'.to("{application.name}-out")', ".print()")
    application.file.write_text(code)
    command = application.command(*application.settings())
    buffered = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=buffered
    ) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        process.send_signal(signal.SIGTERM)
        process.wait(DEADLINE_S)

    assert line.endswith("0, VALUE 0\n")
