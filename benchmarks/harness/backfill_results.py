"""Tables of the backfill benchmark: programs side by side, growth, memory, where time goes.

What is published is ready for the live application; so a backfill has two lines, without its
publishing and with it.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from itertools import pairwise
from typing import Any

from rich.table import Table

from benchmarks.harness.batch_programs import BatchRun
from benchmarks.harness.measurement import Run
from benchmarks.harness.process_tree import ALL, DRIVER, JVM, LARGEST_WORKER, WORKERS
from benchmarks.harness.results import markdown_table

Content = Mapping[str, Any]
Row = Mapping[str, Any]

COLUMNS = (
    "program",
    "records",
    "seconds",
    "min..max",
    "records/s",
    "once started",
    "CPU s / 1 M",
    "peak MiB",
    "x live",
    "x Kafka Streams",
    "x Spark SQL",
)
GROWTH_COLUMNS = ("program", "from", "to", "s / 1 M between", "s for none")
"""Where time grows in proportion, the seconds a million are the same between any two sizes; what a
line through both leaves for no records at all is the start."""
MEMORY_COLUMNS = ("program", "records", DRIVER, JVM, WORKERS, LARGEST_WORKER, ALL, "published in s")
PROFILE_COLUMNS = ("where", "CPU us/record", "share", "wall s")


def row_of_batch(program: str, title: str, records: int, runs: Sequence[BatchRun]) -> Row:
    """Return the figures of a program that ends by itself: medians over its runs."""
    processing = [run.processing_s for run in runs if run.processing_s is not None]
    publishing = [run.publishing_s for run in runs if run.publishing_s is not None]
    return {
        **_row(program, title, records, [run.seconds for run in runs]),
        "processing_per_s": records / statistics.median(processing) if processing else None,
        "publishing_s": statistics.median(publishing) if publishing else None,
        "cpu_s_per_million": statistics.median(run.cpu_s for run in runs) / records * 1e6,
        "peak_bytes": {
            name: max(run.peak_bytes.get(name, 0) for run in runs)
            for name in (DRIVER, JVM, WORKERS, LARGEST_WORKER, ALL)
        },
        "runs": [asdict(run) for run in runs],
    }


def row_of_stream(program: str, title: str, records: int, runs: Sequence[Run]) -> Row:
    """Return the figures of a program that goes on until it is stopped: medians over its runs."""
    return {
        **_row(program, title, records, [run.whole_s for run in runs]),
        "processing_per_s": statistics.median(run.records_per_s for run in runs),
        "publishing_s": None,
        "cpu_s_per_million": statistics.median(run.cpu_s_per_million for run in runs),
        "peak_bytes": {ALL: max(run.cost.peak_bytes for run in runs)},
        "runs": [asdict(run) for run in runs],
    }


def _row(program: str, title: str, records: int, seconds: Sequence[float]) -> dict[str, Any]:
    return {
        "program": program,
        "title": title,
        "records": records,
        "seconds": statistics.median(seconds),
        "seconds_min": min(seconds),
        "seconds_max": max(seconds),
        "records_per_s": records / statistics.median(seconds),
    }


class OtherSettingsError(Exception):
    """Results were measured with other settings, or elsewhere, and can't be compared."""


def merged(before: Content, now: Content) -> dict[str, Any]:
    """Return this run's results with those of an earlier one that it has not measured anew.

    Raises:
        OtherSettingsError: The earlier one had other settings, another machine or other versions.
    """
    if differences := list(_differences(before, now)):
        raise OtherSettingsError(
            f"it was measured otherwise: {'; '.join(differences)}. Name another file, "
            "or measure all of it again"
        )
    new = {(row["program"], row["records"]) for row in now["rows"]}
    kept = [row for row in before["rows"] if (row["program"], row["records"]) not in new]
    rows = sorted([*kept, *now["rows"]], key=lambda row: row["records"])
    return {**before, **now, "rows": rows}


def _differences(before: Content, now: Content) -> Iterator[str]:
    """Tell what makes two results incomparable; the day is not."""
    for part in ("settings", "machine"):
        old, new = before.get(part, {}), now.get(part, {})
        for name in sorted((old.keys() | new.keys()) - {"date"}):
            if old.get(name) != new.get(name):
                yield f"{name} {old.get(name)}, not {new.get(name)}"


def lines_of(rows: Sequence[Row]) -> list[Row]:
    """Return the rows, behind each that was published the same with its publishing."""
    return [
        line
        for row in rows
        for line in ([row] if row["publishing_s"] is None else [row, with_publishing(row)])
    ]


def with_publishing(row: Row) -> Row:
    """Return what a backfill took until its results were published: medians over its runs."""
    seconds = [run["seconds"] + run["publishing_s"] for run in row["runs"]]
    return {
        **_row(row["program"], f"{row['title']} and publishing", row["records"], seconds),
        "processing_per_s": None,
        "cpu_s_per_million": None,
        "peak_bytes": {},
    }


