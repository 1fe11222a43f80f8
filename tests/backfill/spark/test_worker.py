"""Rows on their way from Spark to a task; without Spark."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from pystreams import StreamsError, TopicPartition
from pystreams.backfill.tasks.task_input import Offsets, _by_partition, messages_of
from pystreams.backfill.tasks.worker import _by_task
from tests.backfill.in_process import Row, batch_of

PARTITION = TopicPartition("in", 3)
MARKER = (None, 3, None, None, None, None, None)


def rows_of(messages: Sequence[Any]) -> list[Row]:
    return [
        Row(
            message.topic(),
            message.partition(),
            message.offset(),
            message.timestamp()[1],
            message.key(),
            message.value(),
            tuple(message.headers() or ()),
        )
        for message in messages
    ]


def test_messages_are_the_rows_with_their_nulls_and_headers() -> None:
    rows = [
        Row("in", 3, 7, 50, b"k", b"\x00\xff", (("h", b"1"), ("h", None))),
        Row("in", 3, 8, 20, None, b"", ()),
        Row("in", 3, 9, 30, b"", None, ()),
    ]

    messages = messages_of(PARTITION, batch_of(rows))

    assert rows_of(messages) == rows
    assert [message.headers() for message in messages[1:]] == [None, None]
    assert rows_of(messages_of(PARTITION, batch_of(rows[1:]))) == rows[1:]


def test_each_topic_keeps_its_order_and_markers_are_of_none() -> None:
    rows = [
        Row("b", 3, 0, 1, None, None),
        Row("a", 3, 0, 2, None, None),
        Row("b", 3, 1, 3, None, None),
    ]
    batch = batch_of([MARKER, *rows])

    found = {
        partition: rows_of(messages_of(partition, own))
        for partition, own, _ in _by_partition(3, batch)
    }

    assert found == {
        TopicPartition("b", 3): [rows[0], rows[2]],
        TopicPartition("a", 3): [rows[1]],
    }
    assert list(_by_partition(3, batch_of([MARKER]))) == []


def test_batch_is_cut_where_the_next_task_begins() -> None:
    first = [Row("in", 0, offset, 1, None, None) for offset in range(3)]
    second = [Row("in", 1, offset, 1, None, None) for offset in range(2)]

    parts = list(_by_task([batch_of([*first, second[0]]), batch_of([second[1]])]))

    assert [(number, rows.num_rows) for number, rows in parts] == [(0, 3), (1, 1), (1, 1)]
    assert rows_of(messages_of(TopicPartition("in", 0), parts[0][1])) == first
    assert list(_by_task([batch_of([MARKER]).slice(0, 0)])) == []


def test_gap_between_two_batches_is_found_unless_it_may_be() -> None:
    strict, lax = Offsets(gaps_allowed=False), Offsets(gaps_allowed=True)
    strict.check(PARTITION, [4, 5])
    lax.check(PARTITION, [4, 5])

    lax.check(PARTITION, [8, 9, 20])
    with pytest.raises(StreamsError, match=r"has a gap: offset 5 is followed by 8.*--gaps-allowed"):
        strict.check(PARTITION, [8, 9])


@pytest.mark.parametrize("offsets", [[5], [4], [6, 7, 7], [7, 6]])
def test_offset_that_comes_again_or_too_late_is_refused(offsets: list[int]) -> None:
    seen = Offsets(gaps_allowed=True)
    seen.check(PARTITION, [4, 5])

    with pytest.raises(StreamsError, match=r"in-3 has offset \d more than once"):
        seen.check(PARTITION, offsets)
