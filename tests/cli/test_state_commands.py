"""`pystreams export` and `pystreams rescale`: how they leave, and what they say without Spark."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.variants import first_of

TOPOLOGY = """
from pystreams import StreamsBuilder, serdes

config = {"application.id": "app", "bootstrap.servers": "nobody.invalid:9092"}
builder = StreamsBuilder()
source = builder.stream("in", key_serde=serdes.STRING, value_serde=serdes.STRING)
source.group_by_key().count(name="counts")
"""

OPTIONS = {
    "export": ["--output", "stores"],
    "rescale": ["--to-application-id", "app-8", "--output", "staged"],
}
AFTERWARDS = {"export": "started again, it begins anew", "rescale": "started again, it goes on"}

SIGNALLED_AT_WORK = """
import signal
import sys

import pystreams.backfill
from pystreams.cli.main import main

command, number = sys.argv[1], int(sys.argv.pop())


def work(*_arguments, **_options):
    try:
        signal.raise_signal(number)
    finally:
        print("cleans up", flush=True)


setattr(pystreams.backfill, command, work)
main(sys.argv[1:])
"""

WITHOUT_PYSPARK = """
import sys

sys.modules["pyspark"] = None
from pystreams.cli.main import main

main(sys.argv[1:])
"""

OWN_FILES = {"counts.py", "__pycache__"}
"""What lies there before: Python compiles what it loads."""

commands = pytest.mark.parametrize("command", OPTIONS)


@pytest.fixture
def topology(tmp_path: Path) -> Path:
    path = tmp_path / "counts.py"
    path.write_text(TOPOLOGY)
    return path


def run(program: str, command: str, topology: Path, *more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", program, command, str(topology), *OPTIONS[command], *more],
        capture_output=True,
        text=True,
        check=False,
        cwd=topology.parent,
    )


@commands
@pytest.mark.parametrize(("number", "code"), first_of((signal.SIGTERM, 143), (signal.SIGINT, 130)))
def test_signal_lets_it_clean_up_and_leave_with_the_documented_code(
    command: str, number: signal.Signals, code: int, topology: Path
) -> None:
    answer = run(SIGNALLED_AT_WORK, command, topology, str(int(number)))

    assert answer.returncode == code
    assert answer.stdout == "cleans up\n"
    assert answer.stderr == f"Stopped ({number.name}); {AFTERWARDS[command]}\n"


@commands
def test_its_help_tells_the_codes_of_both_signals(command: str, topology: Path) -> None:
    told = run("from pystreams.cli.main import main; main()", command, topology, "--help").stdout

    assert "130  stopped by Ctrl-C (143: by SIGTERM)" in told


@commands
def test_missing_pyspark_is_told_with_the_command_that_installs_it_and_nothing_is_made(
    command: str, topology: Path
) -> None:
    answer = run(WITHOUT_PYSPARK, command, topology)

    assert answer.returncode == 1
    assert "pip install 'pystreams-kafka[spark]'" in answer.stderr
    assert "Traceback" not in answer.stderr
    assert not [path for path in topology.parent.iterdir() if path.name not in OWN_FILES]
