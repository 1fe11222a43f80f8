"""Windowed aggregations, side by side: pystreams, Kafka Streams and Quix Streams.

    python benchmarks/windows.py --records 1000000 --kinds tumbling,sliding --emit update

One development broker, one partition, exactly-once, one program at a time, each with an input topic
of its own. A run counts when its output is right; a wrong output ends the benchmark with exit code
1. What is measured ends with the commit of the last record; then two later records, more than a
second apart, close what is still open, so that all final results must be there. See README.md for
what is measured, and how.
"""

from __future__ import annotations

import itertools
import shutil
import statistics
import sys
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from benchmarks.count import Names
from benchmarks.harness import results, window_check, window_kinds, window_results
from benchmarks.harness.cluster import Cluster, GroupProgress
from benchmarks.harness.measurement import POLL_S, Input, watch_to_end
from benchmarks.harness.processes import Cost, Program, ProgramError
from benchmarks.harness.programs import (
    ENGINES,
    Job,
    kafka_streams_command,
    pystreams_settings,
    quix_command,
)
from benchmarks.harness.setting import console, setting
from benchmarks.harness.timed_topics import write_timed
from benchmarks.harness.window_kinds import CLOSING_KEY, WindowInput

_PROGRAMS = ("pystreams", "kafka-streams", "quix")
_EMIT_INTERVAL_S = 1.2
"""Final results are looked for once a second."""

_CLOSING_TIMEOUT_S = 60.0


@dataclass(frozen=True, slots=True)
class WindowCase:
    """What is run.

    Attributes:
        kind: How time is cut.
        emit: When results are sent on.
        program: What runs.
    """

    kind: str
    emit: str
    program: str

    def command(self, job: Job, retention_ms: int) -> list[str]:
        """Return the command of its process."""
        given = {"kind": self.kind, "emit": self.emit}
        if self.program == "pystreams":
            given |= {"input": job.input, "output": job.output}
            given["retention-ms"] = str(retention_ms)
            settings = pystreams_settings(job).items()
            return [
                *(sys.executable, "-m", "benchmarks.apps.window_app"),
                *(f"--{name}={value}" for name, value in given.items()),
                *(f"-c{name}={value}" for name, value in settings),
            ]
        given |= {
            "size-ms": str(window_kinds.SIZE_MS),
            "advance-ms": str(window_kinds.ADVANCE_MS),
            "gap-ms": str(window_kinds.GAP_MS),
            "difference-ms": str(window_kinds.DIFFERENCE_MS),
            "grace-ms": str(window_kinds.GRACE_MS),
        }
        if self.program == "quix":
            options = [f"--{name}={value}" for name, value in given.items()]
            return quix_command(job, 0, "windows_with_quix.py") + options
        given["retention-ms"] = str(retention_ms)
        options = [f"{name}={value}" for name, value in given.items()]
        return kafka_streams_command(job, 0, "peer.WindowApplication") + options


@dataclass(frozen=True, slots=True)
class WindowRun:
    """What one run gave.

    Attributes:
        records_per_s: Records of the input a second.
        cost: Of the process, from start to exit.
        records: Records of the input.
        output_records: Records of the output.
    """

    records_per_s: float
    cost: Cost
    records: int
    output_records: int


@dataclass(frozen=True, slots=True)
class WindowBench:
    """Where runs happen.

    Attributes:
        cluster: The broker.
        directory: For state and logs.
        commit_ms: Commit interval of all programs (ms).
        falsify: Whether each output is falsified before its check.
    """

    cluster: Cluster
    directory: Path
    commit_ms: int
    falsify: bool = False

    def run(self, case: WindowCase, source: WindowInput, app: str) -> WindowRun:
        """Run a case once, check its output, and clean up.

        Raises:
            ProgramError: It ended by itself, hung, or made no progress.
            WrongOutputError: The output is not what the input demands.
        """
        job = self._job(app)
        write_timed(job.bootstrap, job.input, source.records)
        program = Program.start(case.command(job, source.retention_ms), job.state / "process.log")
        try:
            loaded = Input(job.input, 1, len(source.records), Counter())
            progress = watch_to_end(self.cluster, job, loaded, [program])
            if case.emit == "close":
                self._close_windows(job, source, program)
            cost = program.stop()
        finally:
            program.kill()
        if self.falsify:
            key, _, timestamp = source.records[0]
            value = '{"start": 0, "end": 0, "value": 1}'
            write_timed(job.bootstrap, job.output, [(f"{key}{timestamp}", value, timestamp)])
        output_records = window_check.check(
            self.cluster, job.output, case.program, case.kind, case.emit, source
        )
        self.cluster.keep_only([])
        shutil.rmtree(job.state, ignore_errors=True)
        rate = progress.records / progress.seconds
        return WindowRun(rate, cost, len(source.records), output_records)

    def _job(self, app: str) -> Job:
        state = self.directory / app
        state.mkdir(parents=True)
        topics = f"{app}-input", f"{app}-output"
        for topic in topics:
            self.cluster.create_topic(topic, 1)
        bootstrap = self.cluster.bootstrap_servers
        return Job(bootstrap, app, *topics, state, "exactly_once", self.commit_ms)

    def _close_windows(self, job: Job, source: WindowInput, program: Program) -> None:
        """Let all windows close, and wait until that is committed."""
        deadline_s = time.monotonic() + _CLOSING_TIMEOUT_S
        with GroupProgress(self.cluster, job.app, job.input, 1) as group:
            for number in range(2):
                time.sleep(number * _EMIT_INTERVAL_S)
                end = group.committed_records() + 1
                closing = (CLOSING_KEY, "0", source.closing_ms + number)
                write_timed(job.bootstrap, job.input, [closing])
                while group.committed_records() < end:
                    program.watch()
                    if time.monotonic() > deadline_s:
                        tail = program.log_tail()
                        raise ProgramError(f"{job.app}: the closing record waits:\n{tail}")
                    time.sleep(POLL_S)


