"""`pystreams metrics`: every metric there is."""

from __future__ import annotations

import shutil

import click

from pystreams.metrics import DEFINITIONS
from pystreams.metrics.prometheus_names import prometheus_name

_NARROWEST = 120
_WIDTH_WITHOUT_TERMINAL = 160


@click.command()
@click.option("--markdown", is_flag=True, help="Print docs/metrics.md.")
def metrics(*, markdown: bool) -> None:
    """List all metrics, by Kafka's names and Prometheus'.

    `KafkaStreams.metrics()` has Kafka's names; `pystreams run --metrics-port PORT` serves them
    under the names of Prometheus. Metrics of level DEBUG need -c metrics.recording.level=DEBUG.
    """
    if markdown:
        from pystreams.cli.metrics_reference import reference_page

        click.echo(reference_page(), nl=False)
        return
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold underline")
    table.add_column("Metric", no_wrap=True)
    table.add_column("In Prometheus", no_wrap=True)
    table.add_column("Level")
    table.add_column("Meaning", ratio=1)
    for definition in DEFINITIONS:
        table.add_row(
            definition.name, prometheus_name(definition), definition.level.value, definition.doc
        )
    width = shutil.get_terminal_size((_WIDTH_WITHOUT_TERMINAL, 0)).columns
    # Names are long: on a narrower terminal lines break, and nothing is cut off.
    Console(width=max(width, _NARROWEST), highlight=False).print(table)
