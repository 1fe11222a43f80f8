"""Where our time goes, a record: consume, decode, process, store, produce, commit.

Two timed runs of the same job (apps/profiled_count_app.py): one times what happens once a batch,
and is as fast as an untimed one; the other looks inside processing, which slows it, so only the
shares of its parts are used, applied to the processing time of the first.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.harness.measurement import Bench, Case, Input
from benchmarks.harness.programs import BENCHMARKS, Engine, Job, pystreams_command

PROCESS = "process"
_INSIDE_PROCESS = (
    "store get",
    "RocksDB get",
    "store put and changelog record",
    "sink: serialize the result",
)
_ORDER = (
    "consume",
    "decode",
    PROCESS,
    "produce",
    "commit: flush the record cache",
    "commit: flush the producer",
    "commit: transaction",
    "commit: offsets",
    "commit: write to the store",
    "garbage collection",
    "the loop itself",
)
COLUMNS = ("stage", "us/record", "of which CPU", "share")


@dataclass(frozen=True, slots=True)
class StageLine:
    """One line of the profile; times are microseconds a record.

    Attributes:
        stage: Its name; parts of processing are indented.
        wall_us: Wall-clock time.
        cpu_us: CPU time of the stream thread; None where it was not measured.
        share: Part of the whole wall-clock time.
    """

    stage: str
    wall_us: float
    cpu_us: float | None
    share: float


def profile(
    bench: Bench, source: Input, guarantee: str, operators: int, console: Console
) -> dict[str, Any]:
    """Run the two timed runs and print where the time went.

    Returns:
        The profile, for the JSON file.
    """
    by_batch = _timed_run(bench, source, guarantee, operators, detail=False)
    detail = _timed_run(bench, source, guarantee, operators, detail=True)
    lines = stage_lines(by_batch, detail)
    result = {
        "guarantee": guarantee,
        "operators": operators,
        "records": by_batch["records"],
        "total_us": sum(line.wall_us for line in lines if not line.stage.startswith(" ")),
        "process_cpu_us": by_batch["process_cpu_ns"] / by_batch["records"] / 1000,
        "lines": [
            {
                "stage": line.stage,
                "wall_us": line.wall_us,
                "cpu_us": line.cpu_us,
                "share": line.share,
            }
            for line in lines
        ],
    }
    console.print(terminal_table(result))
    return result


def stage_lines(by_batch: Mapping[str, Any], detail: Mapping[str, Any]) -> list[StageLine]:
    """Return the lines of the profile, the parts of processing below it."""
    records = by_batch["records"]
    stages = by_batch["stages"]
    total_ns = sum(times["wall_ns"] for times in stages.values())
    lines = []
    for stage in sorted(stages, key=_ORDER.index):
        one = stages[stage]
        if not one["calls"]:
            continue
        wall_us = one["wall_ns"] / records / 1000
        cpu_us = one["cpu_ns"] / records / 1000
        lines.append(StageLine(stage, wall_us, cpu_us, one["wall_ns"] / total_ns))
        if stage == PROCESS:
            lines += _inside_process(wall_us, lines[-1].share, detail["stages"])
    return lines


def _inside_process(wall_us: float, share: float, stages: Mapping[str, Any]) -> list[StageLine]:
    parts = {name: stages[name]["wall_ns"] for name in _INSIDE_PROCESS if name in stages}
    parts["the steps between them"] = stages[PROCESS]["wall_ns"]
    whole = sum(parts.values()) or 1  # Next to nothing, once the stopwatch's own time is off.
    return [
        StageLine(f"  {name}", wall_us * part / whole, None, share * part / whole)
        for name, part in parts.items()
    ]


def stage_cells(result: Mapping[str, Any]) -> list[list[str]]:
    """Return the lines of a table."""
    lines = [
        [
            line["stage"],
            f"{line['wall_us']:.2f}",
            "" if line["cpu_us"] is None else f"{line['cpu_us']:.2f}",
            f"{line['share']:.0%}",
        ]
        for line in result["lines"]
    ]
    thread_cpu_us = sum(line["cpu_us"] or 0.0 for line in result["lines"])
    others_us = result["process_cpu_us"] - thread_cpu_us
    lines.append(
        ["all of the stream thread", f"{result['total_us']:.2f}", f"{thread_cpu_us:.2f}", ""]
    )
    lines.append(["other threads (librdkafka, RocksDB)", "", f"{others_us:.2f}", ""])
    return lines


def title_of(result: Mapping[str, Any]) -> str:
    """Return what stands above the table."""
    operators = f", {result['operators']} stateless operators" if result["operators"] else ""
    return f"pystreams, {result['guarantee'].replace('_', '-')}{operators}: time of a record"


def terminal_table(result: Mapping[str, Any]) -> Table:
    """Return the profile for a terminal."""
    table = Table(COLUMNS[0], title=title_of(result), title_justify="left")
    for column in COLUMNS[1:]:
        table.add_column(column, justify="right")
    for cells in stage_cells(result):
        table.add_row(*cells)
    return table


def _timed_run(
    bench: Bench, source: Input, guarantee: str, operators: int, *, detail: bool
) -> dict[str, Any]:
    kind = "detail" if detail else "batch"
    app = f"profile-{kind}-{guarantee.replace('_', '-')}"
    timings = bench.directory / f"{app}.json"

    def command(job: Job, process: int) -> list[str]:
        options = [f"--timings={timings}", *(["--detail"] if detail else [])]
        program: Path = BENCHMARKS / "apps" / "profiled_count_app.py"
        return pystreams_command(program, job, process, options)

    engine = Engine("pystreams-profiled", "pystreams, timed", command)
    bench.run(Case(engine, guarantee, 0, source.partitions, operators), source, app)
    numbers: dict[str, Any] = json.loads(timings.read_text("utf-8"))
    return numbers
