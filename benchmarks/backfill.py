"""Count per key over a history, side by side: a backfill, live from earliest, and plain Spark SQL.

    python benchmarks/backfill.py --records 2000000,20000000 --profile

One topic with 8 partitions, one program at a time: `pystreams backfill` (results staged; publishing
them timed apart), `pystreams run`'s runtime in as many processes as there are cores, Kafka Streams
with as many threads, and Spark SQL, which counts and does nothing else. Every program's counts are
compared with the input's before a number of it is shown; a wrong one ends with exit code 1.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

import click

from benchmarks.count import Names, Tamper
from benchmarks.harness import backfill_results, results
from benchmarks.harness.backfill_profile import profile
from benchmarks.harness.batch_programs import BatchBench
from benchmarks.harness.cluster import Cluster
from benchmarks.harness.measurement import Bench, Case, Input
from benchmarks.harness.programs import ENGINES, KAFKA_STREAMS_VERSION, Engine, Job
from benchmarks.harness.setting import console, setting
from benchmarks.harness.workload import Workload

_INPUT = "input"
_CACHE_BYTES = 10 * 1024 * 1024
_PROGRAMS = ("backfill", "live", "kafka-streams", "spark-sql")

Row = Mapping[str, Any]


class Sizes(click.ParamType[tuple[int, ...]]):
    """Numbers of records with commas."""

    name = "sizes"

    def convert(self, value: Any, param: Any, ctx: Any) -> tuple[int, ...]:
        """Return the numbers."""
        if isinstance(value, tuple):
            return value
        try:
            return tuple(int(number) for number in value.split(","))
        except ValueError:
            self.fail(f"{value!r} are not numbers with commas", param, ctx)


@click.command(help=__doc__.split("\n\n", maxsplit=1)[0], context_settings={"show_default": True})
@click.option(
    "--records",
    "--sizes",
    "sizes",
    type=Sizes(),
    default="2000000",
    help="Records of the input; several sizes with commas.",
)
@click.option("--keys", type=click.IntRange(1), default=100_000, help="Different keys.")
@click.option("--value-bytes", type=click.IntRange(0), default=20, help="Length of a value.")
@click.option("--partitions", type=click.IntRange(1), default=8, help="Partitions of the input.")
@click.option("--cores", type=click.IntRange(1), default=2, help="Spark cores, processes, threads.")
@click.option(
    "--programs",
    type=Names(_PROGRAMS),
    default=",".join(_PROGRAMS),
    help="What to run, with commas.",
)
@click.option("--runs", type=click.IntRange(1), default=1, help="Runs of each program.")
@click.option(
    "--commit-ms", type=click.IntRange(1), default=1000, help="Commit interval when live (ms)."
)
@click.option("--cache", is_flag=True, help="With a record cache of 10 MiB instead of none.")
@click.option("--profile", is_flag=True, help="Also: where a backfill's time goes.")
@click.option(
    "--json",
    "json_file",
    type=click.Path(path_type=Path),
    help="Write results here; programs and sizes that are in it stay, of the same settings.",
)
@click.option(
    "--data-dir",
    type=click.Path(path_type=Path, file_okay=False),
    help="Where broker and state keep their data; a temporary directory by default.",
)
@click.option("--tamper", is_flag=True, hidden=True, help="Let each check find something wrong.")
def main(**options: Any) -> None:
    """Run the benchmark."""
    if "kafka-streams" in options["programs"]:
        ENGINES["kafka-streams"].prepare()
    content: dict[str, Any] = {
        "benchmark": "backfill",
        "machine": results.machine(),
        "settings": {
            name: options[name]
            for name in ("keys", "value_bytes", "partitions", "cores", "runs", "commit_ms")
        }
        | {"cache_bytes": _cache_bytes(options), "pyspark": version("pyspark")},
        "rows": [],
    }
    if options["json_file"] is not None:
        check_comparable(options["json_file"], content)
    with setting(options["data_dir"]) as (directory, broker):
        cluster = Cluster(broker.bootstrap_servers)
        for size in options["sizes"]:
            measured = Measurement(options, cluster, directory / f"of-{size}", size)
            of_other_sizes = content["rows"]
            for rows in measured.rows():
                content["rows"] = of_other_sizes + rows
                keep(options["json_file"], content)
            if options["profile"]:
                content["profile"] = measured.profile()
                keep(options["json_file"], content)
    for table in backfill_results.terminal_tables(content):
        console.print()
        console.print(table)


def check_comparable(file: Path, content: Mapping[str, Any]) -> None:
    """See that what will be measured can stand beside what the file has, before it is measured.

    Raises:
        click.BadParameter: It can't.
    """
    if file.is_file():
        try:
            backfill_results.merged(json.loads(file.read_text("utf-8")), content)
        except backfill_results.OtherSettingsError as error:
            raise click.BadParameter(f"{file}: {error}.", param_hint="--json") from error


def keep(file: Path | None, content: Mapping[str, Any]) -> None:
    """Write what is measured so far, beside what the file has of other programs and sizes."""
    if file is None:
        return
    if file.is_file():
        content = backfill_results.merged(json.loads(file.read_text("utf-8")), content)
    results.write_json(file, content)


class Measurement:
    """The programs over an input of one size.

    Args:
        options: The command line's.
        cluster: The broker.
        directory: For state, results and logs.
        size: Records of the input.
    """

    def __init__(
        self, options: Mapping[str, Any], cluster: Cluster, directory: Path, size: int
    ) -> None:
        self._options = options
        self._source = load_input(options, cluster, size)
        cache_bytes, tampers = _cache_bytes(options), options["tamper"]
        self._batch = BatchBench(cluster, directory, options["cores"], cache_bytes, tampers)
        before_check = Tamper(cluster) if tampers else (lambda _job: None)
        self._live = Bench(cluster, directory, options["commit_ms"], before_check)

    def rows(self) -> Iterator[list[Row]]:
        """Run all programs, then all again; return the rows so far after each run."""
        runs: dict[str, list[Any]] = {name: [] for name in self._options["programs"]}
        for number in range(self._options["runs"]):
            for name, of_program in runs.items():
                of_program.append(self._run(name, f"{name}-{number}"))
                row = self._row(name, of_program[-1:])
                console.print(
                    f"{row['records']:,} records, {row['title']}, run {number + 1}: "
                    f"{row['seconds']:.1f} s, {row['records_per_s']:,.0f} records/s; "
                    "output is right"
                )
                yield [self._row(program, found) for program, found in runs.items() if found]

    def profile(self) -> dict[str, Any]:
        """Run the backfill once more, and return where its time went."""
        return profile(self._batch, self._source)

    def _run(self, name: str, app: str) -> Any:
        if name == "backfill":
            return self._batch.backfill(self._source, app)
        if name == "spark-sql":
            return self._batch.spark_sql(self._source, app)
        cores = self._options["cores"]
        own = name == "live"
        engine = ENGINES["pystreams"] if own else with_threads(ENGINES[name], cores)
        processes = cores if own else 1
        # At-least-once, the faster guarantee: a backfill has no transactions to pay for either.
        case = Case(engine, "at_least_once", _cache_bytes(self._options), processes, operators=0)
        return self._live.run(case, self._source, app)

    def _row(self, name: str, runs: list[Any]) -> Row:
        cores, records = self._options["cores"], self._source.records
        titles = {
            "backfill": "pystreams backfill",
            "live": f"pystreams live, {cores} processes",
            "kafka-streams": f"Kafka Streams {KAFKA_STREAMS_VERSION}, {cores} threads",
            "spark-sql": "Spark SQL, last counts only",
        }
        if name in {"backfill", "spark-sql"}:
            return backfill_results.row_of_batch(name, titles[name], records, runs)
        return backfill_results.row_of_stream(name, titles[name], records, runs)


def with_threads(engine: Engine, threads: int) -> Engine:
    """Return Kafka Streams with so many stream threads."""

    def command(job: Job, process: int) -> list[str]:
        return [*engine.command(job, process), f"conf.num.stream.threads={threads}"]

    return Engine(engine.name, engine.title, command, engine.caches, engine.prepare)


def load_input(options: Mapping[str, Any], cluster: Cluster, size: int) -> Input:
    """Fill a fresh input topic."""
    partitions = options["partitions"]
    workload = Workload(size, options["keys"], options["value_bytes"], partitions)
    cluster.keep_only([])
    cluster.create_topic(_INPUT, partitions)
    with console.status(f"loading {size:,} records over {workload.keys:,} keys"):
        truth = workload.load(cluster.bootstrap_servers, _INPUT)
    return Input(_INPUT, partitions, sum(cluster.end_offsets(_INPUT)), truth)


def _cache_bytes(options: Mapping[str, Any]) -> int:
    return _CACHE_BYTES if options["cache"] else 0


if __name__ == "__main__":
    main()
