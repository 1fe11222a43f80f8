"""What `pystreams backfill` shows before and after: the plan, and what was done."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from pystreams.cli.tables import show_table

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pystreams.backfill import Published
    from pystreams.backfill.describing import PlannedStage
    from pystreams.backfill.staging import Manifest

_PLANNED = ("stage", "sub-topology", "reads", "gives", "tasks", "records of history")
_DONE = ("stage", "read", "tasks", "records", "outputs", "state", "seconds", "records/s")
_NUMBERS = ("tasks", "records", "seconds", "records/s", "records of history")


def show_plan(stages: Sequence[PlannedStage], application_id: str) -> None:
    """Print the stages that would run."""
    rows = []
    for number, stage in enumerate(stages, 1):
        topics = [
            f"{topic} (from an earlier stage)" if topic in stage.fed_topics else topic
            for topic in stage.topics
        ]
        gives = stage.only_topic or "outputs and state"
        rows.append(
            [
                str(number),
                str(stage.subtopology),
                "\n".join(topics),
                gives,
                str(stage.num_tasks),
                f"{stage.records:,}",
            ]
        )
    num_stages = f"{len(stages)} stage{'s' if len(stages) != 1 else ''}"
    click.echo(f"Backfill of {application_id}: {num_stages}; nothing was run")
    show_table(_PLANNED, rows, right=_NUMBERS)


def show_summary(manifest: Manifest) -> None:
    """Print what the stages read and wrote."""
    rows = [
        [
            str(stage.position + 1),
            "\n".join(stage.topics),
            str(stage.num_tasks),
            f"{stage.records:,}",
            _counted(stage.outputs),
            _counted(stage.state),
            f"{stage.seconds:,.1f}",
            f"{stage.records / stage.seconds:,.0f}" if stage.seconds else "-",
        ]
        for stage in manifest.stages
    ]
    show_table(_DONE, rows, right=_NUMBERS)


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


def _counted(found: Mapping[str, int]) -> str:
    return "\n".join(f"{name} {count:,}" for name, count in found.items()) or "-"
