"""The application that a command works on: its topology, and its configuration from all sources."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from pystreams.cli.application import development_broker
from pystreams.cli.application.topology_loader import LoadedTopology, load_topology
from pystreams.cli.display.own_output import own_output
from pystreams.cli.options.groups import ApplicationOptions
from pystreams.cli.options.values import pair_of
from pystreams.errors import ConfigError

if TYPE_CHECKING:
    from pystreams.config import StreamsConfig

_STAND_INS = {"application.id": "describe", "bootstrap.servers": "none:1"}


def load_application(options: ApplicationOptions) -> tuple[LoadedTopology, StreamsConfig]:
    """Import the topology and return it with its configuration; its prints go to standard error.

    Raises:
        LoadingError: As `load_topology`.
        TopologyError: The user has built it otherwise than the configuration says.
        StreamsError: As `configuration`.
    """
    with own_output():
        loaded = load_topology(options.topology)
        config = configuration(options, loaded)
        return loaded.built_with(config), config


def configuration(options: ApplicationOptions, loaded: LoadedTopology) -> StreamsConfig:
    """Return the configuration from all sources.

    Raises:
        ConfigError: As `StreamsConfig.from_sources`.
        StreamsError: With `--dev`, the broker can't be started.
    """
    label = f"config in {options.topology}"
    return configuration_of(options, loaded.name, loaded.config, label)


def with_short_forms(
    options: ApplicationOptions, given: Mapping[str, tuple[str, object]]
) -> ApplicationOptions:
    """Return the options with what those say that are short for a key.

    Args:
        given: Option -> its key, and its value; None where it was not given.

    Raises:
        UsageError: The key is set too, to something else.
    """
    settings = dict(pair_of(setting, "-c") for setting in options.settings)
    short = []
    for option, (key, value) in given.items():
        if value is None:
            continue
        for written, other in settings.items():
            if written.replace("_", ".") == key and other.strip() != str(value):
                raise click.UsageError(
                    f"{option} {value} and -c {written}={other} contradict: give one of them"
                )
        short.append(f"{key}={value}")
    return replace(options, settings=(*options.settings, *short))


def local_configuration(
    options: ApplicationOptions, loaded: LoadedTopology, application_id: str
) -> StreamsConfig:
    """Return the configuration of an application whose files are read, with no broker.

    Raises:
        ConfigError: As `configuration`.
    """
    label = f"config in {options.topology}"
    stand_ins = {"application.id": application_id, "bootstrap.servers": "localhost:9092"}
    config = configuration_of(options, loaded.name, loaded.config, label, stand_ins)
    return replace(config, application_id=application_id)


def without_broker(
    options: ApplicationOptions, loaded: LoadedTopology
) -> tuple[LoadedTopology, StreamsConfig]:
    """Return a topology as its configuration has it built, and that; it may lack what is required.

    Raises:
        TopologyError: As `load_application`.
        ConfigError: As `configuration`, but not for keys that have to be set.
    """
    label = "config in the topology's module"
    config = configuration_of(options, loaded.name, loaded.config, label, _STAND_INS)
    return loaded.built_with(config), config


def is_whole(config: StreamsConfig) -> bool:
    """Return whether a configuration `without_broker` names one all the same: as it is run with."""
    return config.bootstrap_servers != _STAND_INS["bootstrap.servers"]


def configuration_of(
    options: ApplicationOptions,
    name: str,
    weakest: Mapping[str, Any],
    label: str = "",
    stand_ins: Mapping[str, Any] | None = None,
) -> StreamsConfig:
    """Return the configuration from the sources of the command line, and one weaker than these.

    Args:
        name: What the application.id is made of when nothing gives one, with `--dev`.
        weakest: Values that all other sources override.
        label: What errors call the place of these.
        stand_ins: Values of keys that have to be set, where nothing sets them.

    Raises:
        StreamsError: As `configuration`.
    """
    from pystreams.config import Source, StreamsConfig, from_environment, read_config_file

    given = {}
    for setting in options.settings:
        key, value = pair_of(setting, "-c")
        given[key] = value.strip()
    sources = [
        Source("-c", given),
        Source("environment", from_environment(os.environ)),
    ]
    if options.config_file is not None:
        sources.append(Source(str(options.config_file), read_config_file(options.config_file)))
    sources += (Source(label, weakest), Source("", stand_ins or {}))
    if options.dev:
        if "bootstrap.servers" in given:
            raise click.UsageError("--dev and -c bootstrap.servers=... name two brokers: use one")
        servers = development_broker.bootstrap_servers()
        sources.insert(0, Source("--dev", {"bootstrap.servers": servers}))
        sources.append(Source("--dev", {"application.id": _application_id(name)}))
    try:
        return StreamsConfig.from_sources(sources)
    except ConfigError as error:
        if not error.missing:
            raise
        raise ConfigError(f"{error}\n{_how_to_set(error.missing)}") from error


def _how_to_set(keys: Sequence[str]) -> str:
    options = " ".join(f"-c {key}=..." for key in keys)
    variables = ", ".join("PYSTREAMS_" + key.upper().replace(".", "_") for key in keys)
    return (
        f"Give {options}, or a file with what is missing (--config FILE), or set {variables} in "
        "the environment; or use the development broker (--dev)."
    )


def _application_id(name: str) -> str:
    """Return a file's name as an application id."""
    return re.sub("[^a-zA-Z0-9._-]", "-", name)
