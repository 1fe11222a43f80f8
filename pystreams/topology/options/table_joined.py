"""`TableJoined`: where the records of a join by a foreign key go. Source: Kafka's `TableJoined`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic

from pystreams.topology.graph.nodes import StreamPartitioner
from pystreams.topology.options.given_options import CheckedOptions
from pystreams.topology.options.type_variables import K, VOther


@dataclass(frozen=True)
class TableJoined(CheckedOptions, Generic[K, VOther]):
    """How the two tables of a join by a foreign key are partitioned, if not by Kafka's murmur2.

    Attributes:
        partitioner: What the primary table's topic was partitioned with: chooses the partition of
            a row's key; called with (topic, key, None, number of partitions).
        other_partitioner: The same of the foreign table's topic.
    """

    partitioner: StreamPartitioner | None = None
    other_partitioner: StreamPartitioner | None = None
