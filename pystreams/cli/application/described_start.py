"""What is told of a topology before it runs: what `check` compares, and what a start would say."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from pystreams.cli.application.configuration import is_whole
from pystreams.errors import TopologyError

if TYPE_CHECKING:
    from pystreams.cli.application.topology_loader import LoadedTopology
    from pystreams.config import StreamsConfig
    from pystreams.deploy.fingerprint import Fingerprint


class Start(NamedTuple):
    """What a start with a configuration would say.

    Attributes:
        refused: Why it would be refused.
        doubts: Why it would be, unless the configuration says more than this one: one that names
            no broker is not what it runs with.
    """

    refused: list[str]
    doubts: list[str]

    @classmethod
    def of(cls, loaded: LoadedTopology, config: StreamsConfig) -> Start:
        """Return what a start of a topology would say, which was built with the configuration."""
        from pystreams.topology.plan.explicit_names import check_names
        from pystreams.topology.plan.missing_serdes import check_serdes

        topology, start = loaded.topology, cls([], [])
        if config.ensure_explicit_internal_resource_naming:
            start.refused.extend(told_by(lambda: check_names(topology)))
        defaults = config.default_key_serde, config.default_value_serde
        for missing in told_by(lambda: check_serdes(topology, *defaults)):
            if is_whole(config):
                start.refused.append(missing)
            else:
                start.doubts.append(
                    f"Unless its configuration says otherwise, it will not run:\n{missing}"
                )
        return start


def told_by(check: Callable[[], object]) -> list[str]:
    """Return what a check of a topology refuses."""
    try:
        check()
    except TopologyError as error:
        return [str(error)]
    return []


def fingerprint_with(loaded: LoadedTopology, config: StreamsConfig, start: Start) -> Fingerprint:
    """Return what `pystreams check` compares of a topology, with what its start would say."""
    from pystreams.deploy.fingerprint import fingerprint_of

    found = fingerprint_of(loaded.topology, config.default_key_serde, config.default_value_serde)
    return {**found, **start._asdict()}
