"""The tables of windows: aggregations beside the others, what a record costs, held-back windows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.harness import results
from benchmarks.harness.programs import ENGINES
from benchmarks.harness.store_results import MEMORY_COLUMNS, memory_cells
from benchmarks.harness.window_kinds import TITLES

COLUMNS = (
    "windows",
    "results",
    "program",
    "records/s",
    "min..max",
    "CPU s / 1 M",
    "peak MiB",
    "of Kafka Streams",
    "x Quix",
)
_EMITS = {"update": "on update", "close": "on close"}
_GROWING = {"open windows": "windows", "overlap": "overlap", "keys": "keys"}
"""What grows, and the field that says how far."""

Row = Mapping[str, Any]


def lines(rows: Sequence[Row]) -> list[list[str]]:
    """Return the lines of the table of aggregations."""
    rates = {(row["kind"], row["emit"], row["program"]): row["records_per_s"] for row in rows}
    return [_line(row, rates) for row in rows]


def _line(row: Row, rates: Mapping[tuple[str, str, str], float]) -> list[str]:
    kind, emit, program = row["kind"], row["emit"], row["program"]
    rate = row["records_per_s"]
    peers = {
        peer: rates.get((kind, emit, peer)) if program == "pystreams" else None
        for peer in ("kafka-streams", "quix")
    }
    return [
        TITLES[kind],
        _EMITS[emit],
        _title(program, kind),
        f"{rate:,.0f}",
        f"{min(row['runs']):,.0f}..{max(row['runs']):,.0f}",
        f"{row['cpu_s_per_million']:.1f}",
        f"{row['peak_bytes'] / 2**20:.0f}",
        *("" if peer is None else f"{rate / peer:.2f}" for peer in peers.values()),
    ]


def _title(program: str, kind: str) -> str:
    in_order = program == "quix" and kind == "sliding"
    return f"{ENGINES[program].title}{', input in order' * in_order}"


def tables(content: Mapping[str, Any]) -> dict[str, str]:
    """Return the text of the page's place."""
    settings = content["settings"]
    about = (
        f"{settings['records']:,} records (Quix Streams: the first {settings['quix_records']:,}), "
        f"{settings['keys']:,} keys, one partition, exactly-once, a commit every "
        f"{settings['commit_ms']} ms, no record cache; median of {settings['runs']} run(s)."
    )
    return {"windows": f"{results.markdown_table(COLUMNS, lines(content['rows']))}\n\n{about}"}


def cost_tables(content: Mapping[str, Any]) -> dict[str, str]:
    """Return the text of the page's place: a table of each thing that grows."""
    blocks = [
        _growth_table(grows, field, [row for row in content["rows"] if row["grows"] == grows])
        for grows, field in _GROWING.items()
    ]
    said = (
        f"CPU time of the task's thread a record (us), of {content['settings']['records']:,} "
        "records in each case."
    )
    return {"window-costs": "\n\n".join([*filter(None, blocks), said])}


def _growth_table(grows: str, field: str, rows: Sequence[Row]) -> str:
    if not rows:
        return ""
    steps = list(dict.fromkeys(row[field] for row in rows))
    found = {(row["kind"], row["emit"], row[field]): row["cpu_us"] for row in rows}
    lines = []
    for kind, emit in dict.fromkeys((row["kind"], row["emit"]) for row in rows):
        costs = [found[kind, emit, step] for step in steps]
        growth = f"{costs[-1] / costs[0]:.2f}"
        lines.append([kind, _EMITS[emit], *(f"{cost:.1f}" for cost in costs), growth])
    columns = ["windows", "results", *(f"{step:,} {grows}" for step in steps), "last of first"]
    return results.markdown_table(columns, lines)


def suppression_tables(content: Mapping[str, Any]) -> dict[str, str]:
    """Return the text of the page's place: a line a moment."""
    settings = content["settings"]
    said = (
        f"{settings['windows']:,} windows, each with a change held back on disk until it closes; "
        f"{settings['cpu_us_in']:.1f} us of CPU time to count a record and hold its change back, "
        f"{settings['cpu_us_out']:.1f} us to let one go; MiB."
    )
    lines = [memory_cells(row) for row in content["rows"]]
    return {"suppression": f"{results.markdown_table(MEMORY_COLUMNS, lines)}\n\n{said}"}


TABLES = {
    "windows": tables,
    "window-costs": cost_tables,
    "suppression": suppression_tables,
}
"""What each of these benchmarks has to say: text by the name of its place in the page."""
