"""What was measured of interruptions: kept from run to run, and as a table.

A row has its samples by what became of the tasks (`Fate`), and all of them together. Of those that
moved there is no figure of both kinds: of one program more tasks may pass between living processes
than of another, and these wait for nothing but the new shares.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.harness import results
from benchmarks.harness.interruptions import Fate, Findings

COLUMNS = (
    "what happens",
    "standbys",
    "keys",
    "program",
    "stay",
    "of the process that ended",
    "between living processes",
    "all tasks",
    "calm after",
    "partitions: stay, ended, between",
    "runs",
)

Row = Mapping[str, Any]

KEYS_OF_PARTITION = 20
"""How many there are in stores that nothing was loaded into."""

_NAME = ("interruption", "standbys", "keys", "program", "silence_ms")
_SILENCES = tuple(f"{fate.value}_s" for fate in Fate)
_CALM = "calm_after_s"
_SAMPLES = (*_SILENCES, _CALM, "loads")
"""One of each partition, by its fate; one of each time that something happened, None for never;
and one of each run: the machine's load at its end."""


class Measured:
    """The rows so far, in a file that is written anew with each run.

    Args:
        file: Where they are kept; None for nowhere. What it has counts.
        settings: What was measured, for the reader.

    Attributes:
        rows: All rows, in the order of their first runs.
    """

    def __init__(self, file: Path | None, settings: Mapping[str, Any]) -> None:
        self.rows: list[dict[str, Any]] = []
        self._file, self._settings = file, settings
        if file is not None and file.exists():
            self.rows = _rows_of(json.loads(file.read_text("utf-8")))

    def runs(self, row: Row) -> int:
        """Return how many runs of a row there are."""
        return next((known["runs"] for known in self.rows if _name_of(known) == _name_of(row)), 0)

    def add(self, row: Row) -> None:
        """Add the samples of one run to those of its row."""
        known = next((known for known in self.rows if _name_of(known) == _name_of(row)), None)
        if known is None:
            known = {name: row[name] for name in _NAME} | {name: [] for name in _SAMPLES}
            known["runs"] = 0
            self.rows.append(known)
        known["runs"] += 1
        for name in _SAMPLES:
            known[name] = known[name] + row[name]
        if self._file is not None:
            content = {"benchmark": "downtime", "machine": results.machine()}
            results.write_json(
                self._file, content | {"settings": self._settings, "rows": self.rows}
            )


def samples_of(found: Findings) -> dict[str, list[float | None]]:
    """Return what one run found, the silences by what became of the tasks."""
    samples: dict[str, list[float | None]] = {name: [] for name in _SILENCES}
    for silence in found.silences:
        samples[f"{silence.fate.value}_s"].append(silence.seconds)
    return samples | {_CALM: found.calm_after_s}


def percentile_s(seconds: Sequence[float], of: int) -> float | None:
    """Return the silence that so many of a hundred do not exceed (s); None of none."""
    ordered = sorted(seconds)
    return ordered[max(-(-len(ordered) * of // 100) - 1, 0)] if ordered else None


def line(row: Row) -> list[str]:
    """Return one line of the table."""
    stay, ended, passed = (row[name] for name in _SILENCES)
    figures = [_figures(seconds) for seconds in (stay, ended, passed, stay + ended + passed)]
    samples = ", ".join(str(len(row[name])) for name in _SILENCES)
    name = [row["interruption"], str(row["standbys"]), f"{row['keys']:,}", row["program"]]
    return [*name, *figures, _calm_after(row[_CALM]), samples, str(row["runs"])]


def tables(content: Mapping[str, Any]) -> dict[str, str]:
    """Return the text of the page's place: a table for each time that a process may be silent."""
    parts = []
    all_rows = _rows_of(content)
    for silence_ms in sorted({row["silence_ms"] for row in all_rows}):
        rows = [row for row in all_rows if row["silence_ms"] == silence_ms]
        parts += [f"{title_of(silence_ms)}:", results.markdown_table(COLUMNS, [*map(line, rows)])]
    settings = content["settings"]
    loads = [load for row in all_rows for load in row["loads"]]
    parts.append(
        f"{settings['partitions']} partitions, {settings['rate']} records a second each, "
        "exactly_once_v2, `commit.interval.ms` 100; p50 and p99 of the seconds beyond the usual "
        "time between outputs. *Calm after*: p50 of the seconds until each partition had output "
        "and each process its part of them, for good; *never*: how often one was left with fewer. "
        f"The load was {min(loads):g} to {max(loads):g}."
    )
    return {"downtime": "\n\n".join(parts)}


def title_of(silence_ms: int) -> str:
    """Return what a table is called whose processes may be silent for so long."""
    if not silence_ms:
        return "Defaults: a process that is silent for 42 s stays in its group"
    return f"A process that is silent for {silence_ms / 1000:g} s stays in its group"


def _figures(seconds: Sequence[float]) -> str:
    """Return the median and the 99th percentile."""
    figures = [percentile_s(seconds, of) for of in (50, 99)]
    return ", ".join(f"{figure:.2f}" for figure in figures if figure is not None)


def _calm_after(seconds: Sequence[float | None]) -> str:
    """Return the median of how long it was until all was calm, and how often it never was."""
    known_s = [after for after in seconds if after is not None]
    figures = [f"{percentile_s(known_s, 50):.1f}"] if known_s else []
    if len(known_s) < len(seconds):
        figures.append(f"never: {len(seconds) - len(known_s)}")
    return ", ".join(figures)


def _rows_of(content: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return a file's rows; those of before keys were counted have the stores of those days."""
    keys = KEYS_OF_PARTITION * content["settings"]["partitions"]
    return [{"keys": keys, _CALM: []} | row for row in content["rows"]]


def _name_of(row: Row) -> tuple[object, ...]:
    return tuple(row[name] for name in _NAME)


TABLES = {"downtime": tables}
