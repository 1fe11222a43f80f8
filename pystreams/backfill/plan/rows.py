"""The rows a backfill reads and writes, as Spark and Parquet have them.

History: one row a record, as it stands in its topic.
Results: one row a record that a task wrote, one a changelog record that restores a part of its
state, and one at its end that says how far it came.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import partial
from itertools import repeat
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from pystreams.ids import TopicPartition
from pystreams.record import Headers, ProducedRecord

if TYPE_CHECKING:
    import pyarrow as pa

HEADERS_TYPE = "array<struct<key: string, value: binary>>"

HISTORY_TYPE = (
    "topic string, partition int, offset bigint, timestamp bigint, key binary, value binary, "
    f"headers {HEADERS_TYPE}"
)
"""A record of the history; `timestamp` is milliseconds since the epoch."""

TOPIC, PARTITION, OFFSET, TIMESTAMP, KEY, VALUE, HEADERS = range(7)
"""The columns of `HISTORY_TYPE`, by number."""

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
    partition time, `value` the numbers that operators commit with the offset."""


def place_of(kind: int, name: str, task: int) -> Path:
    """Return where the rows of a task of one kind and name lie in a stage's directory."""
    return Path(f"kind={int(kind)}", f"name={name}", f"task={task}")


def payload_bytes(
    key: bytes | None, value: bytes | None, headers: Iterable[tuple[str, bytes | None]]
) -> int:
    """Return what a record's user has put into it (bytes), as if names of headers were ASCII."""
    size = len(key or b"") + len(value or b"")
    for name, content in headers:
        size += len(name) + len(content or b"")
    return size


class Result(NamedTuple):
    """One row of a task's results.

    Attributes:
        name: A topic or a store, see `ResultKind`.
        sequence: Its place among the task's results of that kind and name.
        timestamp: Milliseconds since the epoch.
        key: The key's bytes, or None.
        value: The value's bytes, or None.
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


@dataclass(frozen=True, slots=True)
class ResultBatch:
    """Rows of a task's results that follow one another: of one kind and name, as columns.

    Attributes:
        name: A topic or a store, see `ResultKind`.
        sequence: The first one's place among the task's results of that kind and name.
        records: Key, value, timestamp and headers of each.
    """

    kind: ResultKind
    task: int
    name: str
    partitions: Sequence[int]
    sequence: int
    records: Sequence[ProducedRecord]


_Headers = list[tuple[str, bytes | None]] | None


class HistoryMessage(tuple[str, int, int, int, bytes | None, bytes | None, _Headers]):
    """A `ConsumedMessage` of a row: topic, partition, offset, timestamp, key, value, headers.

    One is made a record, so it is a tuple, which takes a third of the time of an object.
    """

    __slots__ = ()

    @classmethod
    def of_columns(
        cls,
        partition: TopicPartition,
        offsets: Iterable[int],
        timestamps: Iterable[int],
        keys: Iterable[bytes | None],
        values: Iterable[bytes | None],
        headers: Iterable[_Headers],
        *more: Iterable[int],
    ) -> list[Self]:
        """Return the messages of one partition; `more` is what a class has beside these."""
        topic, number = map(repeat, partition)
        rows = zip(topic, number, offsets, timestamps, keys, values, headers, *more, strict=False)
        return list(map(partial(tuple.__new__, cls), rows))

    def topic(self) -> str:
        """Return the topic."""
        return self[0]

    def partition(self) -> int:
        """Return the partition."""
        return self[1]

    def offset(self) -> int:
        """Return the offset."""
        return self[2]

    def timestamp(self) -> tuple[int, int]:
        """Return (create time, milliseconds since the epoch)."""
        return 1, self[3]

    def key(self) -> bytes | None:
        """Return the key's bytes."""
        return self[4]

    def value(self) -> bytes | None:
        """Return the value's bytes."""
        return self[5]

    def headers(self) -> _Headers:
        """Return the headers, or None when there are none."""
        return self[6]


class MessageInOrder(HistoryMessage):
    """A message with its place among those of all partitions of its task, and its turn (`turns`).

    These stand behind its own fields: it is made by `of_columns`, of the columns of a message,
    places, and turns (ms), which are -1 where there are none.
    """

    __slots__ = ()

    place = property(itemgetter(7), doc="Its number in the order in which the task takes them.")
    turn_ms = property(itemgetter(8), doc="Its turn (ms), -1 without one.")


def headers_of(column: pa.Array) -> list[Any]:
    """Return headers as a message has them: a list of pairs, or None where there are none."""
    if column.null_count == len(column):
        return [None] * len(column)
    return [
        [(header["key"], header["value"]) for header in headers] if headers else None
        for headers in column.to_pylist()
    ]
