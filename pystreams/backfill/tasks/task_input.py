"""How a task gets its records in a worker: as rows of Spark, or by reading partitions itself."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pystreams.backfill.plan.partition_bounds import PartitionBounds
from pystreams.backfill.plan.rows import (
    HEADERS,
    KEY,
    OFFSET,
    TIMESTAMP,
    TOPIC,
    VALUE,
    HistoryMessage,
    MessageInOrder,
    ResultBatch,
    headers_of,
)
from pystreams.backfill.plan.turns import TURN_HEADER, turn_in
from pystreams.backfill.sources.history import PartitionReader
from pystreams.backfill.tasks.history_task import HistoryTask
from pystreams.backfill.tasks.record_counts import TakenRecords
from pystreams.errors import StreamsError
from pystreams.ids import TopicPartition
from pystreams.record import ConsumedMessage


def fed_with_rows(
    task: HistoryTask, number: int, given: Iterable[pa.RecordBatch], *, gaps_allowed: bool
) -> Iterator[ResultBatch]:
    """Feed a task with rows in the order in which it is to take them.

    Args:
        given: Columns of `rows.HISTORY_TYPE`; a row without topic, a marker, is no record.
        gaps_allowed: Whether offsets may be missing.

    Raises:
        StreamsError: An offset is there twice, or is missing; or as `HistoryTask.feed`.
    """
    offsets = Offsets(gaps_allowed=gaps_allowed)
    for rows in given:
        batch: dict[TopicPartition, Sequence[HistoryMessage]] = {}
        for partition, own, places in _by_partition(number, rows):
            offsets.check(partition, own.column(OFFSET).to_numpy().tolist())
            if task.topics_in_turn:
                batch[partition] = _with_turns(task, partition, own, places)
            else:
                batch[partition] = messages_of(partition, own)
        yield from task.feed(batch)


def fed_by_reader(
    task: HistoryTask,
    reader: PartitionReader,
    bounds: Mapping[TopicPartition, PartitionBounds],
    taken: TakenRecords,
) -> Iterator[ResultBatch]:
    """Feed a task with what a reader gives of its partitions, always of those that have run out.

    Args:
        bounds: The partitions, and what is to be read of each.

    Raises:
        StreamsError: As `PartitionReader.read` and `HistoryTask.feed`.
    """
    with contextlib.ExitStack() as closing:
        unread = {
            partition: reader.read(partition, has)
            for partition, has in bounds.items()
            if has.records
        }
        for records in unread.values():
            closing.callback(records.close)
        while unread:
            batch: dict[TopicPartition, Sequence[ConsumedMessage]] = {}
            for partition in [read for read in unread if not task.buffered_records(read)]:
                messages = next(unread[partition], None)
                if messages is None:
                    del unread[partition]
                else:
                    batch[partition] = messages
            yield from task.feed(batch, unread)
            taken.add(sum(map(len, batch.values())))


class Offsets:
    """Sees that each offset of a partition comes once and, unless gaps may be, none is missing."""

    def __init__(self, *, gaps_allowed: bool) -> None:
        self._gaps_allowed = gaps_allowed
        self._next: dict[TopicPartition, int] = {}

    def check(self, partition: TopicPartition, offsets: list[int]) -> None:
        """Look at the offsets of the next records of one partition, in order.

        Raises:
            StreamsError: An offset is there twice, or missing.
        """
        first, last = offsets[0], offsets[-1]
        expected = self._next.get(partition, first)
        self._next[partition] = last + 1
        in_a_row = first == expected and offsets == list(range(first, last + 1))
        if in_a_row:
            return
        for offset in offsets:
            if offset < expected:
                raise StreamsError(
                    f"{partition} has offset {offset} more than once in the history: "
                    "remove the copies"
                )
            if offset > expected and not self._gaps_allowed:
                raise StreamsError(
                    f"{partition} has a gap: offset {expected - 1} is followed by {offset}. Add "
                    "the missing records, or allow gaps (--gaps-allowed, gaps_allowed=True)"
                )
            expected = offset + 1


def _by_partition(
    number: int, rows: pa.RecordBatch
) -> Iterator[tuple[TopicPartition, pa.RecordBatch, Sequence[int]]]:
    """Return the rows of each topic, and their places among all; markers are of none."""
    encoded = rows.column(TOPIC).dictionary_encode()
    topics = encoded.dictionary.to_pylist()
    if len(topics) == 1 and not encoded.null_count:
        yield TopicPartition(topics[0], number), rows, range(rows.num_rows)
        return
    for code, topic in enumerate(topics):
        is_own = pc.equal(encoded.indices, code)
        places = pc.indices_nonzero(is_own).to_numpy().tolist()
        yield TopicPartition(topic, number), rows.filter(is_own), places


def messages_of(partition: TopicPartition, rows: pa.RecordBatch) -> list[HistoryMessage]:
    """Return the messages of one partition: a column at a time, because a value at a time is slow.

    Through numpy, whose lists of integers and bytes take a tenth of the time of Arrow's own.
    """
    headers = headers_of(rows.column(HEADERS))
    return HistoryMessage.of_columns(partition, *_columns_of(rows), headers)


def _with_turns(
    task: HistoryTask, partition: TopicPartition, rows: pa.RecordBatch, places: Sequence[int]
) -> list[MessageInOrder]:
    """Return the messages of one partition; what has a turn follows its history, which has none."""
    if partition.topic not in task.topics_in_turn:
        return messages_in_order(partition, rows, places, in_turn=False)
    before = 0
    if partition.topic in task.topics_with_history:
        before = _records_before_turns(rows.column(HEADERS))
    history = messages_in_order(partition, rows.slice(0, before), places[:before], in_turn=False)
    own = messages_in_order(partition, rows.slice(before), places[before:], in_turn=True)
    return history + own


def _records_before_turns(column: pa.Array) -> int:
    """Return how many records come before the first one that has a turn."""
    with_any = np.flatnonzero(column.value_lengths().fill_null(0).to_numpy())
    last = column.offsets.to_numpy()[with_any + 1] - 1
    is_turn = pc.equal(column.values.field("key").take(pa.array(last)), TURN_HEADER)
    found = with_any[is_turn.to_numpy(zero_copy_only=False)]
    return int(found[0]) if len(found) else len(column)


def messages_in_order(
    partition: TopicPartition, rows: pa.RecordBatch, places: Iterable[int], *, in_turn: bool
) -> list[MessageInOrder]:
    """Return the messages of one partition of a task that reads records with turns.

    Args:
        places: Their places among the rows of all partitions.
        in_turn: Whether its records have turns, which go from their headers.

    Raises:
        StreamsError: One has none.
    """
    column = rows.column(HEADERS)
    headers, turns = (
        headers_and_turns(column) if in_turn else (headers_of(column), [-1] * len(column))
    )
    return MessageInOrder.of_columns(partition, *_columns_of(rows), headers, places, turns)


def headers_and_turns(column: pa.Array) -> tuple[list[Any], list[int]]:
    """Return the headers of records without the last one, and the turn (ms) that it holds.

    Most have no other, so those are not looked at one by one.

    Raises:
        StreamsError: A record has no turn.
    """
    counts = column.value_lengths().fill_null(0).to_numpy()
    if not counts.all():
        turn_in(None)
    last = column.values.take(pc.subtract(column.offsets[1:], 1))
    if not pc.all(pc.equal(last.field("key"), TURN_HEADER)).as_py():
        turn_in([("", None)])
    turns = np.frombuffer(b"".join(_bytes_in(last.field("value"))), ">i8").tolist()
    if counts.max() == 1:
        return [None] * len(column), turns
    return [headers[:-1] or None for headers in headers_of(column)], turns


def _columns_of(rows: pa.RecordBatch) -> tuple[list[int], list[int], list[Any], list[Any]]:
    offsets, timestamps = (rows.column(at).to_numpy().tolist() for at in (OFFSET, TIMESTAMP))
    keys, values = (_bytes_in(rows.column(at)) for at in (KEY, VALUE))
    return offsets, timestamps, keys, values


def _bytes_in(column: pa.Array) -> list[Any]:
    found: list[Any] = column.to_numpy(zero_copy_only=False).tolist()
    return found
