"""Numbers that operators commit with the offsets, and where windowed keys are written."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from pystreams import (
    EmitStrategy,
    JoinWindows,
    StoreEngine,
    StreamsBuilder,
    TimeWindows,
    Topology,
    serdes,
)
from pystreams.kernel.partitioner import partition_of
from pystreams.runtime.cluster.committed_offsets import (
    CommittedOffset,
    encode_entries,
    encode_partition_time,
    entries_of,
    numbers_of,
    with_numbers,
)
from pystreams.runtime.core.task import StreamTask
from tests.runtime.core.test_task import IN, add, process_all, started

TEXT: Any = {"key_serde": serdes.STRING, "value_serde": serdes.STRING}
OFFSET_METADATA_MAX_BYTES = 4096


def closing(**sink: Any) -> Topology:
    builder = StreamsBuilder()
    grouped = builder.stream("in", **TEXT).group_by_key()
    windowed = grouped.windowed_by(TimeWindows.of_size_with_no_grace(10))
    counts = windowed.emit_strategy(EmitStrategy.on_window_close()).count(
        name="counts", store_type=StoreEngine.IN_MEMORY
    )
    counts.to_stream().to(sink.pop("topic", "out"), value_serde=serdes.LONG, **sink)
    return builder.build()


def feed(task: StreamTask, *records: tuple[int, str]) -> None:
    """Process records, a second of the wall clock apart."""
    for record in records:
        task.time.go_on(task.time.now_ms + 1000)
        add(task, record)
        process_all(task)


def test_numbers_stand_behind_the_notes_in_kafka_streams_layout() -> None:
    metadata = encode_partition_time(7, with_numbers(encode_entries(["a"]), {"counts": 258}))

    data = base64.b64decode(metadata)
    counts = "00000006" + b"counts".hex() + "0000000000000102"
    assert data.hex() == "020000000000000007" + "00000002" + "0000000161" + "00" * 8 + counts
    assert numbers_of(metadata) == {"a": 0, "counts": 258}
    assert entries_of(metadata) == ["a", "counts"]
    assert with_numbers(b"", {}) == b""
    assert numbers_of("no metadata") == {}


def test_numbers_stay_below_what_brokers_take() -> None:
    numbers = {f"a-rather-long-name-of-a-store-{number:03}": number for number in range(1000)}
    metadata = encode_partition_time(7, with_numbers(b"", numbers))

    assert len(metadata) < OFFSET_METADATA_MAX_BYTES
    assert list(numbers_of(metadata)) == list(numbers)[: len(numbers_of(metadata))]


def test_how_far_results_were_sent_is_committed_under_the_stores_name() -> None:
    """As in Kafka Streams, beside the stream time, which it has not."""
    task = started(closing())
    feed(task, (5, "a"), (27, "b"))

    numbers = numbers_of(task.offsets_to_commit()[IN].metadata)
    assert numbers == {"counts": 27, "stream-time KSTREAM-AGGREGATE-0000000001": 27}


@pytest.mark.parametrize(
    ("committed", "alone"),
    [
        ({"stream-time KSTREAM-OUTERTHIS-0000000004": 1000}, True),
        ({"idle-time KSTREAM-OUTERTHIS-0000000004": 1000}, True),  # As it once stood alone.
        ({}, False),
    ],
)
def test_an_outer_join_goes_on_from_the_stream_time_that_was_committed(
    committed: dict[str, int], alone: bool
) -> None:
    builder = StreamsBuilder(idle_timeout_ms=10_000)
    left, right = builder.stream("in", **TEXT), builder.stream("other", **TEXT)
    windows = JoinWindows.of_time_difference_and_grace(10, 10_000)
    in_memory = StoreEngine.IN_MEMORY
    joined = left.outer_join(right, "{}+{}".format, windows, store_type=in_memory)
    joined.to("out", **TEXT)
    metadata = encode_partition_time(7, with_numbers(b"", committed))
    task = started(builder.build(), {IN: CommittedOffset(0, metadata)})
    feed(task, (100, "a"))

    sent = [output for output in task.outputs() if output.topic == "out" and output.records]
    assert bool(sent) == alone
    numbers = numbers_of(task.offsets_to_commit()[IN].metadata)
    assert numbers["stream-time KSTREAM-OUTERTHIS-0000000004"] == (1000 if alone else 100)


def test_what_was_committed_is_gone_on_from() -> None:
    committed = with_numbers(b"", {"counts": 100, "stream-time KSTREAM-AGGREGATE-0000000001": 109})
    task = started(closing(), {IN: CommittedOffset(0, encode_partition_time(109, committed))})
    feed(task, (99, "late"), (100, "open"), (98, "late"))

    assert task.counts.dropped == 2
    assert numbers_of(task.offsets_to_commit()[IN].metadata)["counts"] == 109


@pytest.mark.parametrize("topic", ["out", lambda *_: "out"], ids=["named", "chosen"])
def test_a_key_s_windows_are_written_to_the_partition_of_the_key(topic: Any) -> None:
    task = started(closing(topic=topic), num_partitions=lambda _: 7)
    feed(task, (5, "a"), (15, "b"), (25, "c"), (35, "d"))

    written = [output for output in task.outputs() if output.topic == "out" and output.records]
    assert {output.partition for output in written} == {partition_of(b"k", 7)}


def test_the_users_partitioner_comes_first() -> None:
    task = started(closing(partitioner=lambda *_: 3), num_partitions=lambda _: 7)
    feed(task, (5, "a"), (15, "b"))

    written = [output for output in task.outputs() if output.topic == "out" and output.records]
    assert {output.partition for output in written} == {3}
