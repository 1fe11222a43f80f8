"""What a history has of its partitions: the offsets it covers, and how many records are there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

from pystreams.ids import TopicPartition


class PartitionBounds(NamedTuple):
    """What the history has of one partition.

    Attributes:
        first: The first offset.
        end: The offset after the last; where a live application goes on.
        records: How many records, or an upper bound where only the offsets are known.
    """

    first: int
    end: int
    records: int


def records_by_topic(bounds: Mapping[TopicPartition, PartitionBounds]) -> dict[str, int]:
    """Return how many records each topic has, an upper bound where the partitions' are."""
    found = Counter[str]()
    for partition, has in bounds.items():
        found[partition.topic] += has.records
    return dict(found)
