"""`pystreams describe`: a topology as Kafka Streams' text, or as a Mermaid diagram."""

from __future__ import annotations

import json

import click

from pystreams.cli.application.configuration import without_broker
from pystreams.cli.application.described_start import Start, fingerprint_with, told_by
from pystreams.cli.application.topology_loader import load_topology
from pystreams.cli.display.own_output import own_output
from pystreams.cli.errors import streams_errors_as_exit_codes
from pystreams.cli.options.groups import (
    ApplicationOptions,
    configuration_options,
    topology_argument,
)


@click.command()
@topology_argument
@click.option("--mermaid", is_flag=True, help="Print a Mermaid flowchart instead of text.")
@click.option("--json", "as_json", is_flag=True, help="Print what `pystreams check` compares.")
@configuration_options
def describe(*, mermaid: bool, as_json: bool, application: ApplicationOptions) -> None:
    """Print a topology: its sub-topologies, nodes, topics and stores.

    The text is what Kafka Streams prints for the same topology. The Mermaid flowchart can be put
    into Markdown on many forges. JSON has stores, windows, serdes and internal topics: what decides
    whether a later version goes on with the state of this one. Nothing is run, no broker is needed;
    what the topology's module prints while it is loaded goes to standard error.
    A configuration that is wrong ends with 2; application.id and bootstrap.servers may be missing.
    """
    from pystreams.topology.plan.own_output import circles_of
    from pystreams.topology.plan.topology_plan import TopologyPlan

    with streams_errors_as_exit_codes():
        with own_output():
            loaded, config = without_broker(application, load_topology(application.topology))
        description = loaded.topology.describe()
        start = Start.of(loaded, config)
        fingerprint = fingerprint_with(loaded, config, start) if as_json else None
        circles = circles_of(loaded.topology)
    if as_json:
        click.echo(json.dumps(fingerprint, indent=1))
    elif mermaid:
        from pystreams.cli.display.mermaid import to_mermaid

        click.echo(to_mermaid(description), nl=False)
    else:
        click.echo(str(description))
    for refusal in told_by(lambda: TopologyPlan(loaded.topology, config.application_id)):
        click.echo(f"\nIt will not run:\n{refusal}", err=True)
    for refusal in start.refused:
        click.echo(f"\nWith this configuration it will not run:\n{refusal}", err=True)
    for doubt in start.doubts:
        click.echo(f"\n{doubt}", err=True)
    for circle in circles:
        click.echo(f"\nWARNING: {circle}", err=True)
