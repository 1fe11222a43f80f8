"""A backfill on a Spark cluster of real processes: doubled attempts, executors that die."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pystreams.backfill.exports.dataset_place import is_dataset_of
from pystreams.backfill.plan.rows import Result, ResultKind
from pystreams.backfill.spark.executors import TIMEOUT_SETTING
from pystreams.backfill.staging.directory import StagingDirectory, read_manifest
from tests.backfill.sources.covered import made_up
from tests.backfill.sources.test_dataset import staged_rows
from tests.backfill.spark.cluster import Cluster
from tests.backfill.spark.on_spark import write_archive
from tests.broker.waiting import wait_until

ROWS = made_up("in", 7, 200, num_partitions=4)
DEADLINE_S = 600.0

TOPOLOGY = """
import os
import time
from pathlib import Path

from pystreams import StreamsBuilder, serdes

marks = Path({marks!r})


def look(key, value):
    from pyspark import TaskContext

    if TaskContext.get().partitionId() == 1 and not look.done:
        look.done = True
        try:
            (marks / "attempt-0").touch(exist_ok=False)
        except FileExistsError:
            # Attempts of another round of the stage are counted from 0 again.
            (marks / "attempt-1").touch()
        end = time.monotonic() + 500
        while not (marks / "attempt-1").exists():
            assert time.monotonic() < end, "no second attempt"
            time.sleep(0.02)
    return value


look.done = False
builder = StreamsBuilder()
source = builder.stream("in", key_serde=serdes.STRING, value_serde=serdes.STRING)
source.map_values(look, with_key=True).group_by_key().count(name="counts").to_stream().to("out")
"""
"""The first attempt of one task waits in its middle until there is a second one."""

WRITE_DATASET = """
import sys

from pystreams.backfill import write_dataset
from tests.backfill.sources.covered import CONFIG
from tests.backfill.sources.test_dataset import echo

_, staged, path, master = sys.argv
conf = {
    "spark.driver.host": "127.0.0.1",
    "spark.executor.memory": "600m",
    "spark.pyspark.python": sys.executable,
}
write_dataset(staged, echo(), CONFIG, path, master=master, spark_conf=conf)
"""

pytestmark = [pytest.mark.spark, pytest.mark.sweep, pytest.mark.timeout(1500)]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with Cluster(tmp_path) as made:
        yield made


@pytest.fixture
def marks(tmp_path: Path) -> Path:
    directory = tmp_path / "marks"
    directory.mkdir()
    return directory


def start(cluster: Cluster, directory: Path, *settings: str) -> subprocess.Popen[str]:
    (directory / "topology.py").write_text(TOPOLOGY.format(marks=str(directory / "marks")))
    archive = write_archive(ROWS, directory / "archive")
    command = [sys.executable, "-m", "pystreams", "backfill", str(directory / "topology.py")]
    command += ["--from", f"parquet:{archive}", "--gaps-allowed", "--no-publish"]
    command += ["-c", "application.id=app", "-c", "statestore.cache.max.bytes=0"]
    command += ["--output", str(directory / "staged"), "--master", cluster.url]
    for setting in (
        "spark.driver.host=127.0.0.1",
        "spark.executor.memory=600m",
        "spark.executor.cores=2",
        f"spark.pyspark.python={sys.executable}",
        *settings,
    ):
        command += ["--spark-conf", setting]
    return subprocess.Popen(
        command, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=dict(os.environ)
    )


def outputs(directory: Path) -> dict[bytes | None, list[int]]:
    """The counts of each key in the staged results."""
    staging = StagingDirectory(directory / "staged")
    found: dict[bytes | None, list[int]] = {}
    rows: list[Result] = [
        row
        for task in range(read_manifest(staging.path).stages[0].num_tasks)
        for row in staging.files(0).rows(ResultKind.OUTPUT, "out", task)
    ]
    for row in rows:
        found.setdefault(row.key, []).append(int.from_bytes(row.value or b"", "big"))
    return found


def expected() -> dict[bytes | None, list[int]]:
    found: dict[bytes | None, list[int]] = {}
    for row in ROWS:
        if row.key is not None and row.value is not None:
            found.setdefault(row.key, []).append(len(found.get(row.key, [])) + 1)
    return found


def test_speculative_attempt_leaves_each_result_once(
    cluster: Cluster, marks: Path, tmp_path: Path
) -> None:
    cluster.add_worker()
    cluster.add_worker()
    backfill = start(
        cluster,
        tmp_path,
        "spark.speculation=true",
        "spark.speculation.quantile=0.3",
        "spark.speculation.multiplier=1.1",
        "spark.speculation.interval=100ms",
        "spark.speculation.minTaskRuntime=100ms",
    )
    told, _ = backfill.communicate(timeout=DEADLINE_S)

    assert backfill.returncode == 0, told
    assert {file.name for file in marks.iterdir()} == {"attempt-0", "attempt-1"}
    assert outputs(tmp_path) == expected()


def test_killed_executor_is_replaced_and_each_result_is_there_once(
    cluster: Cluster, marks: Path, tmp_path: Path
) -> None:
    cluster.add_worker()
    backfill = start(cluster, tmp_path)
    wait_until(
        lambda: (marks / "attempt-0").exists() or backfill.poll() is not None,
        "the first attempt",
        deadline_s=DEADLINE_S,
    )
    cluster.kill_executor()
    told, _ = backfill.communicate(timeout=DEADLINE_S)

    assert backfill.returncode == 0, told
    assert (marks / "attempt-1").exists()
    assert outputs(tmp_path) == expected()


def test_cluster_without_workers_is_told_and_left(cluster: Cluster, tmp_path: Path) -> None:
    backfill = start(cluster, tmp_path, f"{TIMEOUT_SETTING}=4000")
    told, _ = backfill.communicate(timeout=DEADLINE_S)

    assert backfill.returncode == 1, told
    assert f"master {cluster.url} has given no executor for 4 s: look whether" in told
    assert "Traceback" not in told
    assert not (tmp_path / "staged").exists()


def test_worker_that_comes_late_is_waited_for(
    cluster: Cluster, marks: Path, tmp_path: Path
) -> None:
    (marks / "attempt-1").touch()
    backfill = start(cluster, tmp_path)
    cluster.add_worker()
    told, _ = backfill.communicate(timeout=DEADLINE_S)

    assert backfill.returncode == 0, told
    assert outputs(tmp_path) == expected()


def test_data_set_that_workers_write_elsewhere_is_refused(cluster: Cluster, tmp_path: Path) -> None:
    may_mount = subprocess.run(["unshare", "--mount", "true"], capture_output=True, check=False)
    if may_mount.returncode:
        pytest.skip(f"nothing can be mounted here: {may_mount.stderr.decode().strip()}")
    mounted, local = tmp_path / "mounted", tmp_path / "local"
    local.mkdir()
    cluster.add_worker(own=local)
    staged = staged_rows(mounted / "staged", 3)

    told = {
        path: subprocess.run(
            [sys.executable, "-c", WRITE_DATASET, str(staged), str(path), cluster.url],
            capture_output=True,
            text=True,
            check=False,
        ).stderr
        for path in (mounted / "dataset", local / "dataset")
    }

    assert is_dataset_of(mounted / "dataset", staged), told[mounted / "dataset"]
    assert not (local / "dataset").exists()
    missed = rf"workers have written 3 rows to {local}.*, and 0 are seen here: mount the data set's"
    assert re.search(missed, told[local / "dataset"]), told[local / "dataset"]
