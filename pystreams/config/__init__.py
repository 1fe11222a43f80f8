"""Configuration: Kafka's dotted names and defaults in one typed, immutable `StreamsConfig`.

Read in this order: `streams_config` (every key), `resolution` (from sources to values, all problems
in one error), `client_overrides` (keys that are passed on to the clients), `clients` (what
librdkafka is given), `known_keys` (Kafka Streams' other keys), `files` (TOML, Java properties,
environment).
"""

from pystreams.config.definitions import Importance, KeyDefinition
from pystreams.config.files import from_environment, read_config_file
from pystreams.config.guarantee import (
    ChangelogLossPolicy,
    GroupProtocol,
    IsolationLevel,
    ProcessingGuarantee,
    TopologyOptimization,
)
from pystreams.config.resolution import Source
from pystreams.config.streams_config import KEY_DEFINITIONS, StreamsConfig, optimizations_of

__all__ = [
    "KEY_DEFINITIONS",
    "ChangelogLossPolicy",
    "GroupProtocol",
    "Importance",
    "IsolationLevel",
    "KeyDefinition",
    "ProcessingGuarantee",
    "Source",
    "StreamsConfig",
    "TopologyOptimization",
    "from_environment",
    "optimizations_of",
    "read_config_file",
]
