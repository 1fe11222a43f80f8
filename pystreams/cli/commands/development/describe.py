"""`pystreams describe`: a topology as Kafka Streams' text, or as a Mermaid diagram."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple

import click

from pystreams.cli.application.configuration import is_whole, without_broker
from pystreams.cli.application.topology_loader import load_topology
from pystreams.cli.display.own_output import own_output
from pystreams.cli.errors import streams_errors_as_exit_codes
from pystreams.cli.options.groups import (
    ApplicationOptions,
    configuration_options,
    topology_argument,
)
from pystreams.errors import TopologyError

if TYPE_CHECKING:
    from collections.abc import Callable

    from pystreams.cli.application.topology_loader import LoadedTopology
    from pystreams.config import StreamsConfig
    from pystreams.deploy.fingerprint import Fingerprint


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
        start = _Start.of(loaded, config)
        fingerprint = _fingerprint(loaded, config, start) if as_json else None
        circles = circles_of(loaded.topology)
    if as_json:
        click.echo(json.dumps(fingerprint, indent=1))
    elif mermaid:
        from pystreams.cli.display.mermaid import to_mermaid

        click.echo(to_mermaid(description), nl=False)
    else:
        click.echo(str(description))
    for refusal in _told_by(lambda: TopologyPlan(loaded.topology, config.application_id)):
        click.echo(f"\nIt will not run:\n{refusal}", err=True)
    for refusal in start.refused:
        click.echo(f"\nWith this configuration it will not run:\n{refusal}", err=True)
    for doubt in start.doubts:
        click.echo(f"\n{doubt}", err=True)
    for circle in circles:
        click.echo(f"\nWARNING: {circle}", err=True)


class _Start(NamedTuple):
    """What a start with a configuration would say.

    Attributes:
        refused: Why it would be refused.
        doubts: Why it would be, unless the configuration says more than this one: one that names
            no broker is not what it runs with.
    """

    refused: list[str]
    doubts: list[str]

    @classmethod
    def of(cls, loaded: LoadedTopology, config: StreamsConfig) -> _Start:
        from pystreams.topology.plan.explicit_names import check_names
        from pystreams.topology.plan.missing_serdes import check_serdes

        topology, start = loaded.topology, cls([], [])
        if config.ensure_explicit_internal_resource_naming:
            start.refused.extend(_told_by(lambda: check_names(topology)))
        defaults = config.default_key_serde, config.default_value_serde
        for missing in _told_by(lambda: check_serdes(topology, *defaults)):
            if is_whole(config):
                start.refused.append(missing)
            else:
                start.doubts.append(
                    f"Unless its configuration says otherwise, it will not run:\n{missing}"
                )
        return start


def _told_by(check: Callable[[], object]) -> list[str]:
    try:
        check()
    except TopologyError as error:
        return [str(error)]
    return []


def _fingerprint(loaded: LoadedTopology, config: StreamsConfig, start: _Start) -> Fingerprint:
    from pystreams.deploy.fingerprint import fingerprint_of

    found = fingerprint_of(loaded.topology, config.default_key_serde, config.default_value_serde)
    return {**found, **start._asdict()}
