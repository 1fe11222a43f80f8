"""Programs that read a topic from its beginning to its end, and end themselves.

- `backfill`: apps/backfill_app.py, results staged; publishing them is its second step, timed apart.
- `spark-sql`: peers/spark_sql, which counts and does nothing else.

A program's time is that of its process, from start to exit, so it includes starting Python, a JVM
and Spark.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.harness.cluster import Cluster
from benchmarks.harness.measurement import Input
from benchmarks.harness.output_check import OutputCheck, WrongOutputError, check_output
from benchmarks.harness.process_tree import ProcessTree
from benchmarks.harness.processes import ProgramError
from benchmarks.harness.programs import BENCHMARKS
from pystreams.backfill.plan.rows import ResultKind
from pystreams.backfill.spark.connector_jars import with_connector
from pystreams.backfill.spark.session import find_spark_java
from pystreams.backfill.staging.directory import StagingDirectory, read_manifest

_SAMPLE_S = 0.5
_END_S = 20.0
_STATE = "counts"


@dataclass(frozen=True, slots=True)
class BatchRun:
    """What one run of a program gave.

    Attributes:
        seconds: From its start to its end (s).
        processing_s: The part of it after Spark's start (s); None where nobody tells.
        publishing_s: What publishing took after that (s); None where there is none.
        cpu_s: CPU time of all processes (s), without publishing.
        cpu_s_by_role: The same by process.
        peak_bytes: The most memory of each process and of all together; see `process_tree`.
    """

    seconds: float
    processing_s: float | None
    publishing_s: float | None
    cpu_s: float
    cpu_s_by_role: Mapping[str, float]
    peak_bytes: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class BatchBench:
    """Where such programs run.

    Attributes:
        cluster: The broker.
        directory: For results and logs; each run gets a directory of its own in it.
        cores: Cores that Spark uses.
        cache_bytes: The record cache of the backfill.
        tampers: Whether to falsify what is to come out, to show that the check finds it.
    """

    cluster: Cluster
    directory: Path
    cores: int
    cache_bytes: int
    tampers: bool = False

    def backfill(
        self, source: Input, app: str, conf: Sequence[str] = (), extra: Mapping[str, str] = {}
    ) -> BatchRun:
        """Backfill, check what was staged, publish, check what the changelog holds.

        Args:
            source: The input.
            app: The application id.
            conf: More of Spark's configuration, `KEY=VALUE`.
            extra: More environment.

        Raises:
            ProgramError: It failed.
            WrongOutputError: Results or changelog are not what the input demands.
        """
        home = self._home(app)
        output = f"{app}-output"
        self.cluster.create_topic(output, source.partitions)
        arguments = [f"--input={source.topic}", f"--output={output}", *self._arguments(home, app)]
        arguments += [f"--spark-conf={pair}" for pair in conf]
        command = [sys.executable, "-m", "benchmarks.apps.backfill_app"]
        tree = run_to_end([*command, "stage", *arguments], home / "backfill.log", extra)
        manifest = read_manifest(home / "staged")
        truth = self._truth(source)
        check_staged(home / "staged", output, truth, every_count=self.cache_bytes == 0)
        publishing = run_to_end([*command, "publish", *arguments], home / "publishing.log", extra)
        changelog = f"{app}-{_STATE}-changelog"
        check_output(self.cluster, changelog, truth, every_count=False)
        self.cluster.keep_only([source.topic])
        shutil.rmtree(home, ignore_errors=True)
        return tree.run(processing_s=manifest.seconds, publishing_s=publishing.seconds)

    def spark_sql(self, source: Input, app: str) -> BatchRun:
        """Count with Spark SQL, and check its counts.

        Raises:
            ProgramError: It failed.
            WrongOutputError: A count is wrong.
        """
        home = self._home(app)
        command = [
            sys.executable,
            str(BENCHMARKS / "peers" / "spark_sql" / "count_with_spark_sql.py"),
            f"--bootstrap={self.cluster.bootstrap_servers}",
            f"--input={source.topic}",
            f"--output={home / 'counts'}",
            f"--master=local[{self.cores}]",
            f"--jars={with_connector({})['spark.jars']}",
            f"--scratch={home}",
        ]
        java_home = find_spark_java().executable.resolve().parent.parent
        tree = run_to_end(command, home / "spark-sql.log", {"JAVA_HOME": str(java_home)})
        check_counts(home / "counts", self._truth(source))
        shutil.rmtree(home, ignore_errors=True)
        return tree.run()

    def _arguments(self, home: Path, app: str) -> list[str]:
        settings = {
            "application.id": app,
            "bootstrap.servers": self.cluster.bootstrap_servers,
            "statestore.cache.max.bytes": str(self.cache_bytes),
        }
        return [
            f"--staging={home / 'staged'}",
            f"--master=local[{self.cores}]",
            *(f"-c{key}={value}" for key, value in settings.items()),
            f"--spark-conf=spark.local.dir={home}",
        ]

    def _home(self, app: str) -> Path:
        home = self.directory / app
        home.mkdir(parents=True)
        return home

    def _truth(self, source: Input) -> Counter[bytes]:
        if not self.tampers:
            return source.truth
        return source.truth + Counter({min(source.truth): 1})


@dataclass(slots=True)
class EndedProgram:
    """A program that has ended well.

    Attributes:
        seconds: How long it took (s).
        tree: What its processes cost.
    """

    seconds: float
    tree: ProcessTree = field(repr=False)

    def run(self, processing_s: float | None = None, publishing_s: float | None = None) -> BatchRun:
        """Return the figures."""
        by_role = self.tree.cpu_s()
        return BatchRun(
            self.seconds,
            processing_s,
            publishing_s,
            sum(by_role.values()),
            by_role,
            self.tree.peak_bytes,
        )


def run_to_end(
    command: Sequence[str], log_file: Path, environment: Mapping[str, str]
) -> EndedProgram:
    """Run a program, look at its processes on the way, and wait for the last of them.

    Raises:
        ProgramError: It failed.
    """
    with log_file.open("wb") as log:
        began_s = time.perf_counter()
        child = subprocess.Popen(
            list(command),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            env={**os.environ, **environment},
        )
    tree = ProcessTree(child.pid)
    try:
        while True:
            tree.sample()
            try:
                child.wait(_SAMPLE_S)
                break
            except subprocess.TimeoutExpired:
                continue
        seconds = time.perf_counter() - began_s
    finally:
        child.kill()
        child.wait()
    deadline_s = time.monotonic() + _END_S
    while not tree.has_ended() and time.monotonic() < deadline_s:
        tree.sample()
        time.sleep(0.05)
    if child.returncode != 0:
        tail = "\n".join(log_file.read_text("utf-8", errors="replace").splitlines()[-15:])
        raise ProgramError(f"ended with exit code {child.returncode}:\n{tail}")
    return EndedProgram(seconds, tree)


def check_staged(path: Path, topic: str, truth: Mapping[bytes, int], *, every_count: bool) -> None:
    """Check the results of a backfill: each count in order, and the state.

    Raises:
        WrongOutputError: They are not what the input demands.
    """
    staging = StagingDirectory(path)
    outputs = OutputCheck(truth, every_count)
    state = OutputCheck(truth, every_count=False)
    for stage in read_manifest(path).stages:
        for task in range(stage.num_tasks):
            _see_all(outputs, staging, stage.position, (ResultKind.OUTPUT, topic, task))
            _see_all(state, staging, stage.position, (ResultKind.STATE, _STATE, task))
    outputs.finish()
    state.finish()


def _see_all(
    check: OutputCheck, staging: StagingDirectory, stage: int, place: tuple[ResultKind, str, int]
) -> None:
    """Take the rows of one task, column by column: there are millions."""
    from pyarrow import parquet

    kind, name, task = place
    directory = staging.stage_path(stage) / f"kind={int(kind)}" / f"name={name}" / f"task={task}"
    see = check.see
    for file in sorted(directory.glob("*.parquet")):
        with parquet.ParquetFile(file) as opened:
            for batch in opened.iter_batches(columns=["key", "value"]):
                keys, values = (column.to_numpy(zero_copy_only=False) for column in batch.columns)
                for key, value in zip(keys.tolist(), values.tolist(), strict=True):
                    see(key, value)


def check_counts(path: Path, truth: Mapping[bytes, int]) -> None:
    """Check a table of keys and counts.

    Raises:
        WrongOutputError: A count is wrong.
    """
    from pyarrow import parquet

    table = parquet.read_table(path, columns=["key", "count"])
    keys, counts = (table.column(name).to_pylist() for name in ("key", "count"))
    found = dict(zip(keys, counts, strict=True))
    for key in truth.keys() | found.keys():
        if found.get(key) != truth.get(key):
            raise WrongOutputError(f"{key!r}: {found.get(key)}, the input has {truth.get(key)}")
