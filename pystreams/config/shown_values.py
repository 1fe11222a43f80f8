"""A configuration as it may be shown: every value that was set, no secret."""

from __future__ import annotations

from typing import Any

from pystreams.config.resolution import is_secret
from pystreams.config.streams_config import KEY_DEFINITIONS, StreamsConfig

_HIDDEN = "(hidden)"


def shown_values(config: StreamsConfig) -> dict[str, Any]:
    """Return all values by key, those of secrets hidden, functions by their names."""
    return {
        name: _HIDDEN if is_secret(name) else _plain(value)
        for name, value in sorted(values_by_key(config).items())
    }


def values_by_key(config: StreamsConfig) -> dict[str, Any]:
    """Return all values as they are, what is passed on to the clients included."""
    known = {key.name: getattr(config, key.field) for key in KEY_DEFINITIONS}
    return {**known, **config.overrides}


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, list | tuple | set | frozenset):
        return sorted(str(_plain(entry)) for entry in value)
    if callable(value):
        return getattr(value, "__qualname__", repr(value))
    return str(getattr(value, "value", value))
