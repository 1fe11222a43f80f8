"""`pystreams rescale`: a stopped application's state, moved to other partition counts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pystreams.cli.application.configuration import load_application
from pystreams.cli.display.logs import configure_spark_logging
from pystreams.cli.errors import streams_errors_as_exit_codes
from pystreams.cli.options.groups import (
    ApplicationOptions,
    LogOptions,
    SparkOptions,
    application_options,
    connector_option,
    grouped,
    log_options,
    spark_options,
    topology_argument,
)
from pystreams.cli.options.values import counts, pairs
from pystreams.cli.processes.interruption import InterruptBySignal, exit_when_interrupted

if TYPE_CHECKING:
    from pystreams.backfill import Published, RescaleSettings
    from pystreams.backfill.rescaling.move_plan import MovedSubtopology, MovePlan
    from pystreams.cli.application.topology_loader import LoadedTopology
    from pystreams.cli.display.tables import Cell
    from pystreams.config import StreamsConfig


@dataclass(frozen=True, slots=True)
class _MoveOptions:
    """What is moved where."""

    to_application_id: str
    output: Path | None
    partitions: tuple[str, ...]
    created_again: tuple[str, ...]
    options: tuple[str, ...]

    def settings(self) -> RescaleSettings:
        from pystreams.backfill import RescaleSettings

        return RescaleSettings(
            self.to_application_id,
            self.output or Path(f"{self.to_application_id}-rescale"),
            counts(self.partitions, "--partitions"),
            frozenset(self.created_again),
            pairs(self.options, "--option"),
        )


_move_options = grouped(
    "move",
    _MoveOptions,
    click.option(
        "--to-application-id",
        required=True,
        metavar="ID",
        help="The application that gets the state; one that has never run.",
    ),
    click.option(
        "--partitions",
        multiple=True,
        metavar="TOPIC=N",
        help="Refuse unless the topic has N partitions; with --dry-run, take it as if it had them.",
    ),
    click.option(
        "--created-again",
        multiple=True,
        metavar="TOPIC",
        help="The topic was deleted and created again, and holds nothing that the application has "
        "processed: it is read from its beginning.",
    ),
    click.option(
        "--output",
        type=click.Path(file_okay=False, path_type=Path),
        metavar="DIR",
        help="Stage the state here and keep it, as Parquet. "
        "Default: <ID>-rescale here, removed once it is published.",
    ),
    connector_option,
)


@click.command()
@topology_argument
@_move_options
@click.option("--dry-run", is_flag=True, help="Check, show what would move, and move nothing.")
@spark_options
@application_options
@log_options()
def rescale(
    *,
    move: _MoveOptions,
    dry_run: bool,
    spark: SparkOptions,
    application: ApplicationOptions,
    log: LogOptions,
) -> None:
    """Move a stopped application's state to other partition counts, under another application.id.

    For a source topic that was given other partitions: each key's state goes to the partition that
    Kafka's default partitioner gives the key now, and the new application goes on where the old
    one has stopped. Nothing of the old application is changed.

    First stop the producers, let the application run until its lag is 0, and stop it. Then alter
    the topics, run this, and start `pystreams run` with the new application.id. Killed at any
    moment and started again, it goes on without repeat or gap.

    Needs the extra: pip install 'pystreams-kafka[spark]', and Java 17 or 21.

    \b
    Exit codes:
      0    done: staged and published
      1    failed, or refused; the message says what to do
      2    wrong usage, configuration or topology; partition counts do not fit
      3    no broker answers
      70   a bug in pystreams
      130  stopped by Ctrl-C (143: by SIGTERM); start it again, and it goes on

    \b
    Examples:
      pystreams rescale topology.py --dev --to-application-id shop-8 --partitions in=8 --dry-run
      pystreams rescale shop.orders:builder --config production.toml --to-application-id shop-8
    """
    configure_spark_logging(log.log_level, log.log_format)
    then = "started again, it goes on"
    with exit_when_interrupted(InterruptBySignal(), then), streams_errors_as_exit_codes():
        loaded, config = load_application(application)
        if dry_run:
            _show_plan(_planned(move, loaded, config))
        else:
            _move(move, spark, loaded, config)


def _planned(move: _MoveOptions, loaded: LoadedTopology, config: StreamsConfig) -> MovePlan:
    from pystreams.backfill.publishing.publisher import publishing_config
    from pystreams.backfill.rescaling.rescale_state import planned_move
    from pystreams.runtime.adapters.client_factory import ConfluentClients

    clients = ConfluentClients(publishing_config(config))
    return planned_move(loaded.topology, config, move.settings(), clients, is_rehearsal=True).plan


def _move(
    move: _MoveOptions, spark: SparkOptions, loaded: LoadedTopology, config: StreamsConfig
) -> None:
    from pystreams.backfill import rescale as move_state
    from pystreams.backfill.staging.directory import StagingDirectory

    settings = move.settings()
    done = move_state(
        loaded.topology,
        config,
        settings,
        master=spark.master,
        spark_conf=spark.conf,
    )
    _show_done(done, settings.to_application_id)
    path = settings.output.absolute()
    if not path.is_dir():
        return  # Moved by an earlier run, which has removed it.
    if move.output is None:
        StagingDirectory(path).remove()
    else:
        click.echo(f"Staged state: {path}", err=True)


def _show_plan(plan: MovePlan) -> None:
    from pystreams.cli.display.tables import show_table

    click.echo(
        f"State of {plan.old.application_id} for {plan.new.application_id}; nothing was moved"
    )
    columns = ("sub-topology", "reads", "tasks before", "tasks after", "stores")
    show_table(columns, [_row(part) for part in plan.subtopologies], right=columns[2:4])


def _row(part: MovedSubtopology) -> Sequence[Cell]:
    return (
        str(part.id),
        [topic.new_name for topic in part.topics],
        str(part.old_tasks),
        str(part.new_tasks),
        [changelog.store for changelog in part.changelogs] or "-",
    )


def _show_done(done: Published, application_id: str) -> None:
    if done.was_done:
        click.echo(f"Moved before: {application_id} can be started")
        return
    again = "; went on where an earlier run had stopped" if done.resumed else ""
    click.echo(
        f"Published {done.records:,} records in {done.transactions:,} transactions{again}.\n"
        f"Start the application now: pystreams run, with application.id={application_id}"
    )
