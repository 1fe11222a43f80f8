"""On a standalone Spark cluster of two workers a backfill gives what it gives here."""

from __future__ import annotations

import os
import sys
import venv
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from pystreams.backfill.spark.session import find_spark_java
from pystreams.backfill.staging.directory import read_manifest
from pystreams.cli.application.topology_loader import load_topology
from tests.backfill.in_process import run
from tests.backfill.sources.covered import CONFIG, made_up
from tests.backfill.spark.cluster import Cluster
from tests.backfill.spark.on_spark import staged_results, write_archive
from tests.backfill.spark.test_on_spark import in_order, without_unread_ends
from tests.broker.application import Running

pytestmark = [pytest.mark.sweep, pytest.mark.spark, pytest.mark.timeout(1200)]

PARTITIONS = {"left": 4}
ROWS = made_up("left", 11, 800, num_partitions=4)

# The topology imports a module that lies beside it; workers have neither.
PRICES = """
import os
from pathlib import Path


def dearer(_key, value):
    # State lies where the operator of the worker has given room.
    directories = os.environ.get("SPARK_LOCAL_DIRS")
    for directory in directories.split(",") if directories else ():
        assert "/local-" in directory, directory
        assert list(Path(directory).glob("pystreams-*/rocksdb")), directory
    return value + "!"
"""
TOPOLOGY = """
from prices import dearer

from pystreams import StreamsBuilder, serdes

config = {"application.id": "app", "statestore.cache.max.bytes": 0}
text = {"key_serde": serdes.STRING, "value_serde": serdes.STRING}
builder = StreamsBuilder()
source = builder.stream("left", **text).filter(lambda _, value: value is not None)
source.group_by_key().count(name="by-key")
dear = source.map_values(dearer, with_key=True)
counts = dear.group_by(lambda _, value: value, name="by-value", **text).count(name="counts")
counts.to_stream().to("counted", key_serde=serdes.STRING, value_serde=serdes.LONG)
"""
SCRIPT = """
from pathlib import Path

from topology import builder, config

from pystreams.backfill import ArchiveSource, run

here = Path(__file__).parent
source = ArchiveSource(str(here / "archive"), num_partitions={"left": 4})
run(builder.build(), config, source=source, output=here / "staged")
"""


BIN = Path(sys.executable).parent
DEADLINE_S = 900.0
SMALL = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.memory": "600m",
    "spark.executor.memory": "600m",
    "spark.executor.cores": "2",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(tmp_path_factory.mktemp("cluster")) as made:
        made.add_worker()
        made.add_worker()
        yield made


@dataclass(frozen=True)
class User:
    """A directory of somebody with a topology, an archive, and a cluster."""

    directory: Path
    master: str

    def runs(self, command: list[str], *, code: int = 0) -> str:
        """Run a command to its end; return the end of what it told."""
        environment = {
            **os.environ,
            "JAVA_HOME": str(find_spark_java().executable.resolve().parent.parent),
            # As in an activated environment: Spark's scripts ask the first Python on the path.
            "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}",
            "SPARK_LOCAL_IP": "127.0.0.1",
        }
        running = Running(command, environment, self.directory / "told")
        try:
            assert running.ended(deadline_s=DEADLINE_S) == code, running.tail()
        finally:
            running.kill()
        return running.told()

    def backfill(self, python: Path) -> list[str]:
        """Return the command that backfills from here, with a Python for the workers."""
        command = [sys.executable, "-m", "pystreams", "backfill"]
        command += [str(self.directory / "topology.py"), "--partitions", "left=4"]
        command += ["--from", f"parquet:{self.directory / 'archive'}"]
        command += ["--no-publish", "--output", str(self.directory / "staged")]
        command += ["--master", self.master]
        for name, value in {**SMALL, "spark.pyspark.python": str(python)}.items():
            command += ["--spark-conf", f"{name}={value}"]
        return command

    def submit(self, python: Path) -> list[str]:
        """Return the command that submits the script."""
        command = [str(BIN / "spark-submit"), "--master", self.master]
        for name, value in {**SMALL, "spark.pyspark.python": str(python)}.items():
            command += ["--conf", f"{name}={value}"]
        return [*command, str(self.directory / "job.py")]


@pytest.fixture
def user(cluster: Cluster, tmp_path: Path) -> User:
    for name, text in (("prices", PRICES), ("topology", TOPOLOGY), ("job", SCRIPT)):
        (tmp_path / f"{name}.py").write_text(text)
    write_archive(ROWS, tmp_path / "archive")
    return User(tmp_path, cluster.url)


def check_results(user: User, monkeypatch: pytest.MonkeyPatch) -> None:
    """Compare with the tasks' results without Spark."""
    monkeypatch.setattr(sys, "path", sys.path.copy())
    topology = load_topology(str(user.directory / "topology.py")).topology
    for name in ("topology", "prices"):
        sys.modules.pop(name, None)
    expected = run(topology, CONFIG, ROWS, PARTITIONS, user.directory / "expected")
    staged = user.directory / "staged"
    found = staged_results(staged, read_manifest(staged).stages)
    assert in_order(without_unread_ends(found)) == in_order(without_unread_ends(expected))


def test_command_with_the_cluster_s_master_gives_the_same(
    user: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = user.runs(user.backfill(Path(sys.executable)))

    assert "Stage 2 of 2: done" in told
    check_results(user, monkeypatch)


def test_script_given_to_spark_submit_gives_the_same(
    user: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    user.runs(user.submit(Path(sys.executable)))

    check_results(user, monkeypatch)


def test_worker_s_python_without_pystreams_is_told_of_with_its_cure(user: User) -> None:
    venv.create(user.directory / "bare", symlinks=True)

    told = user.runs(user.backfill(user.directory / "bare" / "bin" / "python"), code=1)

    assert "spark.pyspark.python" in told
