"""The table of questions over HTTP."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.harness import results

COLUMNS = ("", "count left alone", "another asked", "count asked", "count asked at rest")

_ASKED = {
    "owner": "to the one that has the key",
    "any": "to any of them",
    "client": "with a `Client` of the first one",
}

Row = Mapping[str, Any]


def lines(rows: Sequence[Row]) -> list[list[str]]:
    """Return the lines of the table."""
    (row,) = rows
    answered = [
        [f"answered in, p{of} (ms)", "", "", _text(row[f"p{of}_ms"]), _text(row[f"quiet_p{of}_ms"])]
        for of in (50, 99)
    ]
    sorts = ("alone", "elsewhere", "asked")
    stream = [_text(row[f"{sort}_us_per_record"]) for sort in sorts]
    server = [_text(row[f"{when}_us_per_question"], 0) for when in ("server", "quiet")]
    asker = [
        _text(row[f"{when}_asker_us_per_question"], 0) for when in ("elsewhere", "asked", "quiet")
    ]
    alone, elsewhere, asked = (_text(row[f"{sort}_records_per_s"], 0) for sort in sorts)
    beside = f"{elsewhere} ({_text(row['kept_beside_asker'], 2)} of it)"
    return [
        ["records/s", alone, beside, f"{asked} ({_text(row['kept'], 2)} of that)", ""],
        ["CPU of the stream thread, us a record", *stream, ""],
        ["CPU of the server, us a question", "", "", *server],
        ["CPU of who asks, us a question", "", *asker],
        *answered,
    ]


def tables(content: Mapping[str, Any]) -> dict[str, str]:
    """Return the text of the page's place."""
    settings, (row,) = content["settings"], content["rows"]
    place, asked = "queries", ""
    if settings["processes"] > 1:
        place = f"queries-{settings['to']}"
        asked = (
            f"{settings['processes']} processes, {settings['partitions']} partitions, each "
            f"question {_ASKED[settings['to']]}: "
        )
    about = (
        f"{asked}{settings['rate']:,} questions a second over {settings['connections']} "
        f"connections, {settings['keys']:,} keys, {settings['guarantee']}; medians of "
        f"{row['turns']} turns of {settings['turn_s']:g} s of each sort; in brackets the median of "
        "each turn's rate and that of the turn before it. *Another asked*: a program beside the "
        "count that answers the same from memory, so that who asks has the same work, on the same "
        "processors."
    )
    about = about[0].upper() + about[1:]
    return {place: f"{results.markdown_table(COLUMNS, lines(content['rows']))}\n\n{about}"}


TABLES = {"queries": tables}


def percentile_ms(latencies_s: Sequence[float], of: int) -> float:
    """Return the latency that so many of a hundred do not exceed (ms)."""
    ordered = sorted(latencies_s)
    return ordered[max(math.ceil(len(ordered) * of / 100) - 1, 0)] * 1000


def _text(figure: float | None, decimals: int = 1) -> str:
    return "unknown" if figure is None else f"{figure:,.{decimals}f}"
