"""What `pystreams backfill` shows: the plan, each stage, publishing, and what was done."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Self

import click
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pystreams.backfill import Published
    from pystreams.backfill.describing import PlannedStage
    from pystreams.backfill.execution import StageProgress
    from pystreams.backfill.publication import TaskResults
    from pystreams.backfill.staging import Manifest


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


def show_progress(progress: StageProgress) -> None:
    """Print that a stage begins, or how it went."""
    name = f"Stage {progress.position + 1} of {progress.num_stages}"
    if progress.was_staged:
        click.echo(f"{name}: staged before", err=True)
    elif progress.seconds is None:
        topics = ", ".join(progress.topics)
        click.echo(f"{name}: {progress.records:,} records of {topics}", err=True)
    else:
        rate = progress.records_per_second
        speed = f", {rate:,.0f} records/s" if rate else ""
        click.echo(f"{name}: done in {progress.seconds:.1f} s{speed}", err=True)


def show_summary(manifest: Manifest) -> None:
    """Print what the stages read and wrote."""
    table = _table("stage", "read", "tasks", "records", "seconds", "outputs", "state")
    for stage in manifest.stages:
        table.add_row(
            str(stage.position + 1),
            "\n".join(stage.topics),
            str(stage.num_tasks),
            f"{stage.records:,}",
            f"{stage.seconds:.1f}",
            _counted(stage.outputs),
            _counted(stage.state),
        )
    _console().print(table)


def show_published(done: Published, application_id: str) -> None:
    """Print what was published, and what comes next."""
    if done.was_done:
        click.echo(f"Published before: {application_id} can be started")
        return
    again = "; went on where an earlier run had stopped" if done.resumed else ""
    click.echo(
        f"Published {done.records:,} records in {done.transactions:,} transactions{again}.\n"
        f"{_seeded(done)}"
        f"Start the application now: pystreams run, with application.id={application_id}"
    )


def _seeded(done: Published) -> str:
    """Return the line on what was built in the state directory; nothing if it was not asked for."""
    seeded = done.seeded
    if seeded is None:
        return ""
    left = f"; {seeded.left_stores} left to a restore" if seeded.left_stores else ""
    return (
        f"Seeded {seeded.stores} stores, {seeded.size_bytes / 1e6:,.1f} MB, "
        f"in {seeded.directory}{left}.\n"
    )


class PublishingDisplay:
    """Shows how many records are published: live on a terminal, nothing elsewhere."""

    def __init__(self) -> None:
        self._progress = Progress(
            SpinnerColumn(),
            TextColumn("Publishing task {task.fields[of]}: {task.completed:,.0f} records"),
            TimeElapsedColumn(),
            console=Console(stderr=True),
            disable=not sys.stderr.isatty(),
            transient=True,
        )
        self._task = self._progress.add_task("publishing", total=None, of="")

    def told(self, task: TaskResults, records: int) -> None:
        """Take note of a transaction."""
        self._progress.update(self._task, advance=records, of=str(task.task_id))

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()


def _table(*columns: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        right = column in {"tasks", "records", "seconds", "records of history"}
        table.add_column(column, justify="right" if right else "left")
    return table


def _console() -> Console:
    # Elsewhere than on a terminal there is no width to fit into.
    return Console(soft_wrap=False, width=None if sys.stdout.isatty() else 200)


def _counted(found: Mapping[str, int]) -> str:
    return "\n".join(f"{name} {count:,}" for name, count in found.items()) or "-"
