"""What a serde writes, in words that can be compared between two versions of an application.

    {"name": "serdes.json_of(Order)", "format": "json"}

The format says what the bytes are, where that is known: of our own serdes. Two of one format read
each other's bytes, two of different formats do not. A user's own has no format, only a name.

States of aggregations may be made of others, by name, or of values with a serde of their own, so
many at most:

    {"name": "states of aggregations.top_n", "format": "states of aggregations.top_n",
     "parts": {"kept": {"name": "serdes.JSON", "format": "json"}}, "limits": {"n": 3}}
"""

from __future__ import annotations

import re
from typing import Any

from pystreams.serdes import BY_NAME, FunctionSerde, Serde, StateSerde
from pystreams.topology.aggregations.aggregation import AggregationSerde
from pystreams.topology.contracts.windowed_serdes import (
    SessionWindowedSerde,
    TimeWindowedSerde,
    WindowedSerde,
)

_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")
_JSON_MODEL = "serdes.json_of("
_REGISTRY = "pystreams.registry."

SerdeFacts = dict[str, Any]
"""`name`, `format`, which is None where it is not known; `parts` and `limits` if there are any."""

_ALIKE = {
    "states of aggregations.stddev": "states of aggregations.variance",
    "states of aggregations.percentiles": "states of aggregations.percentile",
}
"""Aggregations with the same states as others, of which they make another result."""


def facts_of(serde: Serde[Any] | None) -> SerdeFacts | None:
    """Return what is to be known of a serde; None if it is left to a configuration not given."""
    if serde is None:
        return None
    facts: SerdeFacts = {"name": _name(serde), "format": _format(serde)}
    if isinstance(serde, AggregationSerde) and serde.parts:
        facts["parts"] = {
            name: part if isinstance(part, str) else facts_of(part)
            for name, part in serde.parts.items()
            if not isinstance(part, int)
        }
        limits = {name: part for name, part in serde.parts.items() if isinstance(part, int)}
        if limits:
            facts["limits"] = limits
    return facts


def format_of(facts: SerdeFacts) -> str | None:
    """Return the format that is equal where one of the two serdes reads what the other writes."""
    known: str | None = facts["format"]
    return None if known is None else _ALIKE.get(known, known)


def _name(serde: Serde[Any]) -> str:
    kind = type(serde)
    if kind.__module__.startswith(_REGISTRY):
        # The address of the registry is none of the bytes.
        return repr(serde).rpartition(").")[2]
    if kind.__repr__ is object.__repr__:
        return f"{kind.__module__}.{kind.__qualname__}"
    return _ADDRESS.sub("", repr(serde))


def _format(serde: Serde[Any]) -> str | None:
    for name, known in BY_NAME.items():
        if serde is known:
            return name
    if isinstance(serde, StateSerde):
        return _name(serde) if type(serde).__module__.startswith("pystreams.") else None
    if isinstance(serde, FunctionSerde) and repr(serde).startswith(_JSON_MODEL):
        return "json"
    if isinstance(serde, WindowedSerde):
        inner = None if serde.inner is None else _format(serde.inner)
        return None if inner is None else f"{_kind_of_windows(serde)}({inner})"
    module = type(serde).__module__
    return module if module.startswith(_REGISTRY) else None


def _kind_of_windows(serde: WindowedSerde[Any]) -> str:
    if isinstance(serde, SessionWindowedSerde):
        return "session of "
    assert isinstance(serde, TimeWindowedSerde), f"{serde} is of time windows"
    return "window of "
