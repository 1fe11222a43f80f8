"""Results: medians and ranges, JSON, and tables for the terminal and for the docs.

The JSON is the only source of the tables in docs/performance.md: `publish.py` writes them from it.
"""

from __future__ import annotations

import json
import os
import platform
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

from rich.table import Table

from benchmarks.harness.measurement import Case, Run
from benchmarks.harness.programs import KAFKA_STREAMS_VERSION, QUIX_VERSION, Engine
from benchmarks.harness.recovery import Restart
from pystreams.broker import KAFKA_VERSION

Row = Mapping[str, Any]
"""One case with its figures, as the JSON has it."""

COLUMNS = (
    "program",
    "records/s",
    "min..max",
    "CPU s / 1 M",
    "CPU x floor",
    "peak MiB",
    "of floor",
    "of Kafka Streams",
    "x Quix",
)

RESTART_COLUMNS = (
    "program",
    "killed",
    "first new commit (s)",
    "min..max",
    "restored records",
    "changelog",
    "not committed before",
)


def machine() -> dict[str, str]:
    """Return what a reader must know beside the numbers."""
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return {
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "cores": str(os.cpu_count()),
        "memory": f"{pages / 2**30:.0f} GiB",
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "kafka broker": KAFKA_VERSION,
        "kafka streams": KAFKA_STREAMS_VERSION,
        "quixstreams": QUIX_VERSION,
        "confluent-kafka": metadata.version("confluent-kafka"),
        "rocksdict": metadata.version("rocksdict"),
    }


def row_of(case: Case, runs: Sequence[Run]) -> dict[str, Any]:
    """Return the figures of one case: medians over its runs, and every run."""
    rates = [run.records_per_s for run in runs]
    return {
        "engine": case.engine.name,
        "title": case.engine.title,
        "guarantee": case.guarantee,
        "cache_bytes": case.cache_bytes,
        "processes": case.processes,
        "operators": case.operators,
        "records_per_s": statistics.median(rates),
        "records_per_s_min": min(rates),
        "records_per_s_max": max(rates),
        "cpu_s_per_million": statistics.median(run.cpu_s_per_million for run in runs),
        "peak_bytes": max(run.cost.peak_bytes for run in runs),
        "startup_s": statistics.median(run.startup_s for run in runs),
        "output_records": max(run.output_records for run in runs),
        "runs": [asdict(run) for run in runs],
    }


def restart_row(engine: Engine, moment: str, restarts: Sequence[Restart]) -> dict[str, Any]:
    """Return the figures of one program's restarts."""
    times = [restart.first_commit_s for restart in restarts]
    return {
        "engine": engine.name,
        "title": engine.title,
        "killed": moment,
        "first_commit_s": statistics.median(times),
        "first_commit_s_min": min(times),
        "first_commit_s_max": max(times),
        "restored_records": max(restart.restored_records for restart in restarts),
        "changelog_records": max(restart.changelog_records for restart in restarts),
        "uncommitted_records": max(restart.uncommitted_records for restart in restarts),
        "runs": [asdict(restart) for restart in restarts],
    }


def restart_cells(row: Row) -> list[str]:
    """Return one line of the restart table."""
    return [
        row["title"],
        row["killed"],
        f"{row['first_commit_s']:.2f}",
        f"{row['first_commit_s_min']:.2f}..{row['first_commit_s_max']:.2f}",
        f"{row['restored_records']:,}",
        f"{row['changelog_records']:,}",
        f"{row['uncommitted_records']:,}",
    ]


def cells(row: Row, rows: Sequence[Row]) -> list[str]:
    """Return one line of a table; ratios are to the rows of the same guarantee and scenario."""
    floor = _peer(row, rows, "floor")
    kafka_streams = _peer(row, rows, "kafka-streams", cache_bytes=row["cache_bytes"])
    quix = _peer(row, rows, "quix")
    return [
        title_of(row),
        f"{row['records_per_s']:,.0f}",
        f"{row['records_per_s_min']:,.0f}..{row['records_per_s_max']:,.0f}",
        f"{row['cpu_s_per_million']:.1f}",
        _ratio("cpu_s_per_million", row, floor, ".2f"),
        f"{row['peak_bytes'] / 2**20:.0f}",
        _ratio("records_per_s", row, floor, ".2f"),
        _ratio("records_per_s", row, kafka_streams, ".2f"),
        _ratio("records_per_s", row, quix, ".1f"),
    ]


def title_of(row: Row) -> str:
    """Return how a row is called."""
    cache = row["cache_bytes"]
    return f"{row['title']}, {cache / 2**20:.0f} MiB record cache" if cache else str(row["title"])


def scenario_of(row: Row) -> str:
    """Return what stands above a table: guarantee, processes, operators."""
    processes = row["processes"]
    parts = [row["guarantee"].replace("_", "-")]
    parts.append("1 partition" if processes == 1 else f"{processes} processes and partitions")
    if row["operators"]:
        parts.append(f"{row['operators']} stateless operators before the count")
    return ", ".join(parts)


def by_scenario(rows: Sequence[Row]) -> dict[str, list[Row]]:
    """Return the rows of each table, in order of appearance."""
    grouped: dict[str, list[Row]] = {}
    for row in rows:
        grouped.setdefault(scenario_of(row), []).append(row)
    return grouped


def terminal_tables(rows: Sequence[Row]) -> list[Table]:
    """Return the tables for a terminal."""
    tables = []
    for scenario, group in by_scenario(rows).items():
        table = Table(*COLUMNS[:1], title=scenario, title_justify="left")
        for column in COLUMNS[1:]:
            table.add_column(column, justify="right")
        for row in group:
            table.add_row(*cells(row, group))
        tables.append(table)
    return tables


def markdown_table(columns: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """Return a table in Markdown; all columns but the first are aligned to the right."""
    rule = ["---", *["---:"] * (len(columns) - 1)]
    return "\n".join("| " + " | ".join(line) + " |" for line in (columns, rule, *lines))


def write_json(file: Path, content: Mapping[str, Any]) -> None:
    """Write a result file."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(content, indent=1) + "\n", "utf-8")


def _peer(row: Row, rows: Sequence[Row], engine: str, cache_bytes: int = 0) -> Row | None:
    if row["engine"] == engine:
        return None
    found = [row for row in rows if row["engine"] == engine and row["cache_bytes"] == cache_bytes]
    return found[0] if found else None


def _ratio(figure: str, row: Row, peer: Row | None, form: str) -> str:
    return "" if peer is None else format(row[figure] / peer[figure], form)
