"""Tables of the benchmarks about stores: operations, restores, memory."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from benchmarks.harness.results import markdown_table

Content = Mapping[str, Any]

JOBS = ("put", "get", "read-modify-write", "range", "puts-and-range")
ALL_JOBS = "all jobs"
RATIO_COLUMNS = ("kind", *JOBS, ALL_JOBS)
_RESTORE_COLUMNS = (
    "changelog records",
    "keys",
    "records restored",
    "restored from nothing (s)",
    "records/s",
    "first commit after SIGKILL (s)",
    "records restored then",
)
MEMORY_COLUMNS = (
    "moment",
    "s",
    "resident",
    "limit",
    "block cache",
    "of",
    "memtables",
    "of",
)


def store_tables(content: Content) -> dict[str, str]:
    """Return thousands of operations a second, a line a kind and program."""
    rates = {(row["kind"], row["program"], row["job"]): row["per_s"] for row in content["rows"]}
    lines = [
        [kind, program, *(thousands(rates.get((kind, program, job))) for job in JOBS)]
        for kind, program in dict.fromkeys((kind, program) for kind, program, _ in rates)
    ]
    given = content["settings"]
    said = (
        f"{given['operations']:,} operations of each job ({given['operations'] // 100:,} ranges; "
        f"then {given['operations'] // 20:,} times ten puts and a range) over {given['keys']:,} "
        f"keys, {given['value_bytes']}-byte values, a commit every 10,000; median of "
        f"{given['runs']} runs."
    )
    blocks = {
        "stores": f"{markdown_table(('kind', 'program', *(f'{job} (k/s)' for job in JOBS)), lines)}"
        f"\n\n{said}"
    }
    if content["ratios"]:
        pairs = (
            f"Median and quartiles of {given['pairs']} pairs, a few operations of the one and then "
            "of the other."
        )
        table = markdown_table(RATIO_COLUMNS, ratio_rows(content["ratios"]))
        blocks["store-ratios"] = f"{table}\n\n{pairs}"
    if content["restore"]:
        rows = [[name, f"{rate:,.0f}"] for name, rate in content["restore"].items()]
        table = markdown_table(("store", "records/s"), rows)
        said = f"{given['restored']:,} changelog records, each of a key of its own, in no order."
        blocks["store-restore"] = f"{table}\n\n{said}"
    return blocks


def thousands(per_s: float | None) -> str:
    """Return a rate as it stands in a table; nothing for a job that a store can't do."""
    return "" if per_s is None else f"{per_s / 1000:,.1f}"


def ratio_rows(ratios: Mapping[str, Mapping[str, Sequence[float]]]) -> list[list[str]]:
    """Return median and quartiles of the ratios of each job, a line a kind."""
    return [
        [kind, *(_spread(of.get(job, ())) for job in (*JOBS, ALL_JOBS))]
        for kind, of in ratios.items()
    ]


def _spread(ratios: Sequence[float]) -> str:
    if not ratios:
        return ""
    if len(ratios) == 1:
        return f"{ratios[0]:.2f}"
    low, middle, high = statistics.quantiles(ratios, n=4, method="inclusive")
    return f"{middle:.2f} ({low:.2f}..{high:.2f})"


def restore_tables(content: Content) -> dict[str, str]:
    """Return a line a changelog's size."""
    lines = [
        [
            f"{row['changelog_records']:,}",
            f"{row['keys']:,}",
            f"{row['restored']:,}",
            f"{row['full_s']:.2f}",
            f"{row['restored_per_s']:,.0f}",
            f"{row['after_kill_s']:.2f}",
            f"{row['restored_after_kill']:,}",
        ]
        for row in content["rows"]
    ]
    return {"restore": markdown_table(_RESTORE_COLUMNS, lines)}


def memory_tables(content: Content) -> dict[str, str]:
    """Return a line a moment."""
    given = content["settings"]
    lines = [memory_cells(row) for row in content["rows"]]
    said = (
        f"{given['stores']} stores of {given['entries']:,} entries with "
        f"{given['value_bytes']}-byte values; MiB."
    )
    return {"memory": f"{markdown_table(MEMORY_COLUMNS, lines)}\n\n{said}"}


def memory_cells(row: Mapping[str, Any]) -> list[str]:
    """Return a line of the memory table; nothing where a moment has no value."""
    return ["" if value is None else str(value) for value in row.values()]


TABLES: dict[str, Callable[[Content], dict[str, str]]] = {
    "stores": store_tables,
    "restore": restore_tables,
    "memory": memory_tables,
}
"""What each of these benchmarks has to say: text by the name of its place in the page."""
