"""The queue of one partition: decoding, skipping, offsets, runs."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs

from pystreams import (
    ConsumerRecord,
    ErrorContext,
    ErrorResponse,
    ProcessingError,
    SerializationError,
    StreamsError,
    log_and_continue,
    log_and_skip_on_invalid_timestamp,
    use_partition_time_on_invalid_timestamp,
)
from pystreams.runtime.core.queues.record_queue import (
    RECORD_OVERHEAD_BYTES,
    message_of,
    timestamp_of,
)
from tests.runtime.core.queues import BAD, TASK, message, queue_of

# ------------------------------------------------------------------ decoding


def test_records_come_out_decoded_in_offset_order() -> None:
    queue = queue_of()
    queue.add([message(3, 10, b"a"), message(4, 5, b"b")])

    taken = queue.take(10)

    assert [(key, value, time) for key, value, time, _, _ in taken] == [
        ("k", "a", 10),
        ("k", "b", 5),
    ]


def test_null_keys_and_values_are_not_given_to_the_serde() -> None:
    queue = queue_of()
    queue.add([message(0, value=None, key=None)])

    assert queue.take(1)[0][:2] == (None, None)


@pytest.mark.parametrize("part", ["key", "value"])
def test_an_undecodable_record_fails_with_its_coordinates(part: str) -> None:
    queue = queue_of()
    bad = message(8, value=BAD) if part == "value" else message(8, key=BAD)

    with pytest.raises(SerializationError, match=f"task 0_0: can't read the {part}") as caught:
        queue.add([message(7), bad])

    error = caught.value
    assert (error.topic, error.partition, error.offset) == ("t", 0, 8)
    assert f"{part}_serde" in str(error)
    assert "'source'" in str(error)


def test_a_handler_sees_the_raw_record_and_may_go_on_without_it() -> None:
    seen: list[ErrorContext] = []

    def handler(context: ErrorContext, error: Exception) -> ErrorResponse:
        assert isinstance(error, ValueError)
        seen.append(context)
        return ErrorResponse.CONTINUE

    queue = queue_of(handler=handler)
    queue.add([message(1), message(2, 44, BAD), message(3)])

    assert [message_of(item).offset() for item in queue.take(9)] == [1, 3]
    assert queue.dropped == 1
    [context] = seen
    assert (context.stage, context.task_id, context.offset) == ("deserialization", TASK, 2)
    assert (context.timestamp, context.key, context.value) == (44, b"k", BAD)


def test_a_failed_batch_leaves_the_queue_as_it_was() -> None:
    queue = queue_of()
    queue.add([message(1)])

    with pytest.raises(SerializationError):
        queue.add([message(2), message(3, value=BAD)])

    assert len(queue) == 1
    assert queue.next_offset == 1


# ------------------------------------------------------------------ timestamps


def test_a_negative_timestamp_fails_by_default() -> None:
    with pytest.raises(StreamsError, match="timestamp"):
        queue_of().add([message(0, -1)])


def test_a_negative_timestamp_may_drop_the_record() -> None:
    queue = queue_of(extractor=log_and_skip_on_invalid_timestamp)
    queue.add([message(0, 5), message(1, -1), message(2, 6)])

    assert list(map(timestamp_of, queue.take(9))) == [5, 6]
    assert queue.dropped == 1
    assert queue.next_offset == 3


def test_records_that_are_dropped_for_their_timestamp_are_warned_of_once_a_batch() -> None:
    queue = queue_of(extractor=log_and_skip_on_invalid_timestamp)
    with capture_logs() as logs:
        queue.add([message(0, 5)])
        queue.add([message(1, 5), message(2, -7), message(3, 6), message(4, -1), message(5, -1)])
        queue.add([message(6, -1)])

    assert [(line["log_level"], line["event"], line["more"]) for line in logs] == [
        ("warning", "record without a valid timestamp skipped", 2),
        ("warning", "record without a valid timestamp skipped", 0),
    ]
    first = logs[0]
    assert (first["task"], first["node"]) == ("0_0", "source")
    assert (first["topic"], first["partition"], first["offset"]) == ("t", 0, 2)
    assert (first["timestamp"], first["extracted"]) == (-7, -7)
    assert queue.dropped == 4


def test_a_record_that_the_users_extractor_drops_is_warned_of() -> None:
    queue = queue_of(extractor=lambda _record, _partition_time: -2)
    with capture_logs() as logs:
        queue.add([message(3, 5)])

    (line,) = logs
    assert (line["offset"], line["timestamp"], line["extracted"]) == (3, 5, -2)


def test_a_partition_time_that_is_not_known_replaces_no_timestamp() -> None:
    queue = queue_of(extractor=use_partition_time_on_invalid_timestamp)

    with pytest.raises(StreamsError, match=r"t-0 offset 4 .*not known.*log_and_skip") as caught:
        queue.add([message(4, -1), message(5, 9)])

    assert "(-1)" in str(caught.value)
    assert queue.dropped == 0


def test_the_partition_time_that_was_committed_replaces_a_negative_timestamp() -> None:
    queue = queue_of(extractor=use_partition_time_on_invalid_timestamp)
    queue.partition_time = 8
    queue.add([message(4, -1)])

    assert timestamp_of(queue.take(1)[0]) == 8


def test_a_negative_timestamp_may_become_the_highest_of_the_partition_so_far() -> None:
    queue = queue_of(extractor=use_partition_time_on_invalid_timestamp)
    queue.add([message(0, 9)])
    queue.take(1)
    queue.add([message(1, -1), message(2, 20), message(3, -1), message(4, 3), message(5, -1)])

    assert list(map(timestamp_of, queue.take(9))) == [9, 20, 20, 3, 20]


def test_an_extractor_sees_coordinates_and_the_time_of_the_iteration() -> None:
    seen: list[ConsumerRecord] = []

    def extractor(record: ConsumerRecord, partition_time: int) -> int:
        seen.append(record)
        return record.now_ms

    queue = queue_of(extractor=extractor)
    queue.now_ms = 77
    queue.add([message(4, 1, b"x")])

    assert timestamp_of(queue.take(1)[0]) == 77
    assert (seen[0].topic, seen[0].offset, seen[0].value) == ("t", 4, "x")


def test_partition_time_is_the_highest_timestamp_taken_and_survives_a_clear() -> None:
    queue = queue_of()
    queue.add([message(0, 7), message(1, 3), message(2, 9)])

    assert queue.partition_time == -1
    queue.take(2)
    assert queue.partition_time == 7
    queue.clear()
    assert queue.partition_time == 7
    assert len(queue) == 0


# ------------------------------------------------------------------ offsets


def test_the_next_offset_is_unknown_before_the_first_record() -> None:
    queue = queue_of()
    queue.add([])

    assert queue.next_offset is None


def test_the_next_offset_is_that_of_the_first_waiting_record() -> None:
    queue = queue_of()
    queue.add([message(5), message(9), message(12)])

    assert queue.next_offset == 5
    queue.take(1)
    assert queue.next_offset == 9
    queue.take(2)
    assert queue.next_offset == 13


def test_skipped_records_at_the_end_are_passed_with_the_record_before_them() -> None:
    queue = queue_of(handler=log_and_continue)
    queue.add([message(5), message(6, value=BAD), message(7, value=BAD)])
    queue.take(1)

    assert queue.next_offset == 8


def test_a_batch_of_skipped_records_alone_is_passed_at_once() -> None:
    queue = queue_of(handler=log_and_continue)
    queue.add([message(5, value=BAD), message(6, value=BAD)])

    assert queue.next_offset == 7


def test_a_batch_of_skipped_records_is_not_passed_before_what_waits() -> None:
    queue = queue_of(handler=log_and_continue)
    queue.add([message(5)])
    queue.add([message(6, value=BAD)])

    assert queue.next_offset == 5
    queue.take(1)
    assert queue.next_offset == 7


@given(
    st.lists(st.lists(st.booleans(), max_size=6), max_size=6),
    st.lists(st.integers(1, 5), min_size=1),
)
def test_offsets_never_pass_a_waiting_record_nor_stay_behind_all_taken(
    batches: list[list[bool]], takes: list[int]
) -> None:
    """Whatever is bad, however batches and takes interleave."""
    queue = queue_of(handler=log_and_continue)
    offset = 0
    waiting: list[int] = []
    steps = iter(takes * 50)
    for batch in batches:
        messages = []
        for good in batch:
            messages.append(message(offset, value=b"v" if good else BAD))
            if good:
                waiting.append(offset)
            offset += 1
        queue.add(messages)
        taken = [message_of(item).offset() for item in queue.take(next(steps))]
        assert taken == waiting[: len(taken)]
        del waiting[: len(taken)]
        assert len(queue) == len(waiting)
        if waiting:
            last_taken_or_skipped = waiting[0]
            assert queue.next_offset is not None
            assert queue.next_offset <= last_taken_or_skipped
        elif offset:
            assert queue.next_offset == offset


# ------------------------------------------------------------------ runs


def test_a_run_to_a_time_ends_with_the_record_that_reaches_it() -> None:
    queue = queue_of()
    queue.add([message(0, 1), message(1, 4), message(2, 8), message(3, 5)])
    queue.take(1)

    assert queue.run_length_to_time(9, 5) == 2
    assert queue.run_length_to_time(9, 4) == 1
    assert queue.run_length_to_time(9, 100) == 3
    assert queue.run_length_to_time(1, 100) == 1


def test_bytes_of_a_run_count_keys_values_and_an_overhead() -> None:
    queue = queue_of()
    queue.add([message(0, value=b"four"), message(1, value=None, key=None)])

    assert queue.input_bytes(1) == 5 + RECORD_OVERHEAD_BYTES
    assert queue.input_bytes(2) == 5 + 2 * RECORD_OVERHEAD_BYTES
    assert queue.run_length_of_small(9, 4 + RECORD_OVERHEAD_BYTES) == 0
    assert queue.run_length_of_small(9, 5 + RECORD_OVERHEAD_BYTES) == 2
    assert queue.run_length_of_small(1, 5 + RECORD_OVERHEAD_BYTES) == 1


def test_a_run_of_small_records_ends_before_the_first_large_one() -> None:
    queue = queue_of()
    queue.add([message(offset, value=b"v" * size) for offset, size in enumerate([1, 1, 50, 1])])

    assert queue.run_length_of_small(9, 20 + RECORD_OVERHEAD_BYTES) == 2


def test_bytes_stay_with_their_records_when_some_are_skipped() -> None:
    queue = queue_of(handler=log_and_continue)
    queue.add([message(0, value=BAD), message(1, value=b"123456789")])

    assert queue.input_bytes(1) == 10 + RECORD_OVERHEAD_BYTES


def test_taking_from_an_empty_queue_changes_nothing() -> None:
    queue = queue_of()

    assert queue.take(5) == []
    assert queue.next_offset is None


class WholeNumber:
    """A number as numpy has them."""

    def __index__(self) -> int:
        return 7


@pytest.mark.parametrize("returned", [None, "1", 1.5, 1 << 63])
def test_what_an_extractor_returns_that_is_no_time_is_told_with_its_record(returned: Any) -> None:
    queue = queue_of(extractor=lambda _record, _partition_time: returned)

    with pytest.raises(ProcessingError, match="extractor of source 'source' returned") as caught:
        queue.add([message(8, 10)])

    assert (caught.value.node, caught.value.topic, caught.value.offset) == ("source", "t", 8)
    assert "a number of ms" in str(caught.value)


def test_an_extractor_may_return_a_whole_number_of_another_class() -> None:
    whole: Any = WholeNumber()
    queue = queue_of(extractor=lambda _record, _partition_time: whole)
    queue.add([message(8, 10)])

    assert [type(timestamp_of(item)) for item in queue.take(1)] == [int]
    assert queue.partition_time == 7
