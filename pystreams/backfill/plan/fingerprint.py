"""What a topology and its configuration declare, as texts: the same in every process and run.

    StreamStreamJoinOperator(other_store="...", join=<function>, before_ms=5000, after_ms=5000)
    --> ["pystreams.topology.operators....StreamStreamJoinOperator",
         {"after_ms": 5000, "before_ms": 5000, "join": {"named": "orders.joined"}, ...}]

Plain values stand as they are, objects of pystreams with all they hold, dataclasses of the user's
with the fields that they compare by; of other objects only the class is known. Functions and
classes stand by name: what a function does can't be seen. One of pystreams that is wrapped around
the user's shows what it holds. No address, id or hash gets into a text,
and nothing that is filled in while records are processed.

A module stands by the last part of its name, because one file has several names: `shop.orders`,
`orders` when the command loads it as a file, `__main__` when it is the script itself.
"""

from __future__ import annotations

import functools
import hashlib
import io
import json
import re
import sys
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import fields, is_dataclass
from enum import Enum
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

from pystreams.config import StreamsConfig
from pystreams.topology.graph.nodes import Node
from pystreams.topology.graph.topology import Topology

_CONFIGURATION = (
    "default.key.serde",
    "default.value.serde",
    "default.timestamp.extractor",
    "deserialization.exception.handler",
    "processing.exception.handler",
    "production.exception.handler",
)
"""The keys that decide what the results of a history are. `max.task.idle.ms` is none of them: all
of a history is there, so that no task waits for it."""

_HAD_NO_PART = frozenset({"null", "fail"})
"""A default serde that was not set, and a handler that would have ended the backfill."""

_IN_DESCRIPTION = frozenset({"name", "topics", "parents", "stores", "looks_into"})
"""Fields of nodes that the description tells, in an order that does not depend on hashes; and one
that follows from the node's operator."""

_LOADED_AS_FILE = "pystreams_"
"""How the command begins the name of a user's file whose own name is taken."""


def topology_fingerprint(topology: Topology) -> str:
    """Return the SHA-256 of all that a topology declares: nodes, serdes, windows, stores."""
    declaration = {
        "description": str(topology.describe()),
        "nodes": {name: _node(node) for name, node in topology.nodes.items()},
        "stores": {
            name: [_declared(builder), builder.logging] for name, builder in topology.stores.items()
        },
        "repartition topics": _declared(topology.repartition_topics),
    }
    return hashlib.sha256(_text(declaration).encode()).hexdigest()


def declared_configuration(config: StreamsConfig) -> dict[str, str]:
    """Return the values of the keys that decide what the results of a history are."""
    values = {key: getattr(config, key.replace(".", "_")) for key in _CONFIGURATION}
    return {
        key: value if isinstance(value, str) else _text(_declared(value))
        for key, value in values.items()
    }


def other_keys(staged: Mapping[str, str], wanted: Mapping[str, str]) -> list[str]:
    """Return the keys that would have made other results than those that are staged.

    What had no part in them may be another now: so a backfill that a handler has ended goes on
    with one that skips the record.

    Args:
        staged: The configuration of what is staged; empty where none had a part, as in a rescale.
        wanted: The configuration now.
    """
    return sorted(
        key
        for key, value in staged.items()
        if value not in _HAD_NO_PART and wanted.get(key) != value
    )


def _node(node: Node) -> dict[str, Any]:
    return {
        field.name: _declared(getattr(node, field.name))
        for field in fields(node)
        if field.name not in _IN_DESCRIPTION
    }


def _text(declaration: object) -> str:
    return json.dumps(declaration, sort_keys=True)


def _declared(value: object, within: frozenset[int] = frozenset()) -> Any:
    """Return a value as JSON has it.

    Args:
        within: Ids of the objects that it was found in: one of these again ends there.
    """
    if id(value) in within:
        return {"again": _name(type(value))}
    inside = within | {id(value)}
    if isinstance(value, Enum):
        return [_name(type(value)), value.name]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, bytes | bytearray):
        return {"bytes": value.hex()}
    if isinstance(value, re.Pattern):
        return {"pattern": value.pattern, "flags": value.flags}
    if isinstance(value, Mapping):
        pairs = ([_declared(key, inside), _declared(held, inside)] for key, held in value.items())
        return {"mapping": sorted(pairs, key=_text)}
    if isinstance(value, list | tuple):
        return [_declared(item, inside) for item in value]
    if isinstance(value, AbstractSet):
        return {"set": sorted((_declared(item, inside) for item in value), key=_text)}
    return _function(value, inside) or _object(value, inside)


def _function(value: Any, inside: frozenset[int]) -> dict[str, Any] | None:
    """Return a function or class by its name, a bound method also with what it is bound to."""
    if isinstance(value, functools.partial):
        given = [_declared(item, inside) for item in (value.func, value.args, value.keywords)]
        return {"partial": given}
    if not (callable(value) and hasattr(value, "__qualname__")):
        return None
    bound = getattr(value, "__self__", None)
    if bound is not None and not isinstance(bound, ModuleType):
        return {"named": _name(value), "of": _declared(bound, inside)}
    if isinstance(value, FunctionType) and _is_ours(value):
        around = [_declared(cell.cell_contents, inside) for cell in value.__closure__ or ()]
        return {"named": _name(value), "around": around}
    return {"named": _name(value)}


def _object(value: object, inside: frozenset[int]) -> Any:
    if isinstance(value, io.IOBase):
        return "a file"
    if is_dataclass(value):
        held = {field.name: getattr(value, field.name) for field in fields(value) if field.compare}
    elif _is_ours(type(value)):
        held = _attributes(value)
    else:
        return [_name(type(value))]
    parts = {name: _declared(part, inside) for name, part in held.items()}
    return [_name(type(value)), parts]


def _attributes(value: object) -> dict[str, Any]:
    """Return what an object holds, in `__slots__` or not."""
    slots = [slot for kind in type(value).__mro__ for slot in getattr(kind, "__slots__", ())]
    held = {slot: getattr(value, slot) for slot in slots if hasattr(value, slot)}
    return held | getattr(value, "__dict__", {})


def _is_ours(named: Any) -> bool:
    module: str = named.__module__ or ""
    return module.partition(".")[0] == "pystreams"


def _name(named: Any) -> str:
    module = getattr(named, "__module__", None) or ""
    if module == "__main__":
        file = getattr(sys.modules["__main__"], "__file__", None)
        module = Path(file).stem if file else module
    return f"{module.rpartition('.')[2].removeprefix(_LOADED_AS_FILE)}.{named.__qualname__}"
