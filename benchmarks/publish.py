"""Write measured numbers into docs/performance.md, from the JSON files of the benchmarks.

    python benchmarks/publish.py build/benchmarks/*.json

Each table of the page stands between two marks, `<!-- begin NAME -->` and `<!-- end NAME -->`, and
says when and on what it was measured. Tables whose numbers are not given stay as they are.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from benchmarks.harness import (
    backfill_results,
    downtime_results,
    join_results,
    query_results,
    results,
    stages,
    store_results,
    window_results,
)

PAGE = Path(__file__).resolve().parents[1] / "docs" / "performance.md"


@click.command(help=__doc__.split("\n\n", maxsplit=1)[0])
@click.argument("files", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path))
@click.option("--note", default="", help="What else to say under each table.")
@click.option("--page", default=PAGE, type=click.Path(exists=True, path_type=Path))
def main(files: tuple[Path, ...], note: str, page: Path) -> None:
    """Bring the page up to date."""
    text = page.read_text("utf-8")
    for file in files:
        for name, block in blocks_of(json.loads(file.read_text("utf-8"))).items():
            text = replaced(text, name, f"{block} {note}".rstrip())
            click.echo(f"{page.name}: {name} from {file.name}")
    page.write_text(text, "utf-8")


def blocks_of(content: Mapping[str, Any]) -> dict[str, str]:
    """Return what one result file has to say: text by the name of its place in the page."""
    all_tables = (
        store_results.TABLES
        | backfill_results.TABLES
        | join_results.TABLES
        | window_results.TABLES
        | query_results.TABLES
        | downtime_results.TABLES
    )
    tables_of = all_tables.get(content["benchmark"])
    if tables_of is not None:
        origin = f"Measured {_machine_of(content)}."
        return {name: f"{table}\n\n{origin}" for name, table in tables_of(content).items()}
    origin = _origin(content)
    if content["benchmark"] == "restart":
        lines = [results.restart_cells(row) for row in content["rows"]]
        return {"restart": f"{results.markdown_table(results.RESTART_COLUMNS, lines)}\n\n{origin}"}
    rows = content["rows"]
    tables = [
        f"{scenario.capitalize()}:\n\n"
        + results.markdown_table(results.COLUMNS, [results.cells(row, group) for row in group])
        for scenario, group in results.by_scenario(rows).items()
    ]
    blocks = {_place(rows[0]): "\n\n".join([*tables, origin])}
    profiles = [
        f"{stages.title_of(profiled)}:\n\n"
        + results.markdown_table(stages.COLUMNS, stages.stage_cells(profiled))
        for profiled in content.get("stages", [])
    ]
    if profiles:
        blocks["stages"] = "\n\n".join([*profiles, origin])
    return blocks


def replaced(text: str, name: str, block: str) -> str:
    """Return the page with one place filled.

    Raises:
        click.ClickException: The page has no such place.
    """
    begin, end = f"<!-- begin {name} -->", f"<!-- end {name} -->"
    pattern = re.compile(f"{re.escape(begin)}.*?{re.escape(end)}", re.DOTALL)
    if not pattern.search(text):
        raise click.ClickException(f"the page has no place for {name!r}: add {begin} and {end}")
    return pattern.sub(lambda _: f"{begin}\n{block}\n{end}", text)


def _place(row: results.Row) -> str:
    if row["processes"] > 1:
        return "processes"
    return "operators" if row["operators"] else "count"


def _origin(content: Mapping[str, Any]) -> str:
    given = content["settings"]
    runs = "1 run" if given["runs"] == 1 else f"median of {given['runs']} runs"
    return (
        f"Measured {_machine_of(content)}; {runs}: {given['records']:,} records, "
        f"{given['keys']:,} keys, {given['value_bytes']}-byte values, "
        f"commit every {given['commit_ms']} ms."
    )


def _machine_of(content: Mapping[str, Any]) -> str:
    machine = content["machine"]
    versions = ", ".join(
        f"{name} {machine[name]}"
        for name in ("python", "kafka broker", "confluent-kafka", "rocksdict")
    )
    return (
        f"{machine['date']} on {machine['cores']} cores, {machine['memory']}, "
        f"{machine['system']}; {versions}"
    )


if __name__ == "__main__":
    main()
