"""Where a task begins to read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import pytest

from pystreams import FatalStreamsError, StreamsBuilder, TaskId, TopicPartition
from pystreams.runtime.cluster.committed_offsets import CommittedOffset, OffsetRange
from pystreams.runtime.tasks.start_positions import start_positions
from pystreams.serdes import STRING
from pystreams.topology.plan.topology_plan import TopologyPlan

Policy = Literal["earliest", "latest", "none"]
PARTITION = TopicPartition("in", 0)
HELD = OffsetRange(beginning=3, end=9, high_watermark=11)


def position(offset_reset: Policy | None, committed: int | None = None) -> int | None:
    builder = StreamsBuilder()
    stream = builder.stream("in", key_serde=STRING, value_serde=STRING, offset_reset=offset_reset)
    stream.foreach(print)
    offsets = {} if committed is None else {PARTITION: CommittedOffset(committed, "")}

    def offset_ranges(partitions: Sequence[TopicPartition]) -> dict[TopicPartition, OffsetRange]:
        return dict.fromkeys(partitions, HELD)

    plan = TopologyPlan(builder.build(), "app")
    return start_positions(plan, TaskId(0, 0), [PARTITION], offsets, offset_ranges)[PARTITION]


@pytest.mark.parametrize("offset_reset", [None, "earliest", "latest", "none"])
def test_a_committed_offset_comes_before_every_policy(offset_reset: Policy | None) -> None:
    assert position(offset_reset, committed=5) == 5


def test_a_source_without_policy_leaves_it_to_the_consumer() -> None:
    assert position(None) is None


def test_earliest_begins_at_the_first_offset_the_broker_holds() -> None:
    assert position("earliest") == 3


def test_latest_begins_at_the_end_that_committed_readers_see() -> None:
    assert position("latest") == 9


def test_none_refuses_to_begin_and_names_the_partition_the_source_and_the_cure() -> None:
    wanted = r"task 0_0: in-0 has no committed offset and source 'KSTREAM-SOURCE-0000000000'"

    with pytest.raises(FatalStreamsError, match=wanted):
        position("none")
