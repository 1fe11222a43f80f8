"""`pystreams export`: a committed snapshot of an application's stores as Parquet."""

from __future__ import annotations

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
    log_options,
    spark_options,
    topology_argument,
)
from pystreams.cli.options.values import pairs
from pystreams.cli.processes.interruption import InterruptBySignal, exit_when_interrupted

if TYPE_CHECKING:
    from pystreams.backfill import Exported


@click.command()
@topology_argument
@click.option(
    "--output",
    required=True,
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Where each store gets a directory; must be empty, or not exist yet.",
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
    *,
    output: Path,
    stores: tuple[str, ...],
    options: tuple[str, ...],
    spark: SparkOptions,
    application: ApplicationOptions,
    log: LogOptions,
) -> None:
    """Write a committed snapshot of an application's stores as Parquet.

    Each store becomes a directory that any Spark or Arrow program reads, with keys and values
    typed where the serde allows. It is read from the changelog topics, so the application may run
    or not, here or elsewhere; nothing of it is changed. What is uncommitted is not in it.

    DIR/manifest.json says up to which offset each changelog partition was read, and which input
    that covers.

    Needs the extra: pip install 'pystreams-kafka[spark]', and Java 17 or 21.

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
    configure_spark_logging(log.log_level, log.log_format)
    then = "started again, it begins anew"
    with exit_when_interrupted(InterruptBySignal(), then), streams_errors_as_exit_codes():
        from pystreams.backfill import export as export_stores

        loaded, config = load_application(application)
        done = export_stores(
            loaded.topology,
            config,
            output=output,
            stores=stores,
            options=pairs(options, "--option"),
            master=spark.master,
            spark_conf=spark.conf,
        )
        _show(done)


def _show(done: Exported) -> None:
    from pystreams.cli.display.tables import show_table

    rows = [
        (
            exported.changelog.store,
            exported.changelog.spec.kind.name,
            str(exported.changelog.num_partitions),
            f"{exported.rows:,}",
        )
        for exported in done.stores
    ]
    show_table(("store", "kind", "partitions", "rows"), rows, right=("partitions", "rows"))
    for name in done.skipped:
        click.echo(f"Skipped: store {name!r} has no changelog")
    exact = sum(task.exact for task in done.tasks)
    click.echo(f"Source offsets are exact for {exact} of {len(done.tasks)} tasks")
    click.echo(f"Exported to {done.path}: see {done.path / 'manifest.json'}")
