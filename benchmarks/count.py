"""Count per key, side by side: pystreams, Kafka Streams, Quix Streams, and Python by hand.

    python benchmarks/count.py --records 1000000 --guarantee at_least_once,exactly_once

One development broker, one input topic, one program at a time, each with fresh state, topics and
application id. A run counts when its output is right; a wrong output ends the benchmark with exit
code 1. See README.md in this directory for what is measured, and how.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
from confluent_kafka import Producer

from benchmarks.harness import results, stages
from benchmarks.harness.cluster import Cluster
from benchmarks.harness.measurement import Bench, Case, Input, Run
from benchmarks.harness.programs import ENGINES, Job
from benchmarks.harness.setting import console, setting
from benchmarks.harness.workload import Workload

_INPUT = "input"
_CACHE_BYTES = 10 * 1024 * 1024
_GUARANTEES = ("at_least_once", "exactly_once", "exactly_once_v2")


class Names(click.ParamType[tuple[str, ...]]):
    """A list of names with commas."""

    name = "names"

    def __init__(self, known: tuple[str, ...]) -> None:
        self._known = known

    def convert(self, value: Any, param: Any, ctx: Any) -> tuple[str, ...]:
        """Return the names."""
        names = value if isinstance(value, tuple) else tuple(value.split(","))
        for name in names:
            if name not in self._known:
                self.fail(f"{name!r} is none of {', '.join(self._known)}", param, ctx)
        return names


@click.command(help=__doc__.split("\n\n", maxsplit=1)[0], context_settings={"show_default": True})
@click.option("--records", type=click.IntRange(1), default=3_000_000, help="Records of the input.")
@click.option("--keys", type=click.IntRange(1), default=100_000, help="Different keys.")
@click.option("--value-bytes", type=click.IntRange(0), default=20, help="Length of a value.")
@click.option(
    "--guarantee",
    "guarantees",
    type=Names(_GUARANTEES),
    default="at_least_once,exactly_once",
    help="Processing guarantees, with commas.",
)
@click.option(
    "--engines",
    type=Names(tuple(ENGINES)),
    default=",".join(ENGINES),
    help="What to run, with commas.",
)
@click.option("--runs", type=click.IntRange(1), default=1, help="Runs of each case.")
@click.option("--commit-ms", type=click.IntRange(1), default=100, help="Commit interval (ms).")
@click.option(
    "--cache/--no-cache",
    "with_cache",
    default=True,
    help="Also run those that have a record cache with 10 MiB of it.",
)
@click.option("--processes", type=click.IntRange(1), default=1, help="Processes and partitions.")
@click.option(
    "--operators",
    type=click.Choice(["0", "3"]),
    default="0",
    help="Stateless operators before the count: a filter and two maps.",
)
@click.option("--profile", is_flag=True, help="Also: where our time goes, by stage.")
@click.option("--json", "json_file", type=click.Path(path_type=Path), help="Write results here.")
@click.option(
    "--data-dir",
    type=click.Path(path_type=Path, file_okay=False),
    help="Where broker and state keep their data; a temporary directory by default.",
)
@click.option("--tamper", is_flag=True, hidden=True, help="Falsify each output before its check.")
def main(**options: Any) -> None:
    """Run the benchmark."""
    with setting(options["data_dir"]) as (directory, broker):
        content = measure(options, Cluster(broker.bootstrap_servers), directory)
    if options["json_file"] is not None:
        results.write_json(options["json_file"], content)


def measure(options: dict[str, Any], cluster: Cluster, directory: Path) -> dict[str, Any]:
    """Load the input, run all cases, print the tables.

    Returns:
        What goes into the JSON file.
    """
    cases = list(cases_of(options))
    for engine in {case.engine.name: case.engine for case in cases}.values():
        engine.prepare()
    source = load_input(options, cluster)
    before_check = Tamper(cluster) if options["tamper"] else (lambda _job: None)
    bench = Bench(cluster, directory / "state", options["commit_ms"], before_check)
    runs: list[list[Run]] = [[] for _ in cases]
    # All cases once, then all again: what drifts on the machine hits all alike.
    for number, (index, case) in itertools.product(range(options["runs"]), enumerate(cases)):
        app = f"{case.engine.name}-{index}-{number}"
        run = bench.run(case, source, app)
        runs[index].append(run)
        show(case, run, number + 1)
    rows = [results.row_of(case, of_case) for case, of_case in zip(cases, runs, strict=True)]
    console.print()
    for table in results.terminal_tables(rows):
        console.print(table)
    content: dict[str, Any] = {
        "benchmark": "count",
        "machine": results.machine(),
        "settings": {name: options[name] for name in ("records", "keys", "value_bytes", "runs")}
        | {"commit_ms": options["commit_ms"]},
        "rows": rows,
    }
    if options["profile"]:
        content["stages"] = [
            stages.profile(bench, source, guarantee, int(options["operators"]), console)
            for guarantee in options["guarantees"]
        ]
    return content


def cases_of(options: dict[str, Any]) -> Iterator[Case]:
    """Yield what is to be run, in order."""
    for guarantee, name in itertools.product(options["guarantees"], options["engines"]):
        engine = ENGINES[name]
        caches = [0, _CACHE_BYTES] if engine.caches and options["with_cache"] else [0]
        for cache_bytes in caches:
            yield Case(
                engine, guarantee, cache_bytes, options["processes"], int(options["operators"])
            )


def load_input(options: dict[str, Any], cluster: Cluster) -> Input:
    """Fill the input topic."""
    partitions = options["processes"]
    workload = Workload(options["records"], options["keys"], options["value_bytes"], partitions)
    cluster.keep_only([])
    cluster.create_topic(_INPUT, partitions)
    with console.status(f"loading {workload.records:,} records over {workload.keys:,} keys"):
        truth = workload.load(cluster.bootstrap_servers, _INPUT)
    return Input(_INPUT, partitions, sum(cluster.end_offsets(_INPUT)), truth)


def show(case: Case, run: Run, number: int) -> None:
    """Print one run."""
    cache = f" cache {case.cache_bytes / 2**20:.0f} MiB" if case.cache_bytes else ""
    console.print(
        f"{case.guarantee} {case.engine.title}{cache} run {number}: "
        f"{run.records_per_s:,.0f} records/s, "
        f"{run.cpu_s_per_million:.1f} CPU s a million, {run.cost.peak_bytes / 2**20:.0f} MiB, "
        f"first commit after {run.startup_s:.1f} s; output is right "
        f"({run.output_records:,} records)",
    )


class Tamper:
    """Adds a count that is wrong to an output: shows that the check finds it."""

    def __init__(self, cluster: Cluster) -> None:
        self._bootstrap_servers = cluster.bootstrap_servers

    def __call__(self, job: Job) -> None:
        producer = Producer({"bootstrap.servers": self._bootstrap_servers})
        producer.produce(job.output, (1).to_bytes(8, "big"), b"key0000000")
        producer.flush()


if __name__ == "__main__":
    main()
