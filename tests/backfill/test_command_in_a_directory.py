"""`pystreams backfill` as a user starts it: in a process and a directory of its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from pystreams.backfill.plan.rows import ResultKind
from pystreams.backfill.staging.directory import StagingDirectory
from tests.backfill.in_process import Row
from tests.backfill.spark.on_spark import write_archive
from tests.broker.waiting import wait_until
from tests.spark_session import SMALL

TOPOLOGY = """
from pystreams import StreamsBuilder, serdes

builder = StreamsBuilder()
source = builder.stream("in", key_serde=serdes.STRING, value_serde=serdes.STRING)
source.group_by_key().count(name="counts").to_stream().to("out")
"""
VALUES = [b"one", b"\xff\xfe", b"three"]
"""The second is no UTF-8."""

pytestmark = [pytest.mark.spark, pytest.mark.sweep]


@dataclass(frozen=True)
class Done:
    """A command that has ended.

    Attributes:
        directory: Where it was started; empty before.
        staged: Where its results are.
        told: What it wrote to standard error.
    """

    directory: Path
    staged: Path
    told: str


WAITING = """
import threading
from pathlib import Path
from pystreams import StreamsBuilder, serdes

def wait(key, value):
    Path({begun!r}).touch()
    threading.Event().wait()

builder = StreamsBuilder()
builder.stream("in", key_serde=serdes.STRING, value_serde=serdes.STRING).foreach(wait)
"""


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Done:
    """A backfill that goes on after records it can't decode."""
    home = tmp_path_factory.mktemp("command")
    directory, staged = home / "here", home / "staged"
    directory.mkdir()
    command = command_of(home, TOPOLOGY, VALUES, staged)
    ended = subprocess.run(command, cwd=directory, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    return Done(directory, staged, ended.stderr)


def command_of(home: Path, topology: str, values: Sequence[bytes], staged: Path) -> list[str]:
    """Return the command that backfills a topology over an archive of these values."""
    (home / "topology.py").write_text(topology)
    rows = [Row("in", 0, offset, offset, b"k", value) for offset, value in enumerate(values)]
    archive = write_archive(rows, home / "archive")
    command = [sys.executable, "-m", "pystreams", "backfill", str(home / "topology.py")]
    command += ["--from", f"parquet:{archive}", "--no-publish", "--output", str(staged)]
    command += ["-c", "application.id=app", "-c", "statestore.cache.max.bytes=0"]
    command += ["-c", "default.deserialization.exception.handler=LogAndContinueExceptionHandler"]
    command += ["--master", "local[1]"]
    for name, value in SMALL.items():
        command += ["--spark-conf", f"{name}={value}"]
    return command


def test_a_killed_one_leaves_nothing_there_either(tmp_path: Path) -> None:
    here, begun = tmp_path / "here", tmp_path / "begun"
    here.mkdir()
    topology = WAITING.format(begun=str(begun))
    command = command_of(tmp_path, topology, [b"one"], tmp_path / "staged")
    with subprocess.Popen(command, cwd=here, start_new_session=True) as running:
        try:
            wait_until(lambda: begun.exists() or running.poll(), "the first record")
        finally:
            os.killpg(running.pid, signal.SIGKILL)

    assert begun.exists()
    assert list(here.rglob("*")) == []


def test_nothing_is_left_in_the_directory_where_it_was_started(done: Done) -> None:
    assert list(done.directory.rglob("*")) == []


def test_record_that_can_t_be_decoded_is_told_with_its_place_and_skipped(done: Done) -> None:
    told = [line for line in done.told.splitlines() if "record skipped" in line]
    rows = StagingDirectory(done.staged).files(0).rows(ResultKind.OUTPUT, "out", 0)

    assert len(told) == 1, done.told
    assert (
        json.loads(told[0]).items()
        >= {
            "stage": "deserialization",
            "task": "0_0",
            "topic": "in",
            "partition": 0,
            "offset": 1,
        }.items()
    )
    assert "records dropped" in done.told
    assert [(row.timestamp, row.value) for row in rows] == [
        (0, (1).to_bytes(8, "big")),
        (2, (2).to_bytes(8, "big")),
    ]
