"""Joins of every kind, side by side: pystreams, live and over history, and Kafka Streams.

    python benchmarks/joins.py --records 3000000 --guarantee exactly_once --backfill

One development broker, one partition, one program at a time. A run counts when its output is right;
a wrong output ends the benchmark with exit code 1. See README.md for what is measured, and how.
"""

from __future__ import annotations

import os
import shutil
import statistics
import sys
import time
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import click

from benchmarks.harness import join_kinds, join_results, results
from benchmarks.harness.batch_programs import run_to_end
from benchmarks.harness.cluster import Cluster
from benchmarks.harness.join_kinds import JoinInput
from benchmarks.harness.measurement import Input, watch_to_end
from benchmarks.harness.processes import Program
from benchmarks.harness.programs import (
    Job,
    build_kafka_streams,
    kafka_streams_command,
    pystreams_settings,
)
from benchmarks.harness.setting import console, setting
from benchmarks.harness.timed_topics import wait_for_key
from pystreams.backfill.staging.directory import read_manifest

_INPUT = "stream"
_PROGRAM = "benchmarks.apps.join_app"
_PROGRAMS = ("pystreams", "kafka-streams")


@dataclass(frozen=True, slots=True)
class JoinBench:
    """Where joins run.

    Attributes:
        cluster: The broker.
        directory: For state and logs.
        options: Those of the command line.
    """

    cluster: Cluster
    directory: Path
    options: dict[str, Any]

    def live(self, program: str, guarantee: str, kind: str, source: JoinInput, app: str) -> float:
        """Run a join until its input is committed; return the records a second.

        Raises:
            ProgramError: It ended by itself, hung, or made no progress.
            WrongOutputError: The output is not what the input demands.
        """
        job = self._job(app, guarantee)
        arguments = self._arguments(kind)
        command = (
            [sys.executable, "-m", _PROGRAM, "live", *self._topics(job), *arguments]
            + [f"-c{key}={value}" for key, value in pystreams_settings(job).items()]
            if program == "pystreams"
            else kafka_streams_command(job, 0, "peer.JoinApplication")
            + [argument.removeprefix("--") for argument in arguments]
        )
        running = Program.start(command, job.state / "process.log")
        try:
            loaded = Input(_INPUT, 1, len(source.stream) + 1, Counter())
            progress = watch_to_end(self.cluster, job, loaded, [running])
            behind_s = self._rest(job, kind, running)
            running.stop()
        finally:
            running.kill()
        self._check(job, kind, source)
        return progress.records / (progress.seconds + behind_s)

    def backfill(self, kind: str, source: JoinInput, app: str) -> float:
        """Join a history, and publish the results; return the records a second of the joining.

        Raises:
            ProgramError: It failed.
            WrongOutputError: The output is not what the input demands.
        """
        job = self._job(app, "exactly_once")
        staged = job.state / "staged"
        arguments = [
            *self._topics(job),
            *self._arguments(kind),
            f"--staging={staged}",
            f"--master=local[{os.cpu_count()}]",
            f"--spark-conf=spark.local.dir={job.state}",
            f"-capplication.id={app}",
            "-cstatestore.cache.max.bytes=0",
            f"-cbootstrap.servers={job.bootstrap}",
        ]
        for step in ("stage", "publish"):
            command = [sys.executable, "-m", _PROGRAM, step, *arguments]
            run_to_end(command, job.state / f"{step}.log", {})
        seconds = read_manifest(staged).seconds
        self._check(job, kind, source)
        return (len(source.stream) + 1) / seconds

    def _rest(self, job: Job, kind: str, running: Program) -> float:
        """Wait for what is behind the input; return how long that took (s).

        A join by a foreign key has two topics of its own to go through.
        """
        if kind != join_kinds.FOREIGN_KEY:
            return 0.0
        begun_s = time.perf_counter()
        wait_for_key(self.cluster, job.output, join_kinds.CLOSING_KEY, running.watch)
        return time.perf_counter() - begun_s

    def _job(self, app: str, guarantee: str) -> Job:
        state = self.directory / app
        state.mkdir(parents=True)
        output = f"{app}-output"
        self.cluster.create_topic(output, 1)
        bootstrap, commit_ms = self.cluster.bootstrap_servers, self.options["commit_ms"]
        return Job(bootstrap, app, _INPUT, output, state, guarantee, commit_ms)

    def _topics(self, job: Job) -> list[str]:
        return [f"--input={job.input}", f"--output={job.output}"]

    def _arguments(self, kind: str) -> list[str]:
        waits = (f"--{name}={self.options[name.replace('-', '_')]}" for name in _WAITS)
        return [f"--kind={kind}", *waits]

    def _check(self, job: Job, kind: str, source: JoinInput) -> None:
        window_ms = self.options["window_ms"]
        join_kinds.check(self.cluster, job.output, kind, source, window_ms)
        self.cluster.keep_only([_INPUT, f"{_INPUT}-other"])
        shutil.rmtree(job.state, ignore_errors=True)