@click.command(help=__doc__.split("\n\n", maxsplit=1)[0], context_settings={"show_default": True})
@click.option("--records", type=click.IntRange(1000), default=1_000_000, help="Of the input.")
@click.option(
    "--quix-records",
    type=click.IntRange(1000),
    default=100_000,
    help="How many of them Quix Streams gets, from the first on: all would take it an hour.",
)
@click.option("--keys", type=click.IntRange(1), default=10_000, help="Different keys.")
@click.option(
    "--kinds",
    type=Names(window_kinds.KINDS),
    default=",".join(window_kinds.KINDS),
    help="How time is cut, with commas.",
)
@click.option(
    "--emit",
    "emits",
    type=Names(window_kinds.EMITS),
    default=",".join(window_kinds.EMITS),
    help="When results are sent on, with commas.",
)
@click.option(
    "--programs",
    type=Names(_PROGRAMS),
    default=",".join(_PROGRAMS),
    help="What to run, with commas.",
)
@click.option("--commit-ms", type=click.IntRange(1), default=100, help="Commit interval (ms).")
@click.option("--runs", type=click.IntRange(1), default=1, help="Runs of each case.")
@click.option("--json", "json_file", type=click.Path(path_type=Path), help="Write results here.")
@click.option("--data-dir", type=click.Path(path_type=Path, file_okay=False), help="For all data.")
@click.option("--tamper", is_flag=True, hidden=True, help="Falsify each output before its check.")
def main(**options: Any) -> None:
    """Run the benchmark."""
    for program in options["programs"]:
        ENGINES[program].prepare()
    with setting(options["data_dir"]) as (directory, broker):
        cluster = Cluster(broker.bootstrap_servers)
        bench = WindowBench(cluster, directory / "state", options["commit_ms"], options["tamper"])
        rows = measure(bench, options)
    console.print(results.markdown_table(window_results.COLUMNS, window_results.lines(rows)))
    if options["json_file"] is not None:
        settings = ("records", "quix_records", "keys", "commit_ms", "runs")
        content = {
            "benchmark": "windows",
            "machine": results.machine(),
            "settings": {name: options[name] for name in settings},
            "rows": rows,
        }
        results.write_json(options["json_file"], content)


def measure(bench: WindowBench, options: dict[str, Any]) -> list[dict[str, Any]]:
    """Run all cases, all once and then all again; return their rows."""
    whole = window_kinds.made(options["records"], options["keys"])
    part = whole.first(options["quix_records"])
    # Its sliding windows miscount records that are out of order.
    in_order = part.in_order()
    cases = [
        WindowCase(kind, emit, program)
        for kind in options["kinds"]
        for emit in options["emits"]
        for program in options["programs"]
    ]
    runs: dict[WindowCase, list[WindowRun]] = {case: [] for case in cases}
    for number, case in itertools.product(range(options["runs"]), cases):
        app = f"{case.program}-{case.kind}-{case.emit}-{number}"
        source = whole
        if case.program == "quix":
            source = in_order if case.kind == "sliding" else part
        run = bench.run(case, source, app)
        runs[case].append(run)
        console.print(
            f"{case.kind} on {case.emit} {case.program}: {run.records_per_s:,.0f} records/s, "
            f"{run.cost.cpu_s / run.records * 1e6:.1f} CPU s a million; output is right "
            f"({run.output_records:,} records)"
        )
    return [row_of(case, found) for case, found in runs.items()]


def row_of(case: WindowCase, runs: list[WindowRun]) -> dict[str, Any]:
    """Return the figures of a case: medians over its runs, and the rate of each."""
    costs = [run.cost.cpu_s / run.records * 1e6 for run in runs]
    return {
        "kind": case.kind,
        "emit": case.emit,
        "program": case.program,
        "records_per_s": statistics.median(run.records_per_s for run in runs),
        "runs": [run.records_per_s for run in runs],
        "cpu_s_per_million": statistics.median(costs),
        "peak_bytes": max(run.cost.peak_bytes for run in runs),
        "output_records": runs[0].output_records,
    }


if __name__ == "__main__":
    main()