def cells(row: Row, rows: Sequence[Row]) -> list[str]:
    """Return a line of the table; ratios are to the programs of the same size."""
    once_started, cpu_s = row["processing_per_s"], row["cpu_s_per_million"]
    peak_bytes = row["peak_bytes"].get(ALL)
    return [
        row["title"],
        f"{row['records']:,}",
        f"{row['seconds']:.1f}",
        f"{row['seconds_min']:.1f}..{row['seconds_max']:.1f}",
        f"{row['records_per_s']:,.0f}",
        "" if once_started is None else f"{once_started:,.0f}",
        "" if cpu_s is None else f"{cpu_s:.1f}",
        "" if peak_bytes is None else f"{peak_bytes / 2**20:.0f}",
        *(_ratio(row, rows, peer) for peer in ("live", "kafka-streams", "spark-sql")),
    ]


def _ratio(row: Row, rows: Sequence[Row], peer: str) -> str:
    """Return how many times as fast as a peer it was, from start to end."""
    same = [
        found for found in rows if found["program"] == peer and found["records"] == row["records"]
    ]
    if row["program"] == peer or not same:
        return ""
    return f"{row['records_per_s'] / same[0]['records_per_s']:.2f}"


def growth_cells(rows: Sequence[Row]) -> list[list[str]]:
    """Return a line for each program and two sizes that follow each other."""
    by_title: dict[str, list[Row]] = {}
    for row in sorted(lines_of(rows), key=lambda row: row["records"]):
        by_title.setdefault(row["title"], []).append(row)
    return [_growth(fewer, more) for own in by_title.values() for fewer, more in pairwise(own)]


def _growth(fewer: Row, more: Row) -> list[str]:
    a_record_s = (more["seconds"] - fewer["seconds"]) / (more["records"] - fewer["records"])
    return [
        more["title"],
        f"{fewer['records']:,}",
        f"{more['records']:,}",
        f"{a_record_s * 1e6:.2f}",
        f"{fewer['seconds'] - fewer['records'] * a_record_s:.1f}",
    ]


def memory_cells(row: Row) -> list[str]:
    """Return a line of the memory table (MiB)."""
    peaks = row["peak_bytes"]
    published = row["publishing_s"]
    return [
        row["title"],
        f"{row['records']:,}",
        *(f"{peaks[name] / 2**20:.0f}" if name in peaks else "" for name in MEMORY_COLUMNS[2:7]),
        "" if published is None else f"{published:.1f}",
    ]


def profile_cells(profile: Content) -> list[list[str]]:
    """Return the lines of the profile."""
    total_us = sum(line["cpu_us"] for line in profile["lines"])
    lines = [
        [
            line["where"],
            f"{line['cpu_us']:.2f}",
            f"{line['cpu_us'] / total_us:.0%}",
            "" if line["wall_s"] is None else f"{line['wall_s']:.1f}",
        ]
        for line in profile["lines"]
    ]
    return [*lines, ["all", f"{total_us:.2f}", "", f"{profile['seconds']:.1f}"]]


def terminal_tables(content: Content) -> list[Table]:
    """Return the results for a terminal."""
    rows = content["rows"]
    tables = [
        _terminal_table(
            "From earliest, start included",
            COLUMNS,
            [cells(line, rows) for line in lines_of(rows)],
        ),
        _terminal_table("Peak memory (MiB)", MEMORY_COLUMNS, [memory_cells(row) for row in rows]),
    ]
    if growth := growth_cells(rows):
        tables.insert(1, _terminal_table("From size to size", GROWTH_COLUMNS, growth))
    if "profile" in content:
        records = f"{content['profile']['records']:,} records"
        lines = profile_cells(content["profile"])
        tables.append(_terminal_table(f"Backfill of {records}", PROFILE_COLUMNS, lines))
    return tables


def _terminal_table(title: str, columns: Sequence[str], lines: Sequence[Sequence[str]]) -> Table:
    table = Table(columns[0], title=title, title_justify="left")
    for column in columns[1:]:
        table.add_column(column, justify="right")
    for line in lines:
        table.add_row(*line)
    return table


def backfill_tables(content: Content) -> dict[str, str]:
    """Return the tables for the page."""
    rows, given = content["rows"], content["settings"]
    cache = f"{given['cache_bytes'] / 2**20:.0f} MiB record cache"
    said = (
        f"{given['partitions']} partitions, {given['keys']:,} keys, {given['value_bytes']}-byte "
        f"values, {cache if given['cache_bytes'] else 'no record cache'}, {given['cores']} cores "
        f"for each program; live at-least-once with a commit every {given['commit_ms']} ms; "
        f"{'1 run' if given['runs'] == 1 else 'median of {runs} runs'.format(**given)}; "
        f"pyspark {given['pyspark']}."
    )
    table = markdown_table(COLUMNS, [cells(line, rows) for line in lines_of(rows)])
    blocks = {
        "backfill": f"{table}\n\n{said}",
        "backfill-memory": markdown_table(MEMORY_COLUMNS, [memory_cells(row) for row in rows]),
    }
    if growth := growth_cells(rows):
        blocks["backfill-growth"] = markdown_table(GROWTH_COLUMNS, growth)
    if "profile" in content:
        table = markdown_table(PROFILE_COLUMNS, profile_cells(content["profile"]))
        blocks["backfill-stages"] = f"{table}\n\n{content['profile']['records']:,} records."
    return blocks


TABLES = {"backfill": backfill_tables}
"""What this benchmark has to say; as in `store_results`."""
