"""The order in which a task takes the records of its partitions, as keys to sort by.

`PartitionGroup` merges the partitions of a task by their heads: the smallest timestamp first, and
among equal ones the first partition by name. A record is taken as soon as it is at the head and
nothing smaller is; so it waits for the highest timestamp that stands before it in its own
partition, itself included, and for nothing else. Therefore sorting by

    (highest timestamp so far in the partition, topic, offset)

gives the same order. Example, timestamps of two partitions: a: 5 3 9, b: 4 6. The heads give
b4 a5 a3 b6 a9; the keys are a: 5 5 9, b: 4 6, and sorted they give the same.

Spec: KIP-353; `pystreams.runtime.core.partition_group`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator


def waiting_times(timestamps: Iterable[int]) -> Iterator[int]:
    """Return for each record of one partition the highest timestamp up to it (ms)."""
    highest = -1
    for timestamp in timestamps:
        highest = max(highest, timestamp)
        yield highest
