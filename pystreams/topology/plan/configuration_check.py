"""Whether a topology is one that its configuration can run."""

from __future__ import annotations

from collections.abc import Collection

from pystreams.config import StreamsConfig, TopologyOptimization
from pystreams.errors import TopologyError
from pystreams.kernel.loggers import get_logger
from pystreams.topology.graph.topology import Topology
from pystreams.topology.plan.explicit_names import check_names
from pystreams.topology.plan.missing_serdes import check_serdes
from pystreams.topology.plan.own_output import circles_of

_log = get_logger("pystreams.topology")


def check_configured(topology: Topology, config: StreamsConfig) -> None:
    """Refuse a topology that a configuration can't run, and warn of one that may never rest.

    Raises:
        TopologyError: A serde is missing, it was built without what is configured, or names are
            generated that must not be.
    """
    check_optimizations(topology, config.topology_optimization)
    check_serdes(topology, config.default_key_serde, config.default_value_serde)
    if config.ensure_explicit_internal_resource_naming:
        check_names(topology)
    for circle in circles_of(topology):
        _log.warning("the topology reads what it writes", why=circle)


def check_optimizations(topology: Topology, wanted: Collection[TopologyOptimization]) -> None:
    """Refuse a topology of the DSL that was built without optimizations that are configured.

    Args:
        topology: The topology; one made by hand is what it is.
        wanted: The configured `topology.optimization`.

    Raises:
        TopologyError: It was; says how to build it.
    """
    built_with = topology.optimizations
    if built_with is None or built_with.issuperset(wanted):
        return
    missing = ", ".join(sorted(optimization.value for optimization in {*wanted} - built_with))
    raise TopologyError(
        f"topology.optimization asks for {missing}, and the topology was built without: give the "
        "configuration to builder.build(config); in a file that `pystreams` loads, name the "
        "StreamsBuilder itself, or return it from a function, and it is built with the "
        "configuration. Or set topology.optimization=none to run the topology as it is"
    )
