"""What `pystreams backfill` shows before and after: the plan, and what was done."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import click

from pystreams.cli.display.tables import Cell, show_table
from pystreams.cli.display.times import told_time
from pystreams.kernel.clock import Clock

if TYPE_CHECKING:
    from pystreams.backfill import Published
    from pystreams.backfill.execution.planned_stages import PlannedStage
    from pystreams.backfill.exports.dataset import Dataset
    from pystreams.backfill.sources.size_estimates import EstimatedSizes
    from pystreams.backfill.staging.directory import Manifest
    from pystreams.topology.plan.topology_plan import TopologyPlan

_PLANNED = ("stage", "sub-topology", "reads", "gives", "tasks", "records of history", "bytes")
_DONE = ("stage", "read", "tasks", "records", "dropped", "outputs", "state", "seconds", "records/s")
_NUMBERS = (
    "tasks",
    "records",
    "dropped",
    "seconds",
    "records/s",
    "records of history",
    "bytes",
)


def show_plan(
    stages: Sequence[PlannedStage], application_id: str, estimate: EstimatedSizes | None = None
) -> None:
    """Print the stages that would run, and how their sizes were estimated if they were."""
    rows: list[list[Cell]] = []
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
                topics,
                gives,
                str(stage.num_tasks),
                f"{stage.records:,}",
                _size(stage),
            ]
        )
    click.echo(f"Backfill of {application_id}: {_many(len(stages), 'stage')}; nothing was run")
    show_table(_PLANNED, rows, right=_NUMBERS)
    if estimate is not None and estimate.sampled_records:
        sampled = _many(estimate.sampled_records, "record")
        click.echo(f"bytes ~: estimated from {sampled}; keys, values and headers, uncompressed")
    if any(stage.size_bytes is None for stage in stages):
        click.echo(f"bytes ?: {estimate.trouble if estimate else 'known of files only'}")


def show_age(plan: TopologyPlan, newest_ms: Callable[[], int | None], clock: Clock) -> None:
    """Print which limits publishing moves, so that brokers keep what is as old as the history.

    Args:
        newest_ms: Finds out where the history ends, about (ms); None if nothing tells. Called where
            a store has such a limit.
        clock: Tells what brokers count from.
    """
    # Imported here: the commands that show nothing of this need nothing of it.
    from pystreams.backfill.publishing.topic_retention import moved_limits

    now_ms = clock.now_ms()
    newest = newest_ms() if moved_limits(plan, 0, now_ms) else None
    limits = [] if newest is None else moved_limits(plan, newest, now_ms)
    if newest is None or not limits:
        return
    shown = told_time(newest)
    days = f"{(now_ms - newest) / 86_400_000:,.1f} days"
    click.echo(
        f"The history goes up to about {shown}, {days} ago, and brokers count from now what they "
        f"keep. Published records would be past it: publishing adds that to {', '.join(limits)}"
    )


def show_summary(manifest: Manifest) -> None:
    """Print what the stages read and wrote."""
    rows = [
        [
            str(stage.position + 1),
            list(stage.topics),
            str(stage.num_tasks),
            f"{stage.records:,}",
            f"{stage.dropped:,}",
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


def show_dataset(done: Dataset) -> None:
    """Print what the data set holds."""
    topics, rows = len(done.outputs), sum(done.outputs.values())
    stores, state = len(done.stores), sum(done.stores.values())
    click.echo(
        f"Data set: {done.path}, {rows:,} output records of {_many(topics, 'topic')}, "
        f"{state:,} rows of {_many(stores, 'store')}"
    )


def _size(stage: PlannedStage) -> str:
    if stage.size_bytes is None:
        return "?"
    return f"{'~' if stage.is_estimate else ''}{stage.size_bytes:,}"


def _many(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"


def _counted(found: Mapping[str, int]) -> Cell:
    return [f"{name} {count:,}" for name, count in found.items()] or "-"
