"""`pystreams metrics`: every metric there is."""

from __future__ import annotations

import click

from pystreams.metrics import DEFINITIONS
from pystreams.metrics.prometheus_names import prometheus_name

_NARROWEST = 120
"""Names are long."""


@click.command()
@click.option("--markdown", is_flag=True, help="Print docs/metrics.md.")
def metrics(*, markdown: bool) -> None:
    """List all metrics, by Kafka's names and Prometheus'.

    `KafkaStreams.metrics()` has Kafka's names; `pystreams run --metrics-port PORT` serves them
    under the names of Prometheus. Metrics of level DEBUG need -c metrics.recording.level=DEBUG.
    """
    if markdown:
        from pystreams.cli.display.metrics_page import reference_page

        click.echo(reference_page(), nl=False)
        return
    from rich.table import Column

    from pystreams.cli.display.tables import show_reference

    columns = [
        Column("Metric", no_wrap=True),
        Column("In Prometheus", no_wrap=True),
        Column("Level"),
        Column("Meaning", ratio=1),
    ]
    rows = [
        (metric.name, prometheus_name(metric), metric.level.value, metric.doc)
        for metric in DEFINITIONS
    ]
    show_reference(columns, rows, narrowest=_NARROWEST)
