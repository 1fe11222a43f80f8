"""Which pystreams is installed, as its package says."""

from __future__ import annotations

from functools import cache

_PACKAGE = "pystreams-kafka"


@cache
def installed_version() -> str:
    """Return the version, such as `0.1.0`; it is read once."""
    from importlib.metadata import version

    return version(_PACKAGE)
