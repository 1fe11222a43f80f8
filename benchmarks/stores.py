"""State stores side by side: ours, rocksdict by hand and Kafka Streams' store of the same kind.

    python benchmarks/stores.py --operations 300000

Puts, gets, read-modify-writes, short ranges, and puts and ranges in turn, on one store of each
kind, ours transactional and written through; a kind leaves out what it can't do. Each measurement
has a process of its own. Ours are then run in pairs, a few operations of the one and then of the
other, because machines change their speed from one second to the next. What reads give is added up
in every program; a sum that differs ends with exit code 1 and no number. Kafka Streams times
itself, without its start and with a JVM that warms up on the way. Restore is measured last: records
of a compacted changelog, as many keys as records, into our stores on disk, in the runtime's
batches.
"""

from __future__ import annotations

import statistics
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.table import Table

from benchmarks.harness import results
from benchmarks.harness.own_process import in_own_process
from benchmarks.harness.programs import build_kafka_streams, store_bench_command
from benchmarks.harness.store_by_hand import BY_HAND, by_hand
from benchmarks.harness.store_jobs import Measured, Size, in_turn, measure, steps
from benchmarks.harness.store_kinds import KINDS, ours
from benchmarks.harness.store_restore import restore_per_s
from benchmarks.harness.store_results import ALL_JOBS, JOBS, RATIO_COLUMNS, ratio_rows, thousands

console = Console(stderr=True)

Program = Callable[[Path], list[Measured]]


@click.command(help=__doc__.split("\n\n", maxsplit=1)[0], context_settings={"show_default": True})
@click.option("--operations", type=click.IntRange(1000), default=300_000, help="Of each job.")
@click.option("--keys", type=click.IntRange(100), default=100_000, help="Different keys.")
@click.option("--value-bytes", type=click.IntRange(8), default=100, help="Length of a value.")
@click.option("--kinds", default=",".join(KINDS), help="What to measure, with commas.")
@click.option("--runs", type=click.IntRange(1), default=3, help="Runs of each case; the median.")
@click.option("--pairs", type=click.IntRange(0), default=9, help="Transactional beside not.")
@click.option("--restored", type=click.IntRange(0), default=3_000_000, help="Records to restore.")
@click.option("--java/--no-java", default=True, help="Kafka Streams beside it; needs Maven.")
@click.option("--json", "json_file", type=click.Path(path_type=Path), help="Write results here.")
def main(**options: Any) -> None:
    """Run the benchmark."""
    if options["java"]:
        build_kafka_streams()
    size = Size(options["operations"], options["keys"], options["value_bytes"])
    kinds = options["kinds"].split(",")
    rows = []
    for kind in kinds:
        rows += rows_of(kind, size, options["runs"], java=options["java"])
    ratios = {
        kind: ratios_of(kind, size, options["pairs"])
        for kind in kinds
        if options["pairs"] and KINDS[kind].writes_through
    }
    restored = {
        kind: in_own_process(restore_per_s, kind, options["restored"])
        for kind in kinds
        if options["restored"] and KINDS[kind].persistent
    }
    console.print(terminal_table(rows))
    if ratios:
        console.print(ratios_table(ratios))
    for name, rate in restored.items():
        console.print(f"restore, {name}: {rate:,.0f} records/s")
    if options["json_file"] is not None:
        names = ("operations", "keys", "value_bytes", "runs", "pairs", "restored")
        content = {
            "benchmark": "stores",
            "machine": results.machine(),
            "settings": {name: options[name] for name in names},
            "rows": rows,
            "ratios": ratios,
            "restore": restored,
        }
        results.write_json(options["json_file"], content)


def rows_of(kind: str, size: Size, runs: int, *, java: bool) -> list[dict[str, Any]]:
    """Measure every program on one kind; return a row a program and job.

    Raises:
        click.ClickException: Two programs did or read different things.
    """
    measured: dict[str, list[list[Measured]]] = {}
    for _ in range(runs):
        for name, program in programs(kind, size, java=java):
            with tempfile.TemporaryDirectory(prefix="stores-") as directory:
                measured.setdefault(name, []).append(program(Path(directory)))
            console.print(f"{kind}: {name} done", highlight=False)
    done = {name: [job.job for job in of[0]] for name, of in measured.items()}
    jobs = done["pystreams"]
    if any(others != jobs for others in done.values()):
        raise click.ClickException(f"{kind}: the programs did different jobs: {done}")
    rows = []
    for number, job in enumerate(jobs):
        sums = {name: [run[number].checksum for run in of] for name, of in measured.items()}
        if len({total for of in sums.values() for total in of}) != 1:
            raise click.ClickException(f"{kind}, {job}: the programs read different sums: {sums}")
        for name, of in measured.items():
            rates = [run[number].per_s for run in of]
            rows.append(
                {
                    "kind": kind,
                    "job": job,
                    "program": name,
                    "per_s": statistics.median(rates),
                    "per_s_min": min(rates),
                    "per_s_max": max(rates),
                }
            )
    return rows


