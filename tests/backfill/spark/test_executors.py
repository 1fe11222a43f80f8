"""Clusters that are not there: a master that does not answer, and one without workers."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pystreams.backfill.spark.executors import NoExecutorError, check_master
from tests.backfill.in_process import Row
from tests.backfill.spark.on_spark import write_archive

TOPOLOGY = """
from pystreams import StreamsBuilder, serdes

builder = StreamsBuilder()
builder.stream("in", key_serde=serdes.STRING, value_serde=serdes.STRING).to("out")
"""


@pytest.fixture
def closed_port() -> Iterator[int]:
    """A port where nobody listens, and nobody can while the test runs."""
    with socket.socket() as reserved:
        reserved.bind(("127.0.0.1", 0))
        yield int(reserved.getsockname()[1])


@pytest.mark.parametrize(
    "master",
    [
        "spark://127.0.0.1:{port}",
        "spark://127.0.0.1:{port},127.0.0.1:{port}",
        "k8s://https://127.0.0.1:{port}",
        "k8s://127.0.0.1:{port}",
    ],
)
def test_master_that_does_not_answer_is_named(closed_port: int, master: str) -> None:
    with pytest.raises(
        NoExecutorError, match=rf"no answer from .*127\.0\.0\.1:{closed_port}: .*start the cluster"
    ):
        check_master(master.format(port=closed_port))


def test_one_of_several_masters_is_enough(closed_port: int) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        open_port = server.getsockname()[1]
        check_master(f"spark://127.0.0.1:{closed_port},127.0.0.1:{open_port}")
        asked, _ = server.accept()
        with asked:
            assert asked.recv(1) == b""


def test_backfill_without_a_cluster_ends_at_once_and_leaves_nothing(
    closed_port: int, tmp_path: Path
) -> None:
    (tmp_path / "topology.py").write_text(TOPOLOGY)
    archive = write_archive([Row("in", 0, 0, 1, b"k", b"v")], tmp_path / "archive")
    command = [sys.executable, "-m", "pystreams", "backfill", str(tmp_path / "topology.py")]
    command += ["--from", f"parquet:{archive}", "-c", "application.id=app", "--no-publish"]
    command += [
        "--output",
        str(tmp_path / "staged"),
        "--master",
        f"spark://127.0.0.1:{closed_port}",
    ]

    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)

    assert done.returncode == 1, done.stderr
    assert "no answer from Spark's master" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "staged").exists()


KILLS_JAVA = """
import os
import signal
from pathlib import Path

from pystreams import StreamsBuilder, serdes


def kill_java(key, value):
    daemon = os.getppid()
    java = int(Path(f"/proc/{daemon}/stat").read_text().rpartition(")")[2].split()[1])
    os.kill(java, signal.SIGKILL)
    return value


builder = StreamsBuilder()
source = builder.stream("in", key_serde=serdes.STRING, value_serde=serdes.STRING)
text = {"key_serde": serdes.STRING, "value_serde": serdes.STRING}
source.map_values(kill_java, with_key=True).to("out", **text)
"""


@pytest.mark.spark
@pytest.mark.sweep
@pytest.mark.timeout(700)
def test_java_that_is_killed_is_told_with_what_to_look_at(tmp_path: Path) -> None:
    (tmp_path / "topology.py").write_text(KILLS_JAVA)
    archive = write_archive([Row("in", 0, 0, 1, b"k", b"v")], tmp_path / "archive")
    command = [sys.executable, "-m", "pystreams", "backfill", str(tmp_path / "topology.py")]
    command += ["--from", f"parquet:{archive}", "-c", "application.id=app", "--no-publish"]
    command += ["--output", str(tmp_path / "staged"), "--master", "local[1]"]

    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)

    assert done.returncode == 1, done.stderr
    assert "Spark's Java ended in the middle (killed by signal 9)" in done.stderr
    assert "This is a bug in pystreams" not in done.stderr
    assert {file.name for file in (tmp_path / "staged").iterdir()} == {".lock", "begun.json"}
