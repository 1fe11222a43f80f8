"""The mark that says how far a group's state is published."""

from __future__ import annotations

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pystreams import FatalStreamsError, StreamsBuilder, TaskId, TopicPartition
from pystreams.runtime.cluster.committed_offsets import (
    UNKNOWN_TIME,
    CommittedOffset,
    decode_partition_time,
    encode_partition_time,
)
from pystreams.runtime.cluster.publishing_mark import (
    PublishingMark,
    encode_published,
    is_being_published,
    published_by,
)
from pystreams.runtime.tasks.start_positions import start_positions
from pystreams.topology.plan.topology_plan import TopologyPlan

MARK = PublishingMark("9f86d081884c7d65", 20_000, with_outputs=False)
MARKS = st.builds(
    PublishingMark,
    st.text("abcdef0123456789-", min_size=1, max_size=64),
    st.integers(0, 1 << 62),
    st.booleans(),
)


def test_format_is_that_of_the_docstring() -> None:
    assert MARK.encode() == "pystreams-publishing 1 9f86d081884c7d65 20000 state"


@pytest.mark.property
@given(MARKS)
def test_mark_comes_back_and_fits_kafkas_metadata(mark: PublishingMark) -> None:
    assert PublishingMark.decode(mark.encode()) == mark
    assert len(mark.encode().encode()) < 4096 // 8


@pytest.mark.property
@given(MARKS)
def test_mark_is_no_partition_time_and_a_partition_time_no_mark(mark: PublishingMark) -> None:
    assert decode_partition_time(mark.encode()) == UNKNOWN_TIME
    assert PublishingMark.decode(encode_partition_time(mark.rows)) is None
    assert not is_being_published(encode_partition_time(mark.rows))


@pytest.mark.property
@given(st.integers(-1, 1 << 62), MARKS)
def test_handed_over_partition_keeps_its_time_and_names_the_publication(
    time_ms: int, mark: PublishingMark
) -> None:
    metadata = encode_published(time_ms, mark.publication)

    assert decode_partition_time(metadata) == time_ms
    assert published_by(metadata) == mark.publication
    assert not is_being_published(metadata)
    for other in ("", "text", mark.encode(), encode_partition_time(time_ms)):
        assert published_by(other) is None


def test_handed_over_format_is_that_of_the_docstring() -> None:
    data = base64.b64decode(encode_published(1000, "ab"))

    assert data.hex().startswith("0200000000000003e80000000100000016" + b"pystreams-".hex())
    assert data.hex().endswith("6162" + "00" * 8)


@pytest.mark.parametrize(
    "text",
    [
        "pystreams-publishing 2 x 1 state",
        "pystreams-publishing 1 x state",
        "pystreams-publishing 1 x many state",
    ],
)
def test_mark_of_another_version_or_damaged_is_an_error_and_still_a_mark(text: str) -> None:
    assert is_being_published(text)
    with pytest.raises(ValueError, match=r"mark|many"):
        PublishingMark.decode(text)


def test_task_does_not_start_on_a_mark() -> None:
    builder = StreamsBuilder()
    builder.stream("in").to("out")
    partition = TopicPartition("in", 0)
    committed = {partition: CommittedOffset(0, MARK.encode())}

    with pytest.raises(FatalStreamsError, match=r"task 0_0: a backfill or rescale is publ.*again"):
        start_positions(
            TopologyPlan(builder.build(), "app"), TaskId(0, 0), [partition], committed, lambda _: {}
        )
