"""`pystreams describe`: a topology as Kafka Streams' text, or as a Mermaid diagram."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click

from pystreams.cli.application.topology_loader import load_topology
from pystreams.cli.errors import streams_errors_as_exit_codes
from pystreams.errors import ConfigError, TopologyError

if TYPE_CHECKING:
    from pystreams.cli.application.topology_loader import LoadedTopology
    from pystreams.config import StreamsConfig


@click.command()
@click.argument("topology", metavar="FILE|MODULE:ATTRIBUTE")
@click.option("--mermaid", is_flag=True, help="Print a Mermaid flowchart instead of text.")
def describe(topology: str, *, mermaid: bool) -> None:
    """Print a topology: its sub-topologies, nodes, topics and stores.

    The text is what Kafka Streams prints for the same topology. The Mermaid flowchart can be put
    into Markdown on many forges. Nothing is run, no broker is needed.
    """
    with streams_errors_as_exit_codes():
        loaded, config = _as_configured(load_topology(topology))
        description = loaded.topology.describe()
        missing = "" if config is None else _missing_serdes(loaded, config)
    if mermaid:
        from pystreams.cli.display.mermaid import to_mermaid

        click.echo(to_mermaid(description), nl=False)
    else:
        click.echo(str(description))
    if missing:
        click.echo(
            f"\nUnless its configuration says otherwise, it will not run:\n{missing}", err=True
        )


def _as_configured(loaded: LoadedTopology) -> tuple[LoadedTopology, StreamsConfig | None]:
    """Return it as the configuration has it built, as far as that is known here; else as it is."""
    from pystreams.config import Source, StreamsConfig, from_environment

    sources = [
        Source("environment", from_environment(os.environ)),
        Source("config in the topology's module", loaded.config),
        Source("describe", {"application.id": "describe", "bootstrap.servers": "none:1"}),
    ]
    try:
        config = StreamsConfig.from_sources(sources)
    except ConfigError:
        return loaded, None  # What is wrong with it is for `pystreams run` to tell.
    return loaded.built_with(config), config


def _missing_serdes(loaded: LoadedTopology, config: StreamsConfig) -> str:
    """Return where serdes are missing; "" if nowhere."""
    from pystreams.topology.plan.missing_serdes import check_serdes

    try:
        check_serdes(loaded.topology, config.default_key_serde, config.default_value_serde)
    except TopologyError as error:
        return str(error)
    return ""
