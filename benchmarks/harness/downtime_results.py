"""The table of interruptions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.harness import results

COLUMNS = (
    "what happens",
    "program",
    "stay p50",
    "stay p99",
    "move p50",
    "move p99",
    "partitions that stay, move",
)

Row = Mapping[str, Any]


def percentile_s(seconds: Sequence[float], of: int) -> float | None:
    """Return the silence that so many of a hundred do not exceed (s); None of none."""
    ordered = sorted(seconds)
    return ordered[max(-(-len(ordered) * of // 100) - 1, 0)] if ordered else None


def lines(rows: Sequence[Row]) -> list[list[str]]:
    """Return the lines of the table."""
    found = []
    for row in rows:
        figures = [
            _text(percentile_s(row[kind], of)) for kind in ("stay_s", "move_s") for of in (50, 99)
        ]
        samples = f"{len(row['stay_s'])}, {len(row['move_s'])}"
        found.append([row["interruption"], row["program"], *figures, samples])
    return found


def tables(content: Mapping[str, Any]) -> dict[str, str]:
    """Return the text of the page's place: a table for each setting of the session."""
    parts = []
    for session_ms in sorted({row["session_ms"] for row in content["rows"]}):
        rows = [row for row in content["rows"] if row["session_ms"] == session_ms]
        parts += [f"{title_of(session_ms)}:", results.markdown_table(COLUMNS, lines(rows))]
    settings = content["settings"]
    parts.append(
        f"{settings['partitions']} partitions, {settings['rate']} records a second each, "
        "exactly_once_v2, `commit.interval.ms` 100; seconds beyond the usual time between outputs."
    )
    return {"downtime": "\n\n".join(parts)}


def title_of(session_ms: int) -> str:
    """Return what a table of this session is called."""
    if not session_ms:
        return "Defaults (a session of 45 s)"
    return (
        f"With a session of {session_ms / 1000:g} s; heartbeats every third of it, of pystreams "
        "every 500 ms, its default"
    )


def _text(figure: float | None) -> str:
    return "" if figure is None else f"{figure:.2f}"


TABLES = {"downtime": tables}
