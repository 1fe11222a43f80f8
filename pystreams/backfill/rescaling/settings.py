"""What a move of state is told."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, slots=True)
class RescaleSettings:
    """What a move of state is told, beside topology and configuration.

    Attributes:
        to_application_id: The application that gets the state; one that has never run.
        output: The staging directory; to be reached by this path from all of Spark's workers.
        num_partitions: Partition counts that topics of the user's must have, by topic: a topic
            with another one is refused. Planning alone takes them for the topics' own.
        created_again: Topics that were deleted and created again, and hold nothing that the old
            application has processed: they are read from their beginning.
        options: More options of Spark's Kafka reader, such as `kafka.fetch.max.bytes`.
    """

    to_application_id: str
    output: Path
    num_partitions: Mapping[str, int] = field(default_factory=dict)
    created_again: frozenset[str] = frozenset()
    options: Mapping[str, str] = field(default_factory=dict)