def ratios_of(kind: str, size: Size, pairs: int) -> dict[str, list[float]]:
    """Return how fast a transactional store is beside one written through, a ratio a pair, by job.

    Raises:
        click.ClickException: The two read different things.
    """
    ratios: dict[str, list[float]] = {}
    for number in range(pairs):
        measured = in_own_process(measure_pair, kind, size, transactional_first=number % 2 == 0)
        for mine, plain in zip(measured[True], measured[False], strict=True):
            if mine.checksum != plain.checksum:
                raise click.ClickException(f"{kind}, {mine.job}: a pair read different sums")
            ratios.setdefault(mine.job, []).append(mine.per_s / plain.per_s)
        total = [sum(job.seconds for job in measured[which]) for which in (False, True)]
        ratios.setdefault(ALL_JOBS, []).append(total[0] / total[1])
    console.print(f"{kind}: {pairs} pairs done", highlight=False)
    return ratios


def programs(kind: str, size: Size, *, java: bool) -> Iterator[tuple[str, Program]]:
    """Return what is measured on a kind, by title."""
    yield "pystreams", lambda at: in_own_process(measure_ours, kind, size, at, transactional=True)
    if KINDS[kind].writes_through:
        yield (
            "pystreams, not transactional",
            lambda at: in_own_process(measure_ours, kind, size, at, transactional=False),
        )
    if kind in BY_HAND:
        yield "rocksdict by hand", lambda at: in_own_process(measure_by_hand, kind, size, at)
    if java and KINDS[kind].in_kafka_streams:
        yield "Kafka Streams", lambda at: kafka_streams(kind, size, at)


def measure_ours(kind: str, size: Size, at: Path, *, transactional: bool) -> list[Measured]:
    """Measure our store of a kind."""
    return measure(lambda: ours(kind, at, size.keys, transactional=transactional), at, size)


def measure_pair(kind: str, size: Size, *, transactional_first: bool) -> dict[bool, list[Measured]]:
    """Measure our store of a kind with and without transactions, step by step in turn."""
    order = (transactional_first, not transactional_first)
    with tempfile.TemporaryDirectory(prefix="stores-") as home:
        working = []
        for transactional in order:
            at = Path(home) / str(transactional)
            at.mkdir()
            opened = partial(ours, kind, at, size.keys, transactional=transactional)
            working.append(steps(opened, at, size))
        return dict(zip(order, in_turn(working), strict=True))


def measure_by_hand(kind: str, size: Size, at: Path) -> list[Measured]:
    """Measure rocksdict without a framework on a kind."""
    return measure(lambda: by_hand(kind, at), at, size)


def kafka_streams(kind: str, size: Size, directory: Path) -> list[Measured]:
    """Run the Java program and read what it measured.

    Raises:
        click.ClickException: It failed.
    """
    command = store_bench_command(kind, size.operations, size.keys, size.value_bytes, directory)
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    lines = [line.split() for line in ended.stdout.splitlines()]
    if ended.returncode or not lines:
        raise click.ClickException(f"Kafka Streams failed on {kind}: {ended.stderr[-2000:]}")
    return [
        Measured(job, int(count), int(nanoseconds) / 1e9, int(checksum))
        for job, count, nanoseconds, checksum in lines
    ]


def terminal_table(rows: list[dict[str, Any]]) -> Table:
    """Return thousands of operations a second, a line a kind and program."""
    table = Table("kind", "program", *(f"{job} (k/s)" for job in JOBS))
    rates = {(row["kind"], row["program"], row["job"]): row["per_s"] for row in rows}
    for kind, program in dict.fromkeys((kind, program) for kind, program, _ in rates):
        table.add_row(kind, program, *(thousands(rates.get((kind, program, job))) for job in JOBS))
    return table


def ratios_table(ratios: dict[str, dict[str, list[float]]]) -> Table:
    """Return a line a kind."""
    table = Table(*RATIO_COLUMNS, title="transactional, times as fast as not")
    for row in ratio_rows(ratios):
        table.add_row(*row)
    return table


if __name__ == "__main__":
    main()
