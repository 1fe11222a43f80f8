"""The table of models and calls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.harness import results

COLUMNS = ("", "records", "records/s", "CPU us a record", "x the row before")
_BASELINES = 2
"""Every other row is what the next one is compared with."""


def lines(rows: Sequence[results.Row]) -> list[list[str]]:
    """Return the lines of the table."""
    return [
        [
            row["name"],
            f"{row['records']:,}",
            f"{row['records_per_s']:,.0f}",
            f"{row['cpu_us']:.1f}",
            f"{row['records_per_s'] / rows[at - 1]['records_per_s']:.1f}"
            if at % _BASELINES
            else "",
        ]
        for at, row in enumerate(rows)
    ]


def tables(content: Mapping[str, Any]) -> dict[str, str]:
    """Return the text of the page's place."""
    settings = content["settings"]
    about = (
        f"One task, no broker; calls take {settings['call_ms']:g} ms, at most "
        f"{settings['in_flight']:,} under way; CPU of the task's thread."
    )
    return {"models": f"{results.markdown_table(COLUMNS, lines(content['rows']))}\n\n{about}"}


TABLES = {"models": tables}
