"""The tables of windows: aggregations beside the others, what a record costs, held-back windows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.harness import results
from benchmarks.harness.programs import ENGINES
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


TABLES = {"windows": tables}
