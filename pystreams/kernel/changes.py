"""Changes to a mapping, among which None deletes."""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping
from typing import TypeVar

_K = TypeVar("_K")
_V = TypeVar("_V")


def apply_changes(held: MutableMapping[_K, _V], changes: Mapping[_K, _V | None]) -> None:
    """Give a mapping the values that changes have for its keys; None deletes."""
    for key, value in changes.items():
        if value is None:
            held.pop(key, None)
        else:
            held[key] = value
