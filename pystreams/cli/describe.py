"""`pystreams describe`: a topology as Kafka Streams' text, or as a Mermaid diagram."""

from __future__ import annotations

import click

from pystreams.cli.failures import streams_errors_as_exit_codes
from pystreams.cli.loading import load_topology


@click.command()
@click.argument("topology", metavar="FILE|MODULE:ATTRIBUTE")
@click.option("--mermaid", is_flag=True, help="Print a Mermaid flowchart instead of text.")
def describe(topology: str, *, mermaid: bool) -> None:
    """Print a topology: its sub-topologies, nodes, topics and stores.

    The text is what Kafka Streams prints for the same topology. The Mermaid flowchart can be put
    into Markdown on many forges. Nothing is run, no broker is needed.
    """
    with streams_errors_as_exit_codes():
        loaded = load_topology(topology)
        description = loaded.topology.describe()
    if mermaid:
        from pystreams.cli.mermaid import to_mermaid

        click.echo(to_mermaid(description), nl=False)
    else:
        click.echo(str(description))
