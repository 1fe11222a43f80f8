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
        needed_policy: What `cleanup.policy` has to be for its use: "compact" for state that is
            kept, "delete" for records that are processed once; None where either will do.
    """

    name: str
    num_partitions: int
    config: Mapping[str, str]
    needed_policy: str | None = None
