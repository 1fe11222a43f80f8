"""Restart after SIGKILL, side by side: pystreams and Kafka Streams, exactly-once.

    python benchmarks/restart.py --records 3000000

The application counts the whole input, is killed, and is started again with new records waiting:
how long until the first of them is committed, and how much of the changelog was read for it? The
output is checked over everything, crash included; a wrong output ends with exit code 1.
"""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import click
from rich.table import Table

from benchmarks.harness import results
from benchmarks.harness.cluster import Cluster
from benchmarks.harness.measurement import Bench, Case, Input
from benchmarks.harness.programs import ENGINES
from benchmarks.harness.recovery import KillPlan, restart
from benchmarks.harness.setting import console, setting
from benchmarks.harness.workload import Workload

_FED_RECORDS = 10_000
_COMMIT_MS = 100


@click.command(help=__doc__.split("\n\n", maxsplit=1)[0], context_settings={"show_default": True})
@click.option("--records", type=click.IntRange(1), default=3_000_000, help="Records of the input.")
@click.option("--keys", type=click.IntRange(1), default=100_000, help="Different keys.")
@click.option("--value-bytes", type=click.IntRange(0), default=20, help="Length of a value.")
@click.option(
    "--engines",
    default="pystreams,kafka-streams",
    help="What to run, with commas: pystreams, kafka-streams.",
)
@click.option(
    "--killed",
    type=click.Choice(["idle", "busy", "both"]),
    default="both",
    help="When: all committed and waiting for input, or in the middle of processing.",
)
@click.option("--runs", type=click.IntRange(1), default=1, help="Restarts of each case.")
@click.option("--json", "json_file", type=click.Path(path_type=Path), help="Write results here.")
@click.option(
    "--data-dir",
    type=click.Path(path_type=Path, file_okay=False),
    help="Where broker and state keep their data; a temporary directory by default.",
)
def main(**options: Any) -> None:
    """Run the benchmark."""
    with setting(options["data_dir"]) as (directory, broker):
        rows = measure(options, Cluster(broker.bootstrap_servers), directory)
    console.print(terminal_table(rows))
    if options["json_file"] is not None:
        settings = {name: options[name] for name in ("records", "keys", "value_bytes", "runs")}
        content = {
            "benchmark": "restart",
            "machine": results.machine(),
            "settings": settings | {"commit_ms": _COMMIT_MS, "fed_records": _FED_RECORDS},
            "rows": rows,
        }
        results.write_json(options["json_file"], content)


def measure(options: dict[str, Any], cluster: Cluster, directory: Path) -> list[dict[str, Any]]:
    """Restart each program as often as asked for; return the rows of the table."""
    engines = [ENGINES[name] for name in options["engines"].split(",")]
    moments = ["idle", "busy"] if options["killed"] == "both" else [options["killed"]]
    for engine in engines:
        engine.prepare()
    bench = Bench(cluster, directory / "state", _COMMIT_MS)
    rows = []
    for engine, moment in itertools.product(engines, moments):
        plan = KillPlan(moment == "busy", _FED_RECORDS, options["keys"], options["value_bytes"])
        case = Case(engine, "exactly_once", cache_bytes=0, processes=1, operators=0)
        restarts = []
        for number in range(options["runs"]):
            source = _load(options, cluster)
            found = restart(bench, case, source, f"{engine.name}-{moment}-{number}", plan)
            restarts.append(found)
            console.print(
                f"{engine.title}, killed {moment}: first new commit {found.first_commit_s:.2f} s "
                f"after the start, {found.restored_records:,} of {found.changelog_records:,} "
                "changelog records restored; output is right"
            )
        rows.append(results.restart_row(engine, moment, restarts))
    return rows


def _load(options: dict[str, Any], cluster: Cluster) -> Input:
    """Fill a fresh input topic: each restart adds records to it."""
    cluster.keep_only([])
    cluster.create_topic("input", 1)
    workload = Workload(options["records"], options["keys"], options["value_bytes"])
    with console.status(f"loading {workload.records:,} records"):
        truth = workload.load(cluster.bootstrap_servers, "input")
    return Input("input", 1, workload.records, truth)


def terminal_table(rows: list[dict[str, Any]]) -> Table:
    """Return the results for a terminal."""
    table = Table(results.RESTART_COLUMNS[0], title="Restart after SIGKILL", title_justify="left")
    for column in results.RESTART_COLUMNS[1:]:
        table.add_column(column, justify="right")
    for row in rows:
        table.add_row(*results.restart_cells(row))
    return table


if __name__ == "__main__":
    main()
