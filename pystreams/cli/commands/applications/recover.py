"""`pystreams recover`: what becomes of stores that hold more than their changelogs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from pystreams.cli.application.configuration import load_application
from pystreams.cli.display.logs import configure_logging
from pystreams.cli.errors import streams_errors_as_exit_codes
from pystreams.cli.options.groups import (
    ApplicationOptions,
    LogOptions,
    application_options,
    log_options,
    topology_argument,
)
from pystreams.ids import TaskId

if TYPE_CHECKING:
    from pathlib import Path

    from pystreams.runtime.maintenance.changelog_recovery import Recovery, StoreFinding

CHOICES = ("keep", "restore", "empty")


@click.command()
@topology_argument
@click.option(
    "--task", "tasks", multiple=True, metavar="ID", help="Only this task, as 0_3; may be repeated."
)
@click.option(
    "--store", "stores", multiple=True, metavar="NAME", help="Only this store; may be repeated."
)
@click.option(
    "--choose",
    type=click.Choice(CHOICES),
    help="What becomes of the stores named, or else of those that hold more than their changelogs: "
    "keep them and log them anew, wipe them and restore what the changelogs hold, or start empty.",
)
@click.option("--execute", is_flag=True, help="Write the choice down. Without it nothing changes.")
@application_options
@log_options()
def recover(
    *,
    tasks: tuple[str, ...],
    stores: tuple[str, ...],
    choose: str | None,
    execute: bool,
    application: ApplicationOptions,
    log: LogOptions,
) -> None:
    """Show and decide what becomes of stores whose changelogs have lost what they hold.

    An application does not start on a store that is the last copy of what its changelog has lost:
    the topic was deleted, or cut off by retention or by hand. This lists the stores in the state
    directory of this host, and what the broker holds of their changelogs. With --choose and
    --execute the choice is written beside the store, and the next start carries it out.

    A store that can't be used can't be kept, and one of your own without changelog_records() can
    only be restored: what can't be done is refused.

    The application must be stopped on this host.

    \b
    Exit codes:
      0    done
      1    failed: the application runs, a store can't be read, or can't be what was chosen
      2    wrong usage, configuration or topology
      3    no broker answers
      70   a bug in pystreams

    \b
    Examples:
      pystreams recover topology.py --dev
      pystreams recover shop.orders:builder --config production.toml --choose keep --execute
      pystreams recover topology.py --dev --task 0_3 --store counts --choose empty --execute
    """
    configure_logging(log.log_level, log.log_format)
    with streams_errors_as_exit_codes():
        from pystreams.config import ChangelogLossPolicy
        from pystreams.runtime.maintenance.changelog_recovery import Recovery

        loaded, config = load_application(application)
        unknown = sorted(set(stores).difference(loaded.topology.stores))
        if unknown:
            raise click.UsageError(f"there is no store {unknown[0]!r} in the topology")
        recovery = Recovery(loaded.topology, config)
        asked = [_task_id(text) for text in tasks]
        _check_are_here(asked, recovery.task_ids(), config.state_dir)
        for store in stores:
            if store in loaded.topology.global_stores:
                raise click.UsageError(
                    f"--store {store}: it is a global store, filled from its topic at each start; "
                    "there is nothing to recover"
                )
        _check_have_state(stores, asked, recovery, config.state_dir)
        findings = recovery.find(asked, stores)
        _show(findings)
        if choose is None:
            return
        named = bool(stores)
        deciding = [finding for finding in findings if named or finding.last_copy]
        decision = ChangelogLossPolicy(choose)
        recovery.check(deciding, decision)
        if execute:
            recovery.decide(deciding, decision)
    for finding in deciding:
        verb = "The next start does" if execute else "Would do"
        click.echo(f"{verb} {choose!r} with store {finding.store!r} of task {finding.task_id}")
    if not deciding:
        click.echo("No store holds more than its changelog; name one with --store")
    elif not execute:
        click.echo("Nothing was written: add --execute")


def _task_id(text: str) -> TaskId:
    try:
        return TaskId.parse(text)
    except ValueError as error:
        raise click.UsageError(f"--task {text}: write it as 0_3") from error


def _check_are_here(asked: Sequence[TaskId], there: Sequence[TaskId], directory: Path) -> None:
    absent = [task_id for task_id in asked if task_id not in there]
    if absent:
        known = ", ".join(map(str, there)) or "none"
        raise click.UsageError(
            f"--task {absent[0]}: it has no state in {directory} on this host; those that have: "
            f"{known}"
        )


def _check_have_state(
    stores: Sequence[str], asked: Sequence[TaskId], recovery: Recovery, directory: Path
) -> None:
    there = recovery.stores_of(asked or recovery.task_ids())
    for store in stores:
        if not recovery.has_changelog(store):
            raise click.UsageError(
                f"--store {store}: it has no changelog of its own that could have lost anything"
            )
        if store not in there:
            whose = f"of task {', '.join(map(str, asked))} " if asked else ""
            known = ", ".join(sorted(there)) or "none"
            raise click.UsageError(
                f"--store {store}: it has no state {whose}in {directory} on this host; those that "
                f"have: {known}"
            )


def _show(findings: Sequence[StoreFinding]) -> None:
    from pystreams.cli.display.tables import show_table

    rows = []
    for finding in findings:
        held = "no such topic"
        if finding.held is not None:
            held = f"{finding.held.beginning} to {finding.held.high_watermark}"
        verdict = finding.trouble or "whole"
        if finding.last_copy:
            verdict = f"LAST COPY: {verdict}"
        if finding.decision is not None:
            verdict = f"{verdict} (decided: {finding.decision.value})"
        last_offset = "nothing" if finding.is_offset_known else "not known"
        if finding.last_offset is not None:
            last_offset = f"{finding.last_offset}"
        choices = ", ".join(choice.value for choice in finding.choices) if finding.last_copy else ""
        rows.append((str(finding.task_id), finding.store, last_offset, held, choices, verdict))
    columns = ("task", "store", "holds up to", "changelog", "choices", "state")
    show_table(columns, rows, right=("holds up to",))
