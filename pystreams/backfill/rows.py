"""The rows a backfill reads and writes, as Spark and Parquet have them.

History: one row a record, as it stands in its topic.
Results: one row a record that a task wrote, one a changelog record that restores a part of its
state, and one at its end that says how far it came.
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

from pystreams.record import Headers

HEADERS_TYPE = "array<struct<key: string, value: binary>>"

HISTORY_TYPE = (
    "topic string, partition int, offset bigint, timestamp bigint, key binary, value binary, "
    f"headers {HEADERS_TYPE}"
)
"""A record of the history; `timestamp` is milliseconds since the epoch."""

RESULT_TYPE = (
    "kind int, task int, name string, partition int, sequence bigint, timestamp bigint, "
    f"key binary, value binary, headers {HEADERS_TYPE}"
)
"""A `Result`."""


class ResultKind(IntEnum):
    """What a result row is."""

    OUTPUT = 0
    """A record written to a topic: `name` is the topic, `partition` its partition."""
    STATE = 1
    """A changelog record: `name` is the store, `partition` the task's."""
    END = 2
    """A source partition is read: `name` is the topic, `sequence` the next offset, `timestamp` the
    partition time."""


class Result(NamedTuple):
    """One row of a task's results.

    Attributes:
        kind: What it is.
        task: The task's partition.
        name: A topic or a store, see `ResultKind`.
        partition: The partition it belongs to.
        sequence: Its place among the task's results of that kind and name.
        timestamp: Milliseconds since the epoch.
        key: The key's bytes, or None.
        value: The value's bytes, or None.
        headers: The headers.
    """

    kind: ResultKind
    task: int
    name: str
    partition: int
    sequence: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers


class HistoryMessage:
    """A `ConsumedMessage` of a row. Made once a record, so it is slots and nothing else."""

    __slots__ = ("_headers", "_key", "_offset", "_partition", "_timestamp", "_topic", "_value")

    def __init__(
        self,
        topic: str,
        partition: int,
        offset: int,
        timestamp: int,
        key: bytes | None,
        value: bytes | None,
        headers: list[tuple[str, bytes | None]] | None,
    ) -> None:
        self._topic = topic
        self._partition = partition
        self._offset = offset
        self._timestamp = timestamp
        self._key = key
        self._value = value
        self._headers = headers

    def topic(self) -> str:
        """Return the topic."""
        return self._topic

    def partition(self) -> int:
        """Return the partition."""
        return self._partition

    def offset(self) -> int:
        """Return the offset."""
        return self._offset

    def key(self) -> bytes | None:
        """Return the key's bytes."""
        return self._key

    def value(self) -> bytes | None:
        """Return the value's bytes."""
        return self._value

    def timestamp(self) -> tuple[int, int]:
        """Return (create time, milliseconds since the epoch)."""
        return 1, self._timestamp

    def headers(self) -> list[tuple[str, bytes | None]] | None:
        """Return the headers, or None when there are none."""
        return self._headers
