"""Tables of the benchmarks about stores: operations, restores, memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from benchmarks.harness.results import markdown_table

Content = Mapping[str, Any]

JOBS = ("put", "get", "read-modify-write", "range")
_RESTORE_COLUMNS = (
    "changelog records",
    "keys",
    "restored from nothing (s)",
    "records/s",
    "first commit after SIGKILL (s)",
    "records restored then",
)
_MEMORY_COLUMNS = (
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
        [kind, program, *(f"{rates[kind, program, job] / 1000:,.1f}" for job in JOBS)]
        for kind, program in dict.fromkeys((kind, program) for kind, program, _ in rates)
    ]
    given = content["settings"]
    said = (
        f"{given['operations']:,} operations of each job ({given['operations'] // 100:,} ranges) "
        f"over {given['keys']:,} keys, {given['value_bytes']}-byte values, a commit every 10,000; "
        f"median of {given['runs']} runs."
    )
    blocks = {
        "stores": f"{markdown_table(('kind', 'program', *(f'{job} (k/s)' for job in JOBS)), lines)}"
        f"\n\n{said}"
    }
    if content["restore"]:
        rows = [[name, f"{rate:,.0f}"] for name, rate in content["restore"].items()]
        table = markdown_table(("store", "records/s"), rows)
        blocks["store-restore"] = f"{table}\n\n{given['restored']:,} changelog records."
    return blocks


def restore_tables(content: Content) -> dict[str, str]:
    """Return a line a changelog's size."""
    lines = [
        [
            f"{row['changelog_records']:,}",
            f"{row['keys']:,}",
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
    lines = [[str(value) for value in row.values()] for row in content["rows"]]
    said = (
        f"{given['stores']} stores of {given['entries']:,} entries with "
        f"{given['value_bytes']}-byte values; MiB."
    )
    return {"memory": f"{markdown_table(_MEMORY_COLUMNS, lines)}\n\n{said}"}


TABLES: dict[str, Callable[[Content], dict[str, str]]] = {
    "stores": store_tables,
    "restore": restore_tables,
    "memory": memory_tables,
}
"""What each of these benchmarks has to say: text by the name of its place in the page."""
