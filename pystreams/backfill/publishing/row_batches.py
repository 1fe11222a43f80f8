"""Staged rows as the contents of transactions: where each row goes, and how many go together."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from pystreams.backfill.plan.rows import Result, ResultKind, payload_bytes
from pystreams.ids import TopicPartition
from pystreams.record import OutputBuffer
from pystreams.topology.plan.topology_plan import TopologyPlan

_ROW_BYTES = 64
"""What a record takes beside its key, value and headers, about."""


@dataclass(frozen=True, slots=True)
class RowBatch:
    """The rows of one transaction.

    Attributes:
        rows: How many rows were taken, those that are not published included.
        outputs: The records, by partition.
    """

    rows: int
    records: int
    outputs: tuple[OutputBuffer, ...]


@dataclass(frozen=True, slots=True)
class RowBatches:
    """Takes the rows of one transaction after the other.

    Attributes:
        with_outputs: Whether output records are published too; changelogs always are.
        records_max: How many records a transaction has at most.
        size_max_bytes: Above so many bytes of keys, values and headers a transaction ends.
    """

    plan: TopologyPlan
    with_outputs: bool
    records_max: int
    size_max_bytes: int

    def take(self, rows: Iterator[Result]) -> RowBatch | None:
        """Take the rows of the next transaction; None when none is left."""
        buffers: dict[TopicPartition, OutputBuffer] = {}
        taken = records = size_bytes = 0
        for row in rows:
            taken += 1
            place = self.place(row)
            if place is not None:
                buffer = buffers.get(place)
                if buffer is None:
                    is_changelog = row.kind == ResultKind.STATE
                    buffer = buffers[place] = OutputBuffer(*place, is_changelog=is_changelog)
                buffer.records.append((row.key, row.value, row.timestamp, row.headers))
                records += 1
                size_bytes += payload_bytes(row.key, row.value, row.headers) + _ROW_BYTES
            if records >= self.records_max or size_bytes >= self.size_max_bytes:
                break
        return RowBatch(taken, records, tuple(buffers.values())) if taken else None

    def place(self, row: Result) -> TopicPartition | None:
        """Return where a row is written to; None when it is not."""
        if row.kind == ResultKind.STATE:
            return TopicPartition(self.plan.changelog_topic(row.name), row.partition)
        if row.kind == ResultKind.OUTPUT and self.with_outputs:
            internal = row.name in self.plan.repartition_topics()
            return None if internal else TopicPartition(row.name, row.partition)
        return None
