"""A topic to create, as a plain value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic to create.

    Attributes:
        name: Real name.
        num_partitions: Partition count; -1 for the broker's default.
        config: Topic configuration.
    """

    name: str
    num_partitions: int
    config: Mapping[str, str]