_WAITS = ("window-ms", "grace-ms")


@click.command(help=__doc__.split("\n\n", maxsplit=1)[0], context_settings={"show_default": True})
@click.option("--records", type=click.IntRange(1000), default=3_000_000, help="Of the stream.")
@click.option("--keys", type=click.IntRange(1), default=100_000, help="Different keys.")
@click.option("--kinds", default=",".join(join_kinds.KINDS), help="Kinds of joins, with commas.")
@click.option("--programs", default=",".join(_PROGRAMS), help="What to run live, with commas.")
@click.option("--guarantee", default="at_least_once,exactly_once", help="With commas.")
@click.option("--backfill/--no-backfill", default=True, help="Also: over history.")
@click.option("--window-ms", default=10, help="Of joins of streams, either way (ms).")
@click.option("--grace-ms", default=1000, help="Grace period, of all kinds that have one (ms).")
@click.option("--commit-ms", default=100, help="Commit interval (ms).")
@click.option("--runs", type=click.IntRange(1), default=1, help="Runs of each case.")
@click.option("--json", "json_file", type=click.Path(path_type=Path), help="Write results here.")
@click.option("--data-dir", type=click.Path(path_type=Path, file_okay=False), help="For all data.")
def main(**options: Any) -> None:
    """Run the benchmark."""
    if "kafka-streams" in options["programs"]:
        build_kafka_streams()
    with setting(options["data_dir"]) as (directory, broker):
        bench = JoinBench(Cluster(broker.bootstrap_servers), directory / "state", options)
        rows = [row for kind in options["kinds"].split(",") for row in measure(bench, kind)]
    console.print(results.markdown_table(join_results.COLUMNS, join_results.lines(rows)))
    if options["json_file"] is not None:
        settings = ("records", "keys", "window_ms", "grace_ms", "commit_ms", "runs")
        content = {
            "benchmark": "joins",
            "machine": results.machine(),
            "settings": {name: options[name] for name in settings},
            "rows": rows,
        }
        results.write_json(options["json_file"], content)


def measure(bench: JoinBench, kind: str) -> list[dict[str, Any]]:
    """Run all cases of a kind, all once and then all again; return their rows."""
    options = bench.options
    wait_ms = options["window_ms"] + options["grace_ms"]
    source = join_kinds.made(kind, options["records"], options["keys"], wait_ms)
    bench.cluster.keep_only([])
    for topic in (_INPUT, f"{_INPUT}-other"):
        bench.cluster.create_topic(topic, 1)
    source.load(bench.cluster.bootstrap_servers, _INPUT)
    cases = [
        (program, guarantee)
        for guarantee in options["guarantee"].split(",")
        for program in options["programs"].split(",")
    ] + [("pystreams", "backfill")] * options["backfill"]
    rates: dict[tuple[str, str], list[float]] = {case: [] for case in cases}
    for number in range(options["runs"]):
        for program, how in cases:
            app = f"{program}-{kind}-{how}-{number}".replace("_", "-")
            if how == "backfill":
                rate = bench.backfill(kind, source, app)
            else:
                rate = bench.live(program, how, kind, source, app)
            rates[program, how].append(rate)
            console.print(f"{kind} {program} {how}: {rate:,.0f} records/s; output is right")
    return [
        asdict(join_results.JoinRow(kind, program, how, statistics.median(found), found))
        for (program, how), found in rates.items()
    ]


if __name__ == "__main__":
    main()
