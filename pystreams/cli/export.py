"""`pystreams export`: a committed snapshot of an application's stores as Parquet."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pystreams.cli.backfill_options import pairs
from pystreams.cli.failures import streams_errors_as_exit_codes
from pystreams.cli.leaving import LeaveBySignal, leaving_by_signals
from pystreams.cli.loading import load_topology
from pystreams.cli.logs import configure_spark_logging
from pystreams.cli.options import (
    application_options,
    connector_option,
    log_options,
    spark_options,
)
from pystreams.cli.run import RunOptions, configuration

if TYPE_CHECKING:
    from pystreams.backfill import Exported


@dataclass(frozen=True, slots=True)
class _ExportOptions:
    """What the command line said, beside what configures the application."""

    output: Path
    stores: tuple[str, ...]
    options: tuple[str, ...]
    master: str | None
    spark_conf: tuple[str, ...]


@click.command()
@click.argument("topology", metavar="FILE|MODULE:ATTRIBUTE")
@click.option(
    "--output",
    required=True,
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Where each store gets a directory; empty, or not there yet.",
)
@click.option(
    "--store",
    "stores",
    multiple=True,
    metavar="NAME",
    help="A store to export; may be repeated. Default: all that have a changelog.",
)
@connector_option
@spark_options
@application_options
@log_options()
def export(
    topology: str,
    *,
    dev: bool,
    settings: tuple[str, ...],
    config_file: Path | None,
    log_level: str,
    log_format: str,
    **options: object,
) -> None:
    """Write a committed snapshot of an application's stores as Parquet.

    Each store becomes a directory that any Spark or Arrow program reads, with keys and values
    typed where the serde allows. It is read from the changelog topics, so the application may run
    or not, here or elsewhere; nothing of it is changed. What is uncommitted is not in it.

    DIR/manifest.json says up to which offset each changelog partition was read, and which input
    that covers.

    Needs the extra: pip install 'pystreams[spark]', and Java 17 or 21.

    \b
    Exit codes:
      0    done
      1    failed; the message says what to do. Started again, it begins anew
      2    wrong usage, configuration or topology; no such store
      3    no broker answers
      70   a bug in pystreams
      130  stopped by Ctrl-C (143: by SIGTERM); started again, it begins anew

    \b
    Examples:
      pystreams export topology.py --dev --output stores
      pystreams export shop.orders:builder --config production.toml --store sold --output sold
    """
    chosen = _ExportOptions(**options)  # type: ignore[arg-type]  # click has checked the types
    configure_spark_logging(log_level, log_format)
    then = "started again, it begins anew"
    with leaving_by_signals(LeaveBySignal(), then), streams_errors_as_exit_codes():
        from pystreams.backfill import export as export_stores

        loaded = load_topology(topology)
        run_options = RunOptions(topology, dev, settings, config_file)
        done = export_stores(
            loaded.topology,
            configuration(run_options, loaded),
            output=chosen.output,
            stores=chosen.stores,
            options=pairs(chosen.options, "--option"),
            master=chosen.master,
            spark_conf=pairs(chosen.spark_conf, "--spark-conf"),
        )
        _show(done)


def _show(done: Exported) -> None:
    from pystreams.cli.tables import show_table

    rows = [
        (
            one.changelog.store,
            one.changelog.kind.name,
            str(one.changelog.num_partitions),
            f"{one.rows:,}",
        )
        for one in done.stores
    ]
    show_table(("store", "kind", "partitions", "rows"), rows, right=("partitions", "rows"))
    for name in done.skipped:
        click.echo(f"Skipped: store {name!r} has no changelog")
    exact = sum(task.exact for task in done.tasks)
    click.echo(f"Source offsets are exact for {exact} of {len(done.tasks)} tasks")
    click.echo(f"Exported to {done.path}: see {done.path / 'manifest.json'}")
