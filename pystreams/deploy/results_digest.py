"""Tells topologies apart whose results differ, as far as declarations say: for processes at once.

The fingerprint's own digest is of the state that is kept, and is compared with that of earlier
versions. This one is compared between processes that run side by side, and so may be of all that is
declared: topics, windows, grace and retention, serdes, which operations with which settings. What
the user's functions do can't be seen, and what they hold is not looked at. Processes of different
versions of pystreams are not compared: before its dash stands the version.

    0.1.0-9f86d081
"""

from __future__ import annotations

import dataclasses
import enum
import hashlib
import json
from collections.abc import Mapping
from typing import Any

from pystreams.deploy.fingerprint import fingerprint_of
from pystreams.deploy.serde_formats import facts_of
from pystreams.kernel.installed_version import installed_version
from pystreams.kernel.user_tracebacks import UsersCall
from pystreams.serdes import Serde, filled, filled_value
from pystreams.topology.graph.nodes import Node, ProcessorNode
from pystreams.topology.graph.topology import Topology

_LENGTH = 8
_OURS = "pystreams."


def results_digest_of(
    topology: Topology,
    default_key_serde: Serde[Any] | None = None,
    default_value_serde: Serde[Any] | None = None,
) -> str:
    """Return the digest of a topology.

    Args:
        default_key_serde: The configured `default.key.serde`.
        default_value_serde: The configured `default.value.serde`.

    Raises:
        TopologyError: The topology can't run.
    """
    state = fingerprint_of(topology, default_key_serde, default_value_serde)["digest"]
    nodes = {
        name: _facts(node, default_key_serde, default_value_serde)
        for name, node in topology.nodes.items()
    }
    text = json.dumps([state, nodes], sort_keys=True)
    return f"{installed_version()}-{hashlib.sha256(text.encode()).hexdigest()[:_LENGTH]}"


def differ(digest: str, other: str) -> bool:
    """Return whether two digests are of topologies with different results; empty ones tell none."""
    of_one_version = digest.rpartition("-")[0] == other.rpartition("-")[0]
    return bool(digest and other) and of_one_version and digest != other


def _facts(node: Node, key_serde: Serde[Any] | None, value_serde: Serde[Any] | None) -> Any:
    if isinstance(node, ProcessorNode):
        return [node.parents, sorted(node.stores), _plain(node.operator)]
    pattern = getattr(node, "pattern", None)
    return {
        "parents": node.parents,
        "topic": _plain(getattr(node, "topic", None)),
        "topics": getattr(node, "topics", ()),
        "pattern": None if pattern is None else pattern.pattern,
        "key_serde": facts_of(filled(node.key_serde, key_serde)),
        "value_serde": facts_of(filled_value(node.value_serde, value_serde, key_serde)),
    }


def _plain(value: Any) -> Any:
    """Return what was declared, as plain JSON, the same in each process.

    None for functions and all other objects of the user's, whatever they hold: it may be much, go
    round in circles, or differ between processes.
    """
    if isinstance(value, enum.Enum):
        return value.name
    if value is None or isinstance(value, str | int | float):
        return value
    if isinstance(value, type | UsersCall):  # Where it stands in the user's code changes nothing.
        return None
    if hasattr(value, "serializer") and hasattr(value, "deserializer"):
        return facts_of(value)
    kind = type(value)
    if kind.__module__ != "builtins" and not kind.__module__.startswith(_OURS):
        return None
    if dataclasses.is_dataclass(value):
        fields = {
            field.name: _plain(getattr(value, field.name)) for field in dataclasses.fields(value)
        }
        return {"type": kind.__name__, **fields}
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, frozenset | set):
        return sorted(json.dumps(_plain(item), sort_keys=True) for item in value)
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    return None
