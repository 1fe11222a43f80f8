"""What `pystreams backfill` shows before and after: the plan, and what was done."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.console import Console
from rich.table import Table

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pystreams.backfill import Published
    from pystreams.backfill.describing import PlannedStage
    from pystreams.backfill.staging import Manifest

_NUMBERS = {"tasks", "records", "seconds", "records/s", "records of history"}


def show_plan(stages: Sequence[PlannedStage], application_id: str) -> None:
    """Print the stages that would run."""
    table = _table("stage", "sub-topology", "reads", "gives", "tasks", "records of history")
    for number, stage in enumerate(stages, 1):
        topics = [
            f"{topic} (from an earlier stage)" if topic in stage.fed_topics else topic
            for topic in stage.topics
        ]
        gives = stage.only_topic or "outputs and state"
        table.add_row(
            str(number),
            str(stage.subtopology),
            "\n".join(topics),
            gives,
            str(stage.num_tasks),
            f"{stage.records:,}",
        )
    num_stages = f"{len(stages)} stage{'s' if len(stages) != 1 else ''}"
    click.echo(f"Backfill of {application_id}: {num_stages}; nothing was run")
    _console().print(table)


def show_summary(manifest: Manifest) -> None:
    """Print what the stages read and wrote."""
    table = _table("stage", "read", "tasks", "records", "outputs", "state", "seconds", "records/s")
    for stage in manifest.stages:
        table.add_row(
            str(stage.position + 1),
            "\n".join(stage.topics),
            str(stage.num_tasks),
            f"{stage.records:,}",
            _counted(stage.outputs),
            _counted(stage.state),
            f"{stage.seconds:,.1f}",
            f"{stage.records / stage.seconds:,.0f}" if stage.seconds else "-",
        )
    _console().print(table)


def show_published(done: Published) -> None:
    """Print what was published, and what of the state was built on this host."""
    if done.was_done:
        click.echo("Published before")
        return
    again = "; went on where an earlier run had stopped" if done.resumed else ""
    click.echo(f"Published {done.records:,} records in {done.transactions:,} transactions{again}")
    seeded = done.seeded
    if seeded is not None:
        left = f"; {seeded.left_stores} left to a restore" if seeded.left_stores else ""
        size = f"{seeded.size_bytes / 1e6:,.1f} MB"
        click.echo(f"Seeded {seeded.stores} stores, {size}, in {seeded.directory}{left}")


def show_place(path: Path, *, is_kept: bool) -> None:
    """Print where the results are."""
    removed = " (removed: they are published; --output keeps them)"
    click.echo(f"Results: {path}{'' if is_kept else removed}")


def show_next(application_id: str) -> None:
    """Print what comes next."""
    click.echo(f"Start the application now: pystreams run, with application.id={application_id}")


def _table(*columns: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        right = column in _NUMBERS
        table.add_column(column, justify="right" if right else "left")
    return table


def _console() -> Console:
    # Elsewhere than on a terminal there is no width to fit into.
    return Console(soft_wrap=False, width=None if sys.stdout.isatty() else 200)


def _counted(found: Mapping[str, int]) -> str:
    return "\n".join(f"{name} {count:,}" for name, count in found.items()) or "-"
