"""The table of joins: each kind beside the join without what makes it wait, and Kafka Streams."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.harness import results
from benchmarks.harness.join_kinds import TITLES
from benchmarks.harness.programs import KAFKA_STREAMS_VERSION

COLUMNS = ("join", "how", "records/s", "min..max", "of it without grace", "of Kafka Streams")
_HOW = {
    "at_least_once": "at-least-once",
    "exactly_once": "exactly-once",
    "backfill": "backfill",
}
_PROGRAMS = {"kafka-streams": f"Kafka Streams {KAFKA_STREAMS_VERSION}, "}

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class JoinRow:
    """The figures of one case.

    Attributes:
        kind: Of the join.
        program: What ran.
        how: The guarantee, or `backfill`.
        records_per_s: Records of the stream a second; the median.
        runs: Those of each run.
    """

    kind: str
    program: str
    how: str
    records_per_s: float
    runs: list[float]


def lines(rows: Sequence[Row]) -> list[list[str]]:
    """Return the lines of the table."""
    rates = {(row["kind"], row["program"], row["how"]): row["records_per_s"] for row in rows}
    return [_line(row, rates) for row in rows]


def tables(content: Mapping[str, Any]) -> dict[str, str]:
    """Return the text of the page's place."""
    settings = content["settings"]
    about = (
        f"{settings['records']:,} records of the stream, {settings['keys']:,} keys, one partition, "
        f"a commit every {settings['commit_ms']} ms, windows of {settings['window_ms']} ms either "
        f"way, a grace period of {settings['grace_ms']} ms, a record a ms of stream time; median "
        f"of {settings['runs']} run(s)."
    )
    return {"joins": f"{results.markdown_table(COLUMNS, lines(content['rows']))}\n\n{about}"}


TABLES = {"joins": tables}


def _line(row: Row, rates: Mapping[tuple[str, str, str], float]) -> list[str]:
    kind, program, how = row["kind"], row["program"], row["how"]
    rate = row["records_per_s"]
    without = rates.get(("versioned", program, how)) if kind == "grace" else None
    java = rates.get((kind, "kafka-streams", how)) if program == "pystreams" else None
    return [
        TITLES[kind],
        f"{_PROGRAMS.get(program, '')}{_HOW[how]}",
        f"{rate:,.0f}",
        f"{min(row['runs']):,.0f}..{max(row['runs']):,.0f}",
        "" if without is None else f"{rate / without:.2f}",
        "" if java is None else f"{rate / java:.2f}",
    ]
